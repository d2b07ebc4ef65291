#include "tests/support/mqtt_peer.h"

#include <errno.h>
#include <mqtt_protocol.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <mosquitto.h>

#define KEEPALIVE_S 60
#define WINDOW      20

/* Until the next try to connect, and for the library's own clock. */
#define RETRY_MS 10
#define TICK_MS  500

/* How many messages a failure shows, and how much of each. */
#define SHOWN       12
#define SHOWN_BYTES 200

/* A saying of ours: copied, with its properties made. */
struct said {
    char *topic;
    char *payload;
    int size;
    bool is_retained;
    mosquitto_property *properties;
    int mid; /* on the connection at hand */
};

struct mqtt_peer {
    const struct mosquittod *broker;
    struct mqtt_joining join;
    struct mqtt_hearing hearing; /* of those that hear */
    bool is_telling;
    struct mosquitto *client; /* the thread's */
    int wake;                 /* eventfd */
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t news; /* grows with whatever is of interest */
    bool is_stopping, is_away;
    bool is_connected; /* and its filters are granted */
    unsigned connections;
    char why[200]; /* the last failure */

    struct mqtt_heard **heard;
    size_t n_heard;

    struct said *sayings;
    size_t n_sayings, n_begun, n_acked, n_refused;
};

static void
tell_news(struct mqtt_peer *p)
{
    p->news++;
    pthread_cond_broadcast(&p->changed);
}

/* Room for one more of an array that has `n`: doubles at powers of two. */
static void *
grow(void *array, size_t n, size_t size)
{
    void *more = array;

    if ((n & (n - 1)) == 0)
        more = realloc(array, (n ? n * 2 : 1) * size);
    if (!more)
        abort(); /* on a thread that cannot fail the test */
    return more;
}

/* What has come: on the peer's thread */

static void
take_properties(struct mqtt_heard *h, const mosquitto_property *all)
{
    const mosquitto_property *at;
    char *name, *value;
    bool again = false;

    if (!mosquitto_property_read_string(all, MQTT_PROP_CONTENT_TYPE,
                                        &h->content_type, false))
        h->content_type = strdup("");
    for (at = all; h->n_properties < MQTT_PEER_PROPERTIES; again = true) {
        at = mosquitto_property_read_string_pair(at, MQTT_PROP_USER_PROPERTY,
                                                 &name, &value, again);
        if (!at)
            break;
        h->properties[h->n_properties].name = name;
        h->properties[h->n_properties++].value = value;
    }
}

static void
on_message(struct mosquitto *client, void *user,
           const struct mosquitto_message *m, const mosquitto_property *all)
{
    struct mqtt_peer *p = user;
    struct mqtt_heard *h = calloc(1, sizeof(*h));
    char *payload = malloc((size_t)m->payloadlen + 1);

    (void)client;
    if (!h || !payload)
        abort();
    if (m->payloadlen)
        memcpy(payload, m->payload, (size_t)m->payloadlen);
    payload[m->payloadlen] = '\0';
    h->payload = (struct slice){payload, (size_t)m->payloadlen};
    h->topic = strdup(m->topic);
    h->qos = m->qos;
    h->is_retained = m->retain;
    take_properties(h, all);

    pthread_mutex_lock(&p->lock);
    h->connection = p->connections;
    p->heard = grow(p->heard, p->n_heard, sizeof(struct mqtt_heard *));
    p->heard[p->n_heard++] = h;
    tell_news(p);
    pthread_mutex_unlock(&p->lock);
}

static void
free_heard(struct mqtt_heard *h)
{
    free(h->topic);
    free((char *)h->payload.data);
    free(h->content_type);
    for (size_t i = 0; i < h->n_properties; i++) {
        free(h->properties[i].name);
        free(h->properties[i].value);
    }
    free(h);
}

static void
become_connected(struct mqtt_peer *p)
{
    pthread_mutex_lock(&p->lock);
    p->is_connected = true;
    tell_news(p);
    pthread_mutex_unlock(&p->lock);
}

