/*
 * mqtt.h - an MQTT Client: one connection to an MQTT broker, and the thread
 * that keeps it.
 *
 *            +------------- the pause is over -----------+
 *            |                                           v
 *       MQTT_WAITING <--- refused, cut, silent ---- MQTT_CONNECTING
 *            ^                                           | CONNACK: accepted
 *            +--------- cut, silent, mqtt_drop ---- MQTT_CONNECTED
 *                       mqtt_suspend
 *
 * Every connection is a new client of libmosquitto, without any state of the
 * one before: the owner must remember the messages in flight, and send them
 * again.
 *
 * A round of the thread. Its order is guaranteed (io.md: libmosquitto):
 *
 *     wait          for the socket, a wake, or the time that `turn` gave
 *     read          all that has arrived: calls->received, acknowledged ...
 *     calls->turn   the owner commits what came in, and publishes
 *     write         only now do acknowledgements of what was received go out
 *
 * Threads: one thread opens and closes all clients, because libmosquitto counts
 * its users without a lock. mqtt_stop may be called on another one, and
 * mqtt_wake and mqtt_state on any. Everything else, and every call to the
 * owner, runs on the client's own thread.
 */
#pragma once

#include "broker/config/bridge_config.h"

struct mqtt;

/* A pair of strings (MQTT 5, section 2.2.2.2). Both are terminated UTF-8. */
struct mqtt_property {
    const char *name, *value;
};

/* A message to publish, lent for the call. At MQTT 3.1.1 the client ignores the
 * members of MQTT 5. */
struct mqtt_message {
    const char *topic;
    struct slice payload;
    int qos;
    bool is_retained;

    const char *content_type; /* MQTT 5; NULL: none */
    const struct mqtt_property *properties;
    size_t n_properties;
};

/* A received message, lent for the call. */
struct mqtt_received {
    const char *topic; /* terminated */
    struct slice payload;
    int mid; /* packet identifier; 0 at QoS 0 */
    bool is_retained;
    bool is_repeat; /* the DUP flag: it may have come before */

    struct slice content_type; /* MQTT 5; empty: none. So are the slices
                                  below */
    struct slice correlation;  /* bytes */
    struct slice key;          /* user property "idempotency-key", or "id" */

    /* Of a CloudEvent in binary mode, which has a user property "specversion",
     * all of them: name, NUL, value, NUL ...; its "id" is no key. */
    struct slice attributes;
};

/* A plain int, for the reasons of MQTT 5, section 2.4; 0 is success. */
#define MQTT_REASON_FAILED 0x80 /* failures begin here */

/* The reason in words: "not authorized". Any thread. */
const char *mqtt_reason(int reason);

struct mqtt_calls {
    /* CONNACK has accepted the connection. `has_session`: the MQTT broker has
     * kept the session, with its subscriptions. */
    void (*connected)(void *user, bool has_session);

    /* A message was acknowledged: by PUBACK or PUBCOMP; at QoS 0 it was sent.
     * `reason` is one of MQTT 5, 0 for 3.1.1. The call may come before
     * mqtt_publish has returned. NULL: not wanted. */
    void (*acknowledged)(void *user, int mid, int reason);

    /* NULL: the owner subscribes to nothing. */
    void (*received)(void *user, const struct mqtt_received *message);

    /* SUBACK: the granted QoS, 0 or 1, or a reason from MQTT_REASON_FAILED on.
     * NULL: not wanted. */
    void (*subscribed)(void *user, int mid, int granted);

    /* The connection has ended after it was accepted. Messages without an
     * acknowledgement may have arrived or not. Called at the end, too. */
    void (*lost)(void *user);

    /* A turn of the round above; also while there is no connection. Returns in
     * how many microseconds it wants the next call at the latest; negative:
     * only after a wake or a packet. */
    int64_t (*turn)(void *user, bool is_connected);

    /* The client is about to end, and is connected. It goes on in rounds,
     * `turn` included, until this returns true, or MQTT_FAREWELL_US have
     * passed; then it writes the last packets. NULL: the owner has nothing left
     * to do. */
    bool (*farewell)(void *user);

    /* Before each connection. False: the client asks again a second later.
     * NULL: always. */
    bool (*may_connect)(void *user);
};

/* An acknowledgement that is not written by then makes the MQTT broker repeat a
 * committed message. This is enough on a busy machine, and with the 5 seconds
 * of the server's farewell less than the 10 that a process manager may
 * grant. */
#define MQTT_FAREWELL_US 3000000

