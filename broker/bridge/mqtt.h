/*
 * mqtt.h - an MQTT Client: one connection to an MQTT broker, and the thread
 * that keeps it.
 *
 *            +------------- the pause is over -----------+
 *            |                                           v
 *       MQTT_WAITING <--- refused, cut, silent ---- MQTT_CONNECTING
 *            ^                                           | CONNACK: accepted
 *            +--------- cut, silent, mqtt_drop ---- MQTT_CONNECTED
 *
 * Every connection is a new client of libmosquitto, which has nothing left of
 * the one before: what was in flight is the owner's to know, and to send again.
 *
 * A round of the thread, the order of which is a promise (io.md: libmosquitto):
 *
 *     wait          for the socket, a wake, or the time that `turn` gave
 *     read          all that has arrived: calls->received, acknowledged ...
 *     calls->turn   the owner commits what came in, and publishes
 *     write         only now do acknowledgements of what was received go out
 *
 * Threads: all but mqtt_wake and mqtt_state is the client's own thread, so is
 * every call to the owner; mqtt_open and mqtt_close are who opens and closes.
 */
#ifndef BROKER_BRIDGE_MQTT_H
#define BROKER_BRIDGE_MQTT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/config/bridging.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct mqtt;

/* A pair of strings (MQTT 5, section 2.2.2.2). Both terminated UTF-8. */
struct mqtt_property {
    const char *name, *value;
};

/* A message to publish. Lent for the call. What is of MQTT 5 is left out where
 * the client speaks 3.1.1. */
struct mqtt_message {
    const char *topic;
    struct slice payload;
    int qos;
    bool is_retained;

    const char *content_type; /* MQTT 5; NULL: none */
    const struct mqtt_property *properties;
    size_t n_properties;
};

/* A message that was received. Lent for the call. */
struct mqtt_received {
    const char *topic; /* terminated */
    struct slice payload;
    int mid; /* packet identifier; 0 at QoS 0 */
    bool is_retained;
    bool is_repeat; /* the DUP flag: it may have been received before */

    struct slice content_type; /* MQTT 5; empty: none. All of them likewise */
    struct slice correlation;  /* bytes */
    struct slice key;          /* user property "idempotency-key", or "id" */
};

/* Not told by its kind: reasons of MQTT 5, section 2.4; 0 is success. */
#define MQTT_REASON_FAILED 0x80 /* from here on it is a failure */

/* In words: "not authorized". Any thread. */
const char *mqtt_reason(int reason);

struct mqtt_calls {
    /* CONNACK: accepted. `has_session`: the MQTT broker has kept the session,
     * with its subscriptions. */
    void (*connected)(void *user, bool has_session);

    /* A message was acknowledged: PUBACK, PUBCOMP; at QoS 0 it is on its way.
     * `reason`: of MQTT 5, 0 for 3.1.1. May come before mqtt_publish has
     * returned. NULL: nobody wants to know. */
    void (*acknowledged)(void *user, int mid, int reason);

    /* NULL: the owner subscribes to nothing. */
    void (*received)(void *user, const struct mqtt_received *message);

    /* SUBACK: the QoS that was granted, 0 or 1, or a reason from
     * MQTT_REASON_FAILED on. NULL: nobody wants to know. */
    void (*subscribed)(void *user, int mid, int granted);

    /* The connection is gone; it had been connected. What was not acknowledged
     * may have arrived or not. At the end, too. */
    void (*lost)(void *user);

    /* See above; also while there is no connection. Returns how many
     * microseconds from now it wants to be called again at the latest;
     * negative: when there is something. */
    int64_t (*turn)(void *user, bool is_connected);

    /* The client is to end, and is connected: it goes on in rounds, `turn`
     * included, until this returns true, or MQTT_FAREWELL_US have passed. What
     * it published last is written. NULL: nothing is left to do. */
    bool (*farewell)(void *user);
};

/* An acknowledgement that is not written by then makes the MQTT broker repeat
 * what was committed: time enough on a machine that is busy, and with the 5
 * seconds of the server's farewell less than the 10 that who runs us may grant.
 */
