/*
 * mqtt_peer.h - clients of an MQTT broker, for tests: one that hears, or one
 * that tells. On libmosquitto, each with a thread of its own.
 *
 *     struct mqtt_peer *p = mqtt_peer_hear(&m, &(struct mqtt_hearing){
 *                               .filters = {"tidings/#"}});
 *     const struct mqtt_heard *h = mqtt_peer_await(p, "tidings/status", 1);
 *     ... h->payload ...
 *     mqtt_peer_close(p);
 *
 *     struct mqtt_peer *p = mqtt_peer_tell(&m, NULL);
 *
 *     mqtt_peer_say(p, &(struct mqtt_saying){.topic = "plant/7/changes",
 *                          .payload = SLICE("{...}"), .key = "k1"});
 *     mqtt_peer_await_said(p, 1);
 *
 * Both connect again when the MQTT broker has gone away, as soon as it is back.
 * One that hears subscribes with each connection; with `keeps_session` nothing
 * passes it by. One that tells says again what was not acknowledged, with the
 * same key and in the same order: what it has said may arrive twice, but
 * arrives.
 *
 * Waiting ends with a failure that prints what was heard when nothing at all
 * has come for PATIENCE_MS.
 */
#ifndef TESTS_SUPPORT_MQTT_PEER_H
#define TESTS_SUPPORT_MQTT_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/slice.h"
#include "tests/support/mosquitto.h"

#define MQTT_PEER_FILTERS    8
#define MQTT_PEER_PROPERTIES 16

struct mqtt_peer;

/* How to connect. All text is lent until mqtt_peer_close. */
struct mqtt_joining {
    const char *client_id; /* NULL: one is made */
    bool is_311;           /* MQTT 3.1.1, else 5 */
    const char *user, *password;
    const char *cert, *key; /* with TLS; the CA is the MQTT broker's */
    unsigned window; /* of those that tell: how many may be unacknowledged; 0:
                        20 */
};

struct mqtt_hearing {
    struct mqtt_joining join;
    const char *filters[MQTT_PEER_FILTERS];
    int qos;            /* 0: 1 */
    bool keeps_session; /* also while it is away. Retained messages come only
                           with the first subscription */
    unsigned receive_maximum; /* MQTT 5; 0: as many as there are */
};

/* A message that was heard; lent until mqtt_peer_close. */
struct mqtt_heard {
    char *topic;
    struct slice payload; /* and a NUL behind it */
    int qos;
    bool is_retained;
    unsigned connection; /* on which it came, from 1 */

    /* MQTT 5 */
    char *content_type; /* "": none */

    struct {
        char *name, *value;
    } properties[MQTT_PEER_PROPERTIES];

    size_t n_properties;
};

/* A message to be told. Copied. */
struct mqtt_saying {
    const char *topic;
    struct slice payload;
    bool is_retained;

    /* MQTT 5 */
    const char *type;         /* content type; NULL: none */
    const char *key;          /* user property "idempotency-key"; NULL: none */
    const char *key_name;     /* if it is to be called otherwise: "id" */
    struct slice correlation; /* empty: none */
};

/* Connects, and waits until it is connected; mqtt_peer_hear, until its filters
 * are granted. `joining` may be NULL. */
struct mqtt_peer *mqtt_peer_hear(const struct mosquittod *m,
                                 const struct mqtt_hearing *hearing);
struct mqtt_peer *mqtt_peer_tell(const struct mosquittod *m,
                                 const struct mqtt_joining *joining);

/* Disconnects politely. NULL is allowed. */
void mqtt_peer_close(struct mqtt_peer *p);

/* Goes away, keeping its session if it has one; comes back. */
void mqtt_peer_leave(struct mqtt_peer *p);
void mqtt_peer_return(struct mqtt_peer *p);

/* Hearing */

/* How many messages there were so far; the i-th, from 0, which there must be.
 */
size_t mqtt_peer_count(struct mqtt_peer *p);
const struct mqtt_heard *mqtt_peer_at(struct mqtt_peer *p, size_t i);

/* Waits until there are `n` messages, on that topic alone (NULL: on any); the
 * n-th of them. */
const struct mqtt_heard *mqtt_peer_await(struct mqtt_peer *p, const char *topic,
                                         size_t n);

/* Goes over the messages, waiting for each: the next one from *at on, on that
 * topic (NULL: any); *at becomes the number behind it. */
const struct mqtt_heard *mqtt_peer_next(struct mqtt_peer *p, size_t *at,
                                        const char *topic);

/* Waits until one of the messages, also of those heard before, is as `is_it`
 * says, which is asked once for each in order; `what` names it in the failure.
 */
typedef bool mqtt_heard_fn(const struct mqtt_heard *heard, void *user);
const struct mqtt_heard *mqtt_peer_seek(struct mqtt_peer *p,
                                        mqtt_heard_fn *is_it, void *user,
                                        const char *what);

/* The value of a user property; NULL: it has none. */
const char *mqtt_heard_property(const struct mqtt_heard *h, const char *name);

/* Telling */

/* Returns at once; the number of the saying, from 1. */
size_t mqtt_peer_say(struct mqtt_peer *p, const struct mqtt_saying *saying);

/* How many were acknowledged. They are in order. */
size_t mqtt_peer_said(struct mqtt_peer *p);

/* Waits until the first `n` are. */
void mqtt_peer_await_said(struct mqtt_peer *p, size_t n);

/* How many times the MQTT broker gave a reason against it, which it took for
 * all that (MQTT 5). */
size_t mqtt_peer_refused(struct mqtt_peer *p);

/* Connections so far. */
unsigned mqtt_peer_connections(struct mqtt_peer *p);

#endif