static void
on_connect(struct mosquitto *client, void *user, int reason, int flags,
           const mosquitto_property *all)
{
    struct mqtt_peer *p = user;
    const struct mqtt_hearing *h = &p->hearing;
    int n = 0;

    (void)flags, (void)all;
    if (reason) {
        snprintf(p->why, sizeof(p->why), "refused: %s",
                 p->join.is_311 ? mosquitto_connack_string(reason)
                                : mosquitto_reason_string(reason));
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->connections++;
    pthread_mutex_unlock(&p->lock);
    while (n < MQTT_PEER_FILTERS && h->filters[n])
        n++;
    if (n == 0)
        become_connected(p);
    else
        mosquitto_subscribe_multiple(
            client, NULL, n, (char *const *)h->filters, h->qos,
            h->keeps_session && !p->join.is_311 ? MQTT_SUB_OPT_SEND_RETAIN_NEW
                                                : 0,
            NULL);
}

static void
on_subscribe(struct mosquitto *client, void *user, int mid, int n,
             const int *granted, const mosquitto_property *all)
{
    struct mqtt_peer *p = user;
    bool is_granted = true;

    (void)client, (void)mid, (void)all;
    for (int i = 0; i < n; i++)
        is_granted = is_granted && granted[i] < 0x80;
    if (is_granted)
        become_connected(p);
    else
        snprintf(p->why, sizeof(p->why), "a filter was not granted");
}

static void
on_publish(struct mosquitto *client, void *user, int mid, int reason,
           const mosquitto_property *all)
{
    struct mqtt_peer *p = user;

    (void)client, (void)all;
    pthread_mutex_lock(&p->lock);
    /* An MQTT broker acknowledges in order (section 4.6). */
    if (p->n_acked < p->n_begun && p->sayings[p->n_acked].mid == mid)
        p->n_acked++;
    else
        snprintf(p->why, sizeof(p->why), "acknowledged out of order");
    p->n_refused += reason >= 0x80;
    tell_news(p);
    pthread_mutex_unlock(&p->lock);
}

/* The connection: on the peer's thread */

static struct mosquitto *
make_client(struct mqtt_peer *p)
{
    const struct mqtt_joining *j = &p->join;
    struct mosquitto *client =
        mosquitto_new(j->client_id, !p->hearing.keeps_session, p);

    if (!client)
        abort();
    mosquitto_int_option(client, MOSQ_OPT_PROTOCOL_VERSION,
                         j->is_311 ? MQTT_PROTOCOL_V311 : MQTT_PROTOCOL_V5);
    mosquitto_int_option(client, MOSQ_OPT_SEND_MAXIMUM, (int)j->window);
    mosquitto_int_option(client, MOSQ_OPT_TCP_NODELAY, 1);
    if (j->user)
        mosquitto_username_pw_set(client, j->user, j->password);
    if (p->broker->is_tls)
        mosquitto_tls_set(client, p->broker->certificate.ca, NULL, j->cert,
                          j->key, NULL);
    mosquitto_connect_v5_callback_set(client, on_connect);
    mosquitto_subscribe_v5_callback_set(client, on_subscribe);
    mosquitto_message_v5_callback_set(client, on_message);
    mosquitto_publish_v5_callback_set(client, on_publish);
    return client;
}

static int
connect_anew(struct mqtt_peer *p)
{
    const struct mqtt_hearing *h = &p->hearing;
    mosquitto_property *all = NULL;
    int rc;

    p->client = make_client(p);
    if (!p->join.is_311 && h->keeps_session)
        mosquitto_property_add_int32(&all, MQTT_PROP_SESSION_EXPIRY_INTERVAL,
                                     UINT32_MAX);
    if (!p->join.is_311 && h->receive_maximum)
        mosquitto_property_add_int16(&all, MQTT_PROP_RECEIVE_MAXIMUM,
                                     (uint16_t)h->receive_maximum);
    rc = mosquitto_connect_bind_v5(p->client, "127.0.0.1", (int)p->broker->port,
                                   KEEPALIVE_S, NULL, all);
    mosquitto_property_free_all(&all);
    return rc;
}

/* One that hears stays the same client, which at QoS 2 knows what it has begun
 * to hear. One that tells becomes a new one: nothing of the library's is sent
 * again beside what is ours. */
static int
join(struct mqtt_peer *p)
{
    if (!p->is_telling && p->client)
        return mosquitto_reconnect(p->client);
    mosquitto_destroy(p->client);
    p->n_begun = p->n_acked;
    return connect_anew(p);
}

static void
become_lost(struct mqtt_peer *p, int rc)
{
    pthread_mutex_lock(&p->lock);
    p->is_connected = false;
    if (rc)
        snprintf(p->why, sizeof(p->why), "%s",
                 rc == MOSQ_ERR_ERRNO ? strerror(errno)
                                      : mosquitto_strerror(rc));
    tell_news(p);
    pthread_mutex_unlock(&p->lock);
}

static void
say_more(struct mqtt_peer *p)
{
    pthread_mutex_lock(&p->lock);
    while (p->is_connected && p->n_begun < p->n_sayings &&
           p->n_begun - p->n_acked < p->join.window) {
        struct said *s = &p->sayings[p->n_begun];

        /* Its acknowledgement is read by this thread, later. */
        if (mosquitto_publish_v5(p->client, &s->mid, s->topic, s->size,
                                 s->payload, 1, s->is_retained, s->properties))
            break;
        p->n_begun++;
    }
    pthread_mutex_unlock(&p->lock);
}

/* Sleeps until there is something to do, and does it. */
static int
turn(struct mqtt_peer *p, int timeout_ms)
{
    int socket = p->client ? mosquitto_socket(p->client) : -1;
    struct pollfd fds[] = {{.fd = p->wake, .events = POLLIN},
                           {.fd = socket, .events = POLLIN}};
    uint64_t n;
    int rc = 0;

    if (socket >= 0 && mosquitto_want_write(p->client))
        fds[1].events |= POLLOUT;
    poll(fds, 2, timeout_ms);
    if (fds[0].revents && read(p->wake, &n, sizeof(n)) < 0)
        abort();
    if (socket < 0)
        return 0;
    if (fds[1].revents & (POLLIN | POLLHUP | POLLERR))
        rc = mosquitto_loop_read(p->client, 1);
    if (!rc && (fds[1].revents & POLLOUT))
        rc = mosquitto_loop_write(p->client, 1);
    return rc ? rc : mosquitto_loop_misc(p->client);
}

static void *
run(void *user)
{
    struct mqtt_peer *p = user;
    bool is_joined = false;

    for (;;) {
        bool is_stopping, is_away;
        int rc;

        pthread_mutex_lock(&p->lock);
        is_stopping = p->is_stopping;
        is_away = p->is_away || is_stopping;
        pthread_mutex_unlock(&p->lock);

        if (is_joined && is_away) {
            mosquitto_disconnect(p->client);
            for (int i = 0; i < 100 && mosquitto_want_write(p->client); i++)
                turn(p, RETRY_MS);
            is_joined = false;
            become_lost(p, 0);
        }
        if (is_stopping)
            break;
        if (!is_joined && !is_away) {
            rc = join(p);
            is_joined = !rc;
            if (rc)
                become_lost(p, rc);
        }
        if (is_joined)
            say_more(p);
        rc = turn(p, is_joined ? TICK_MS : is_away ? -1 : RETRY_MS);
        if (is_joined && rc) {
            is_joined = false;
            become_lost(p, rc);
        }
    }
    mosquitto_destroy(p->client);
    return NULL;
}

/* Waiting: on the test's thread */

static void
wake(struct mqtt_peer *p)
{
    uint64_t one = 1;

    if (write(p->wake, &one, sizeof(one)) != sizeof(one))
        abort();
}

static void
show(const struct mqtt_peer *p)
{
    print_error("%u connections, %zu heard, %zu of %zu said; %s\n",
                p->connections, p->n_heard, p->n_acked, p->n_sayings, p->why);
    for (size_t i = p->n_heard > SHOWN ? p->n_heard - SHOWN : 0; i < p->n_heard;
         i++)
        print_error("%zu: %s%s %.*s\n", i, p->heard[i]->topic,
                    p->heard[i]->is_retained ? " (retained)" : "", SHOWN_BYTES,
                    p->heard[i]->payload.data);
}

/* With the lock: waits until something has come about; if nothing does, lets
 * the lock go and fails the test. */
static void
await_news(struct mqtt_peer *p, const char *what)
{
    uint64_t news = p->news;
    struct timespec end;
    int rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += MQTT_PEER_WAIT_MS / 1000;
    while (p->news == news && !rc)
        rc = pthread_cond_timedwait(&p->changed, &p->lock, &end);
    if (p->news != news)
        return;
    show(p);
    pthread_mutex_unlock(&p->lock);
    fail_msg("MQTT: nothing came for %d ms, waiting for %s", MQTT_PEER_WAIT_MS,
             what);
}

static void
await_connected(struct mqtt_peer *p, bool is_wanted)
{
    pthread_mutex_lock(&p->lock);
    while (p->is_connected != is_wanted) {
        /* Failing again and again is news, but not what is waited for. */
        if (strncmp(p->why, "refused", 7) == 0 || strstr(p->why, "granted")) {
            show(p);
            pthread_mutex_unlock(&p->lock);
            fail_msg("MQTT: %s", p->why);
        }
        await_news(p, is_wanted ? "a connection" : "its end");
    }
    pthread_mutex_unlock(&p->lock);
}

static struct mqtt_peer *
open_peer(const struct mosquittod *m, const struct mqtt_joining *joining,
          const struct mqtt_hearing *hearing)
{
    struct mqtt_peer *p = calloc(1, sizeof(*p));
    pthread_condattr_t steady;

    assert_non_null(p);
    assert_int_equal(mosquitto_lib_init(), MOSQ_ERR_SUCCESS);
    p->broker = m;
    p->is_telling = !hearing;
    if (hearing)
        p->hearing = *hearing;
    if (joining)
        p->join = *joining;
    if (!p->hearing.qos)
        p->hearing.qos = 1;
    if (!p->join.window)
        p->join.window = WINDOW;
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(p->wake >= 0);
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&p->changed, &steady);
    pthread_condattr_destroy(&steady);
    assert_int_equal(pthread_create(&p->thread, NULL, run, p), 0);
    await_connected(p, true);
    return p;
}

