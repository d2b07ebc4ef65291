/*
 * quiet_mqtt.h - the MQTT Client (broker/mqtt/mqtt.h) without a thread, a
 * socket and an MQTT broker: the test makes everything happen, in rounds, and
 * looks at the published messages.
 *
 * Tests that use this are linked with quiet_mqtt.c instead of mqtt/mqtt.c:
 * the linker takes no function from a part that a test's own files define
 * (tests/CMakeLists.txt).
 *
 *     mqtt_open -> quiet_mqtt_connect -> quiet_mqtt_turn: the owner publishes
 *                -> quiet_mqtt_acknowledge, _receive, _lose, ... -> turn ...
 *
 * One at a time. The test's thread; wakes come from others, too.
 */
#ifndef TESTS_UNIT_BRIDGE_QUIET_MQTT_H
#define TESTS_UNIT_BRIDGE_QUIET_MQTT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/mqtt/mqtt.h"

/* A message that was published, copied. */
struct quiet_message {
    int mid;
    int qos;
    bool is_retained;
    char *topic;
    char *payload; /* terminated, besides */
    size_t size;
    char *content_type; /* NULL: none */
    char *properties;   /* "name=value;name=value;" */
    bool is_acknowledged;
};

/* A filter that was subscribed to, or unsubscribed from (mid 0). */
struct quiet_filter {
    int mid;
    char *filter;
    bool wants_retained;
    bool is_over; /* it is unsubscribed from */
};

struct mqtt {
    struct mqtt_options options; /* client_id, will_* copied */

    /* The test's to change */
    unsigned window;      /* mqtt_window; 20 */
    int64_t keepalive_us; /* mqtt_keepalive_us; the configured one */
    size_t packet_bytes;  /* largest topic, payload and properties of a message;
                             1 MiB */
    bool takes_retained;  /* true */
    int max_qos;          /* 2 */
    bool has_no_memory;   /* mqtt_publish answers STATUS_MEMORY */
    /* Called in mqtt_publish, before it returns; or NULL. */
    void (*on_published)(const struct quiet_message *message);

    bool is_connected;
    int last_mid;
    struct quiet_message *published; /* all, in order */
    size_t n_published, published_capacity;
    struct quiet_filter *filters; /* all, in order */
    size_t n_filters, filters_capacity;
    atomic_uint wakes;    /* calls of mqtt_wake */
    atomic_bool is_woken; /* since the last turn */
    int64_t wait_us;      /* the answer of the last turn */
    unsigned n_proofs;    /* calls of mqtt_prove */
    bool was_dropped;     /* by mqtt_drop; lost comes with the next round */
    struct problem why_dropped;
    bool
        is_suspended; /* by mqtt_suspend, for state.why; the test disconnects */
    struct mqtt_state state; /* the answer of mqtt_state */
    bool has_stopped;
};

/* The open client; or NULL. */
extern struct mqtt *quiet_mqtt;

/* CONNACK, and lost. No turn is made. */
void quiet_mqtt_connect(bool has_session);
void quiet_mqtt_lose(void);

/* The end of a connection by mqtt_suspend: farewell, all acknowledged, lost. */
void quiet_mqtt_part(void);

/* A turn, and further ones as long as the client was woken meanwhile or wants
 * one at once.
 */
void quiet_mqtt_turn(void);

/* Waits until another thread wakes it, then quiet_mqtt_turn. */
void quiet_mqtt_await(void);

/* Published message number `i`, from 0; NULL: there are fewer. */
struct quiet_message *quiet_mqtt_message(size_t i);

/* Returns the first message from number *i on whose topic ends with
 * `topic_end`; sets *i to the number behind it. NULL: none. */
struct quiet_message *quiet_mqtt_find(size_t *i, const char *topic_end);

/* The value of a property, the caller's to free; NULL: it has none. */
char *quiet_mqtt_property(const struct quiet_message *message,
                          const char *name);

/* PUBACK of message number `i`, which was not acknowledged. No turn is made. */
void quiet_mqtt_acknowledge(size_t i, int reason);

/* Acknowledges all messages of this connection in order, then makes turns:
 * again, until nothing more is published. Returns how many there were. */
size_t quiet_mqtt_acknowledge_all(void);

/* Hands a message to the owner. No turn is made. */
void quiet_mqtt_receive(const struct mqtt_received *message);

/* SUBACK of filter number `i`. No turn is made. */
void quiet_mqtt_grant(size_t i, int granted);

#endif
