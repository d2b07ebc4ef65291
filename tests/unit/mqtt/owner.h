/*
 * owner.h - who owns an MQTT Client in tests of it: notes each call, and does
 * in `turn` what the test has asked for.
 *
 *     struct owner o;                  or FIXTURE(owner_set, owner_clear)
 *
 *     owner_prepare(&o, port);         o.config, o.options can be changed
 *     owner_open(&o);
 *     owner_await(&o, &o.n_connected, 1);
 *     owner_say(&o, "a/b", "text", 1);
 *     owner_await(&o, &o.n_acknowledged, 1);
 *     owner_close(&o);
 */
#ifndef TESTS_UNIT_MQTT_OWNER_H
#define TESTS_UNIT_MQTT_OWNER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "broker/config/bridge_config.h"
#include "broker/mqtt/mqtt.h"
#include "tests/unit/mqtt/fake_mqtt.h"

struct owner_received {
    char topic[64], payload[64], content_type[64], correlation[64], key[64];
    bool is_retained, is_repeat;
};

struct owner {
    struct mqtt *mqtt;
    struct fake_mqtt fake;
    struct bridge_config config;
    struct mqtt_options options;
    struct mqtt_calls calls;

    pthread_mutex_t lock;
    pthread_cond_t changed;

    /* Events */
    unsigned n_connected, n_lost, n_turns, n_acknowledged, n_received,
        n_subscribed, n_farewells, n_done;
    bool has_session;
    int last_mid, last_reason, granted;
    struct owner_received received[8];

    /* The next turn runs this; then n_done grows. */
    void (*todo)(struct owner *o);
    struct mqtt_message message;
    const char *filter;
    bool wants_retained, never_says_farewell;
    enum status rc;
    struct problem why;
    size_t room;
    unsigned window;
    int64_t keepalive_us;
    bool takes_retained;

    /* The next turn with received messages blocks until owner_let_go. */
    bool holds, is_held, drops;
};

/* Ready to connect to a port of 127.0.0.1, with pauses of milliseconds. */
void owner_prepare(struct owner *o, unsigned port);
void owner_open(struct owner *o);
void owner_close(struct owner *o);

/* Fixtures: *state is an owner with an MQTT broker of its own, o->fake,
 * prepared and not open; with owner_set_met it is connected, by MQTT 5. */
int owner_set(void **state);
int owner_set_met(void **state);
int owner_clear(void **state);

/* Opens the client, and reads its CONNECT; or answers that, and waits for the
 * owner to know. */
void owner_ask(struct owner *o, bool is_5);
void owner_meet(struct owner *o, bool is_5);

/* Ends both, and begins again: for the next row of a table. */
void owner_set_again(struct owner *o);

/* Both end: the client, and the MQTT broker, which hangs up when all is said.
 */
void owner_part(struct owner *o, struct fake_mqtt *f);

/* Waits until the counter, one of the owner's, is that high. */
void owner_await(struct owner *o, const unsigned *counter, unsigned n);

/* The counter as it is now; the client's thread may raise it at any time. */
unsigned owner_now(struct owner *o, const unsigned *counter);

/* Waits until the client is not connected for a reason that contains `part`. */
void owner_await_why(struct owner *o, const char *part);

/* Waits until the client pauses before its next try; lets the pause be over. */
void owner_await_pause(struct owner *o);
void owner_pass_pause(struct owner *o);

/* Has it done in a turn, and waits until it is. */
void owner_do(struct owner *o, void (*todo)(struct owner *o));

/* Publishes in a turn; returns the result of mqtt_publish. */
enum status owner_say(struct owner *o, const char *topic, const char *text,
                      int qos);
void owner_publish(struct owner *o);   /* o->message */
void owner_subscribe(struct owner *o); /* o->filter, o->wants_retained */
void owner_drop(struct owner *o);
void owner_prove(struct owner *o);
void owner_look(struct owner *o); /* o->room, o->window, ... */

/* A turn is held; lets it go on. */
void owner_hold(struct owner *o);
void owner_await_held(struct owner *o);
void owner_let_go(struct owner *o);

/* Captures standard error from here on; returns the text so far, which the
 * caller frees. */
void owner_listen(void);
char *owner_heard(void);

/* How often `part` stands in it. */
unsigned owner_count(const char *text, const char *part);

#endif
