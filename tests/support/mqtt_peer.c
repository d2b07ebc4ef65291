#include "tests/support/mqtt_peer.h"

#include <mqtt_protocol.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/mqtt_peer_inside.h"
#include "tests/support/patience.h"
#include "tests/test.h"

#define WINDOW 20

/* How many messages a failure shows, and how much of each. */
#define SHOWN       12
#define SHOWN_BYTES 200

void *
mqtt_peer_grow(void *array, size_t n, size_t size)
{
    void *more = array;

    if ((n & (n - 1)) == 0)
        more = realloc(array, (n ? n * 2 : 1) * size);
    if (!more)
        abort(); /* on a thread that cannot fail the test */
    return more;
}

/* Waiting */

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
    end.tv_sec += PATIENCE_MS / 1000;
    while (p->news == news && !rc)
        rc = pthread_cond_timedwait(&p->changed, &p->lock, &end);
    if (p->news != news)
        return;
    show(p);
    pthread_mutex_unlock(&p->lock);
    fail_msg("MQTT: nothing came for %d ms, waiting for %s", PATIENCE_MS, what);
}

static void
await_connected(struct mqtt_peer *p, bool is_wanted)
{
    pthread_mutex_lock(&p->lock);
    while (p->is_connected != is_wanted) {
        /* Failing again and again is news, but not what is waited for. */
        if (p->is_refused) {
            show(p);
            pthread_mutex_unlock(&p->lock);
            fail_msg("MQTT: %s", p->why);
        }
        await_news(p, is_wanted ? "a connection" : "its end");
    }
    pthread_mutex_unlock(&p->lock);
}

/* Its life */

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
    assert_int_equal(pthread_create(&p->thread, NULL, mqtt_peer_run, p), 0);
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
    p->sayings = mqtt_peer_grow(p->sayings, p->n_sayings, sizeof(struct said));
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
