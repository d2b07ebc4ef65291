/*
 * mqtt_peer.h - clients of an MQTT broker, for tests: a subscriber or a
 * publisher, by MQTT 5 on libmosquitto.
 *
 *     struct mqtt_peer *p = mqtt_peer_hear(&m, "tidings/#", 1);
 *     const struct mqtt_heard *h = mqtt_peer_await(p, "tidings/status", 1);
 *     ... h->payload ...
 *     mqtt_peer_close(p);
 *
 *     struct mqtt_peer *p = mqtt_peer_tell(&m);
 *
 *     mqtt_peer_say(p, &(struct mqtt_saying){.topic = "plant/7/changes",
 *                          .payload = SLICE("{...}"), .key = "k1"});
 *
 * A peer has no thread: the MQTT broker and the sockets hold what comes while
 * the test does something else. A connection that ends fails the test.
 */
#ifndef TESTS_SUPPORT_MQTT_PEER_H
#define TESTS_SUPPORT_MQTT_PEER_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/slice.h"
#include "tests/support/mosquitto.h"

#define MQTT_PEER_PROPERTIES 16

struct mqtt_peer;

/* A message that was heard; lent until mqtt_peer_close. */
struct mqtt_heard {
    char *topic;
    char *payload; /* terminated */
    int qos;
    bool is_retained;
    char *content_type; /* "": none */

    struct {
        char *name, *value;
    } properties[MQTT_PEER_PROPERTIES]; /* of the user */

    size_t n_properties;
    struct mqtt_heard *next;
};

/* A message to publish. */
struct mqtt_saying {
    const char *topic;
    struct slice payload;
    const char *type;         /* content type; NULL: none */
    const char *key;          /* user property "idempotency-key"; NULL: none */
    const char *key_name;     /* if it is to be called otherwise: "id" */
    struct slice correlation; /* empty: none */
};

/* Connects, over TLS if the MQTT broker wants that; a subscriber waits until
 * its filter is granted. */
struct mqtt_peer *mqtt_peer_hear(const struct mosquittod *m, const char *filter,
                                 int qos);
struct mqtt_peer *mqtt_peer_tell(const struct mosquittod *m);

/* Disconnects politely. NULL is allowed. */
void mqtt_peer_close(struct mqtt_peer *p);

/* Waits until there are `n` messages on that topic; the n-th of them. */
const struct mqtt_heard *mqtt_peer_await(struct mqtt_peer *p, const char *topic,
                                         size_t n);

/* How many messages, on any topic, were heard while the test waited. */
size_t mqtt_peer_count(const struct mqtt_peer *p);

/* The value of a user property; NULL: it has none. */
const char *mqtt_heard_property(const struct mqtt_heard *h, const char *name);

/* Publishes with QoS 1, and waits until that is acknowledged. */
void mqtt_peer_say(struct mqtt_peer *p, const struct mqtt_saying *saying);

#endif