struct mqtt_peer *
mqtt_peer_hear(const struct mosquittod *m, const struct mqtt_hearing *hearing)
{
    return open_peer(m, &hearing->join, hearing);
}

struct mqtt_peer *
mqtt_peer_tell(const struct mosquittod *m, const struct mqtt_joining *joining)
{
    return open_peer(m, joining, NULL);
}

void
mqtt_peer_close(struct mqtt_peer *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->is_stopping = true;
    pthread_mutex_unlock(&p->lock);
    wake(p);
    pthread_join(p->thread, NULL);
    for (size_t i = 0; i < p->n_heard; i++)
        free_heard(p->heard[i]);
    free(p->heard);
    for (size_t i = 0; i < p->n_sayings; i++) {
        free(p->sayings[i].topic);
        free(p->sayings[i].payload);
        mosquitto_property_free_all(&p->sayings[i].properties);
    }
    free(p->sayings);
    close(p->wake);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
    mosquitto_lib_cleanup();
}

static void
be_away(struct mqtt_peer *p, bool is_away)
{
    pthread_mutex_lock(&p->lock);
    p->is_away = is_away;
    pthread_mutex_unlock(&p->lock);
    wake(p);
    await_connected(p, !is_away);
}

void
mqtt_peer_leave(struct mqtt_peer *p)
{
    be_away(p, true);
}

