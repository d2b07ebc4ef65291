#include "tests/support/mqtt_peer.h"

#include <mqtt_protocol.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <mosquitto.h>

#include "tests/test.h"

#define KEEPALIVE_S 600

struct mqtt_peer {
    struct mosquitto *client;
    int reason; /* of the last answer; 0x80 and more: a refusal */
    bool is_connected, is_granted;
    int acknowledged; /* the last one */
    struct mqtt_heard *heard, **end;
    size_t n_heard;
};

/* Called by the library, in turn(). Nothing here may end the test. */

static void
take_properties(struct mqtt_heard *h, const mosquitto_property *all)
{
    const mosquitto_property *at = all;
    char *name, *value;
    bool again = false;

    if (!mosquitto_property_read_string(all, MQTT_PROP_CONTENT_TYPE,
                                        &h->content_type, false))
        h->content_type = strdup("");
    while (h->n_properties < MQTT_PEER_PROPERTIES &&
           (at = mosquitto_property_read_string_pair(
                at, MQTT_PROP_USER_PROPERTY, &name, &value, again))) {
        h->properties[h->n_properties].name = name;
        h->properties[h->n_properties++].value = value;
        again = true;
    }
}

static void
on_message(struct mosquitto *client, void *user,
           const struct mosquitto_message *m, const mosquitto_property *all)
{
    struct mqtt_peer *p = user;
    struct mqtt_heard *h = calloc(1, sizeof(*h));

    (void)client;
    h->topic = strdup(m->topic);
    h->payload = calloc(1, (size_t)m->payloadlen + 1);
    if (m->payloadlen > 0)
        memcpy(h->payload, m->payload, (size_t)m->payloadlen);
    h->qos = m->qos;
    h->is_retained = m->retain;
    take_properties(h, all);
    *p->end = h;
    p->end = &h->next;
    p->n_heard++;
}

static void
on_connect(struct mosquitto *client, void *user, int reason, int flags,
           const mosquitto_property *all)
{
    struct mqtt_peer *p = user;

    (void)client, (void)flags, (void)all;
    p->reason = reason;
    p->is_connected = true;
}

static void
on_subscribe(struct mosquitto *client, void *user, int mid, int n,
             const int *granted, const mosquitto_property *all)
{
    struct mqtt_peer *p = user;

    (void)client, (void)mid, (void)n, (void)all;
    p->reason = granted[0];
    p->is_granted = true;
}

static void
on_publish(struct mosquitto *client, void *user, int mid, int reason,
           const mosquitto_property *all)
{
    struct mqtt_peer *p = user;

    (void)client, (void)all;
    p->reason = reason;
    p->acknowledged = mid;
}

/* Waits until something can be read or written, and does that. */
static void
turn(struct mqtt_peer *p)
{
    struct pollfd fd = {.fd = mosquitto_socket(p->client), .events = POLLIN};
    int rc = MOSQ_ERR_SUCCESS;

    if (mosquitto_want_write(p->client))
        fd.events |= POLLOUT;
    assert_int_equal(poll(&fd, 1, -1), 1);
    if (fd.revents & (POLLIN | POLLHUP | POLLERR))
        rc = mosquitto_loop_read(p->client, 1);
    if (!rc && (fd.revents & POLLOUT))
        rc = mosquitto_loop_write(p->client, 1);
    if (rc)
        fail_msg("MQTT: %s", mosquitto_strerror(rc));
    if (p->reason >= 0x80)
        fail_msg("MQTT: %s", mosquitto_reason_string(p->reason));
}

struct mqtt_peer *
mqtt_peer_tell(const struct mosquittod *m)
{
    struct mqtt_peer *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    p->end = &p->heard;
    assert_int_equal(mosquitto_lib_init(), MOSQ_ERR_SUCCESS);
    p->client = mosquitto_new(NULL, true, p);
    assert_non_null(p->client);
    mosquitto_int_option(p->client, MOSQ_OPT_PROTOCOL_VERSION,
                         MQTT_PROTOCOL_V5);
    mosquitto_int_option(p->client, MOSQ_OPT_TCP_NODELAY, 1);
    if (m->is_tls)
        mosquitto_tls_set(p->client, m->certificate.ca, NULL, NULL, NULL, NULL);
    mosquitto_connect_v5_callback_set(p->client, on_connect);
    mosquitto_subscribe_v5_callback_set(p->client, on_subscribe);
    mosquitto_message_v5_callback_set(p->client, on_message);
    mosquitto_publish_v5_callback_set(p->client, on_publish);
    assert_int_equal(
        mosquitto_connect(p->client, "127.0.0.1", (int)m->port, KEEPALIVE_S),
        MOSQ_ERR_SUCCESS);
    while (!p->is_connected)
        turn(p);
    return p;
}

struct mqtt_peer *
mqtt_peer_hear(const struct mosquittod *m, const char *filter, int qos)
{
    struct mqtt_peer *p = mqtt_peer_tell(m);

    assert_int_equal(mosquitto_subscribe(p->client, NULL, filter, qos),
                     MOSQ_ERR_SUCCESS);
    while (!p->is_granted)
        turn(p);
    return p;
}

static void
free_heard(struct mqtt_heard *h)
{
    free(h->topic);
    free(h->payload);
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
    mosquitto_disconnect(p->client);
    mosquitto_destroy(p->client);
    mosquitto_lib_cleanup();
    while (p->heard) {
        struct mqtt_heard *next = p->heard->next;

        free_heard(p->heard);
        p->heard = next;
    }
    free(p);
}

const struct mqtt_heard *
mqtt_peer_await(struct mqtt_peer *p, const char *topic, size_t n)
{
    struct mqtt_heard **at = &p->heard;

    for (;; at = &(*at)->next) {
        while (!*at)
            turn(p);
        if (!strcmp((*at)->topic, topic) && --n == 0)
            return *at;
    }
}

size_t
mqtt_peer_count(const struct mqtt_peer *p)
{
    return p->n_heard;
}

const char *
mqtt_heard_property(const struct mqtt_heard *h, const char *name)
{
    for (size_t i = 0; i < h->n_properties; i++)
        if (!strcmp(h->properties[i].name, name))
            return h->properties[i].value;
    return NULL;
}

void
mqtt_peer_say(struct mqtt_peer *p, const struct mqtt_saying *saying)
{
    const char *key_name =
        saying->key_name ? saying->key_name : "idempotency-key";
    mosquitto_property *all = NULL;
    int rc = MOSQ_ERR_SUCCESS, mid = 0;

    if (saying->type)
        rc = mosquitto_property_add_string(&all, MQTT_PROP_CONTENT_TYPE,
                                           saying->type);
    if (!rc && saying->key)
        rc = mosquitto_property_add_string_pair(&all, MQTT_PROP_USER_PROPERTY,
                                                key_name, saying->key);
    if (!rc && saying->correlation.size > 0)
        rc = mosquitto_property_add_binary(&all, MQTT_PROP_CORRELATION_DATA,
                                           saying->correlation.data,
                                           (uint16_t)saying->correlation.size);
    if (!rc)
        rc = mosquitto_publish_v5(p->client, &mid, saying->topic,
                                  (int)saying->payload.size,
                                  saying->payload.data, 1, false, all);
    assert_int_equal(rc, MOSQ_ERR_SUCCESS);
    mosquitto_property_free_all(&all);
    while (p->acknowledged != mid)
        turn(p);
}