#define MQTT_FAREWELL_US 3000000

struct mqtt_options {
    const struct bridge_config *config; /* lent */
    const char *client_id;              /* lent */
    const char *direction;              /* "out" or "in": what is said of it */
    bool keeps_session;       /* clean start is false, and the session does not
                                 expire: messages wait for us at the MQTT broker */
    const char *will_topic;   /* lent; NULL: no last will */
    const char *will_payload; /* retained, at QoS 1 */
    const struct mqtt_calls *calls;
    void *user;
};

/* Can the password be read, and does TLS take the files, as far as can be told
 * without connecting? Blocks. STATUS_INVALID: no. */
MUST_CHECK enum status mqtt_check_files(const struct bridge_config *config,
                                        struct problem *why);

/* Starts the thread, which connects; *mqtt is set before the owner is called.
 * What is lent besides `config` is so for the call only. STATUS_INVALID: the
 * password's file cannot be read, or TLS does not take its files. */
MUST_CHECK enum status mqtt_open(struct mqtt **mqtt,
                                 const struct mqtt_options *options,
                                 struct problem *why);

/* Says farewell, disconnects, ends the thread. Harmless twice; NULL is allowed.
 * mqtt_close: frees, too. */
void mqtt_stop(struct mqtt *mqtt);
void mqtt_close(struct mqtt *mqtt);

/* Calls `turn` soon. Any thread; never blocks. */
void mqtt_wake(struct mqtt *mqtt);

/* The owner's, in calls */

/* Publishes; *mid is what it will be acknowledged by. STATUS_TOO_LARGE: more
 * than the MQTT broker takes in a packet, nothing was sent; STATUS_AGAIN: there
 * is no connection; STATUS_UNSUPPORTED: the MQTT broker takes no retained
 * messages, or not at this QoS; STATUS_INVALID: the topic cannot be published
 * on; STATUS_MEMORY. */
MUST_CHECK enum status mqtt_publish(struct mqtt *mqtt,
                                    const struct mqtt_message *message,
                                    int *mid, struct problem *why);

/* At QoS 1. `wants_retained`: retained messages are wanted once, now; else
 * none, which MQTT 3.1.1 does not promise: look at is_retained. */
MUST_CHECK enum status mqtt_subscribe(struct mqtt *mqtt, const char *filter,
                                      bool wants_retained, int *mid,
                                      struct problem *why);
MUST_CHECK enum status mqtt_unsubscribe(struct mqtt *mqtt, const char *filter,
                                        struct problem *why);

/* Largest payload of such a message (its payload does not count) that fits the
 * MQTT broker's largest packet and the bridge's `packet-bytes`. */
size_t mqtt_room(const struct mqtt *mqtt, const struct mqtt_message *message);

/* How many messages may be unacknowledged: `inflight`, or the MQTT broker's
 * Receive Maximum if that is less. */
unsigned mqtt_window(const struct mqtt *mqtt);

/* After one and a half of these without a word of ours the MQTT broker takes us
 * for dead: `keepalive`, or what it wants instead, if that is less. */
int64_t mqtt_keepalive_us(const struct mqtt *mqtt);

bool mqtt_takes_retained(const struct mqtt *mqtt);

/* The connection is to be cut before anything else is written, for this reason;
 * the next one is tried after a pause. */
void mqtt_drop(struct mqtt *mqtt, const struct problem *why);

/* Something was achieved on this connection: the next failure is the first one
 * again. */
void mqtt_prove(struct mqtt *mqtt);

/* For operators */

enum mqtt_condition { MQTT_CONNECTING, MQTT_CONNECTED, MQTT_WAITING };

struct mqtt_state {
    enum mqtt_condition condition;
    int64_t since_us;     /* clock: when that began. Of MQTT_CONNECTING and
                             MQTT_WAITING: when it was connected last, or the
                             start */
    uint64_t connections; /* accepted since the start */
    struct problem why;   /* why it is not connected; "": it is, or it was not
                             tried yet */
};

/* Any thread. */
void mqtt_state(struct mqtt *mqtt, struct mqtt_state *state);

#endif