struct mqtt_options { /* all pointers are lent until mqtt_close */
    const struct bridge_config *config;
    const char *client_id;
    const char *direction;    /* "out" or "in": for the log */
    bool keeps_session;       /* clean start is false, and the session does not
                                 expire: the MQTT broker holds messages for the
                                 client */
    const char *will_topic;   /* NULL: no last will */
    const char *will_payload; /* retained, at QoS 1 */
    const struct mqtt_calls *calls;
    void *user;
    const struct problem *suspended; /* lent for mqtt_open: begins as by
                                        mqtt_suspend; NULL: connects */
};

/* Checks that the password can be read, and that TLS accepts its files, as far
 * as possible without connecting. Blocks. STATUS_INVALID: no. */
MUST_CHECK enum status mqtt_check_files(const struct bridge_config *config,
                                        struct problem *why);

/* Starts the thread, which connects; sets *mqtt before the owner is called.
 * STATUS_INVALID: the password's file cannot be read, or TLS does not accept
 * its files. */
MUST_CHECK enum status mqtt_open(struct mqtt **mqtt,
                                 const struct mqtt_options *options,
                                 struct problem *why);

/* mqtt_begin_stop asks the client to say farewell and to disconnect; mqtt_stop
 * waits for the end of the thread. A second call does nothing; NULL is allowed.
 * mqtt_close also frees. */
void mqtt_begin_stop(struct mqtt *mqtt);
void mqtt_stop(struct mqtt *mqtt);
void mqtt_close(struct mqtt *mqtt);

/* Calls `turn` soon. Any thread; never blocks. */
void mqtt_wake(struct mqtt *mqtt);

/* For the owner, within calls */

/* Publishes; sets *mid, which the acknowledgement will name. STATUS_TOO_LARGE:
 * the MQTT broker's packets are smaller, nothing was sent; STATUS_AGAIN: there
 * is no connection; STATUS_UNSUPPORTED: the MQTT broker accepts no retained
 * messages, or not this QoS; STATUS_INVALID: the topic cannot be published on;
 * STATUS_MEMORY. */
MUST_CHECK enum status mqtt_publish(struct mqtt *mqtt,
                                    const struct mqtt_message *message,
                                    int *mid, struct problem *why);

/* Subscribes at QoS 1. `wants_retained`: wants retained messages once, now;
 * else none, but MQTT 3.1.1 cannot promise that: check is_retained. */
MUST_CHECK enum status mqtt_subscribe(struct mqtt *mqtt, const char *filter,
                                      bool wants_retained, int *mid,
                                      struct problem *why);
MUST_CHECK enum status mqtt_unsubscribe(struct mqtt *mqtt, const char *filter,
                                        struct problem *why);

/* The largest payload for this message (without its own payload) that fits the
 * MQTT broker's largest packet and the bridge's `packet-bytes`. */
size_t mqtt_room(const struct mqtt *mqtt, const struct mqtt_message *message);

/* The most unacknowledged messages: `inflight`, or the MQTT broker's Receive
 * Maximum if that is less. */
unsigned mqtt_window(const struct mqtt *mqtt);

/* The keepalive: `keepalive`, or a smaller one that the MQTT broker demands. If
 * the client is silent for one and a half of it, the MQTT broker ends the
 * connection. */
int64_t mqtt_keepalive_us(const struct mqtt *mqtt);

bool mqtt_takes_retained(const struct mqtt *mqtt);

/* Has the connection cut for this reason before anything else is written. The
 * client tries the next one after a pause. */
void mqtt_drop(struct mqtt *mqtt, const struct problem *why);

/* Has the connection end, after the farewell of the owner unless it was
 * dropped, and none made before mqtt_resume: `why` is the reason until then.
 * `turn` is called as before. No failure is counted. Repeated calls do
 * nothing. */
void mqtt_suspend(struct mqtt *mqtt, const struct problem *why);
void mqtt_resume(struct mqtt *mqtt);

/* Notes that this connection has worked: once it has lasted, too, the next
 * failure counts as the first. */
void mqtt_prove(struct mqtt *mqtt);

/* For operators */

enum mqtt_condition { MQTT_CONNECTING, MQTT_CONNECTED, MQTT_WAITING };

struct mqtt_state {
    enum mqtt_condition condition;
    int64_t since_us;     /* when that began. Of MQTT_CONNECTING and
                             MQTT_WAITING: when the last connection ended, or
                             the start. By the wall clock */
    uint64_t connections; /* accepted ones since the start */
    struct problem why;   /* the reason of the last failure; "": connected, or
                             not tried yet */
};

/* Any thread. */
void mqtt_state(struct mqtt *mqtt, struct mqtt_state *state);
