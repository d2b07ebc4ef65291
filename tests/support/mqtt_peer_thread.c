#include <errno.h>
#include <mqtt_protocol.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/mqtt_peer_inside.h"

#define KEEPALIVE_S 60

/* Until the next try to connect, and for the library's own clock. */
#define RETRY_MS 10
#define TICK_MS  500

static void
tell_news(struct mqtt_peer *p)
{
    p->news++;
    pthread_cond_broadcast(&p->changed);
}

/* What has come */

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
    p->heard =
        mqtt_peer_grow(p->heard, p->n_heard, sizeof(struct mqtt_heard *));
    p->heard[p->n_heard++] = h;
    tell_news(p);
    pthread_mutex_unlock(&p->lock);
}

static void
become_connected(struct mqtt_peer *p)
{
    pthread_mutex_lock(&p->lock);
    p->is_connected = true;
    tell_news(p);
    pthread_mutex_unlock(&p->lock);
}

/* For good: no other try would go otherwise. */
static void
become_refused(struct mqtt_peer *p, const char *why)
{
    pthread_mutex_lock(&p->lock);
    p->is_refused = true;
    snprintf(p->why, sizeof(p->why), "refused: %s", why);
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
        become_refused(p, p->join.is_311 ? mosquitto_connack_string(reason)
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
        become_refused(p, "a filter was not granted");
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

/* The connection */

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
    if (rc && !p->is_refused)
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

void *
mqtt_peer_run(void *user)
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