void
mqtt_peer_return(struct mqtt_peer *p)
{
    be_away(p, false);
}

unsigned
mqtt_peer_connections(struct mqtt_peer *p)
{
    unsigned n;

    pthread_mutex_lock(&p->lock);
    n = p->connections;
    pthread_mutex_unlock(&p->lock);
    return n;
}

/* Hearing */

size_t
mqtt_peer_count(struct mqtt_peer *p)
{
    size_t n;

    pthread_mutex_lock(&p->lock);
    n = p->n_heard;
    pthread_mutex_unlock(&p->lock);
    return n;
}

const struct mqtt_heard *
mqtt_peer_at(struct mqtt_peer *p, size_t i)
{
    const struct mqtt_heard *h = NULL;

    pthread_mutex_lock(&p->lock);
    if (i < p->n_heard)
        h = p->heard[i];
    pthread_mutex_unlock(&p->lock);
    assert_non_null(h);
    return h;
}

struct topic_seek {
    const char *topic;
    size_t n; /* how many are still to come */
};

static bool
is_on_topic(const struct mqtt_heard *h, void *user)
{
    struct topic_seek *s = user;

    if (!s->topic || strcmp(h->topic, s->topic) == 0)
        s->n--;
    return s->n == 0;
}

/* From *at on, which becomes the number behind it. */
static const struct mqtt_heard *
seek(struct mqtt_peer *p, size_t *at, mqtt_heard_fn *is_it, void *user,
     const char *what)
{
    const struct mqtt_heard *h = NULL;

    pthread_mutex_lock(&p->lock);
    while (!h) {
        while (*at == p->n_heard)
            await_news(p, what);
        h = p->heard[(*at)++];
        if (!is_it(h, user))
            h = NULL;
    }
    pthread_mutex_unlock(&p->lock);
    return h;
}

const struct mqtt_heard *
mqtt_peer_seek(struct mqtt_peer *p, mqtt_heard_fn *is_it, void *user,
               const char *what)
{
    size_t at = 0;

    return seek(p, &at, is_it, user, what);
}

const struct mqtt_heard *
mqtt_peer_next(struct mqtt_peer *p, size_t *at, const char *topic)
{
    struct topic_seek s = {topic, 1};

    return seek(p, at, is_on_topic, &s, topic ? topic : "a message");
}

const struct mqtt_heard *
mqtt_peer_await(struct mqtt_peer *p, const char *topic, size_t n)
{
    struct topic_seek s = {topic, n};
    size_t at = 0;

    assert_true(n > 0);
    return seek(p, &at, is_on_topic, &s, topic ? topic : "a message");
}

const char *
mqtt_heard_property(const struct mqtt_heard *h, const char *name)
{
    for (size_t i = 0; i < h->n_properties; i++)
        if (strcmp(h->properties[i].name, name) == 0)
            return h->properties[i].value;
    return NULL;
}

/* Telling */

static mosquitto_property *
make_properties(const struct mqtt_saying *saying)
{
    mosquitto_property *all = NULL;

    if (saying->type)
        assert_int_equal(mosquitto_property_add_string(
                             &all, MQTT_PROP_CONTENT_TYPE, saying->type),
                         MOSQ_ERR_SUCCESS);
    if (saying->key)
        assert_int_equal(
            mosquitto_property_add_string_pair(
                &all, MQTT_PROP_USER_PROPERTY,
                saying->key_name ? saying->key_name : "idempotency-key",
                saying->key),
            MOSQ_ERR_SUCCESS);
    if (saying->correlation.size)
        assert_int_equal(
            mosquitto_property_add_binary(&all, MQTT_PROP_CORRELATION_DATA,
                                          saying->correlation.data,
                                          (uint16_t)saying->correlation.size),
            MOSQ_ERR_SUCCESS);
    return all;
}

size_t
mqtt_peer_say(struct mqtt_peer *p, const struct mqtt_saying *saying)
{
    struct said s = {.topic = strdup(saying->topic),
                     .payload = malloc(saying->payload.size + 1),
                     .size = (int)saying->payload.size,
                     .is_retained = saying->is_retained,
                     .properties = make_properties(saying)};
    size_t n;

    assert_true(p->is_telling);
    assert_true(s.topic && s.payload);
    if (s.size)
        memcpy(s.payload, saying->payload.data, saying->payload.size);

    pthread_mutex_lock(&p->lock);
    p->sayings = grow(p->sayings, p->n_sayings, sizeof(struct said));
    p->sayings[p->n_sayings++] = s;
    n = p->n_sayings;
    pthread_mutex_unlock(&p->lock);
    wake(p);
    return n;
}

size_t
mqtt_peer_said(struct mqtt_peer *p)
{
    size_t n;

    pthread_mutex_lock(&p->lock);
    n = p->n_acked;
    pthread_mutex_unlock(&p->lock);
    return n;
}

void
mqtt_peer_await_said(struct mqtt_peer *p, size_t n)
{
    pthread_mutex_lock(&p->lock);
    while (p->n_acked < n)
        await_news(p, "an acknowledgement");
    pthread_mutex_unlock(&p->lock);
}

size_t
mqtt_peer_refused(struct mqtt_peer *p)
{
    size_t n;

    pthread_mutex_lock(&p->lock);
    n = p->n_refused;
    pthread_mutex_unlock(&p->lock);
    return n;
}
