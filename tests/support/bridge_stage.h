/*
 * bridge_stage.h - MQTT brokers, and ours with bridges to them.
 *
 *     struct bridge_stage *s = bridge_stage_begin(state, NULL);
 *
 *     bridge_stage_config(s, "[mqtt a]\nurl = %s\nout = *\n", s->mqtt.url);
 *     BRIDGE_STAGE_START(s, "--heartbeat", "3600");
 *     s->hearer = mqtt_peer_hear(&s->mqtt, ...);
 *     ...
 *     bridge_stage_end(s);
 *
 * As the end of a test: bridge_stage_teardown.
 */
#ifndef TESTS_SUPPORT_BRIDGE_STAGE_H
#define TESTS_SUPPORT_BRIDGE_STAGE_H

#include <stdint.h>

#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/mosquitto.h"
#include "tests/support/mqtt_peer.h"

/* Retries that a test can wait for: keys of a bridge. */
#define BRIDGE_QUICK "retry-first = 0.05\nretry-max = 0.2\n"

struct bridge_stage {
    struct mosquittod mqtt;
    struct mosquittod other; /* if the test opens it */
    struct broker broker;
    struct http http;
    struct mqtt_peer *hearer, *teller, *second; /* if the test opens them */
    struct tempdir dir;
    char config[300]; /* the file for --config */
};

/* Starts Mosquitto. *state is the stage's. */
struct bridge_stage *bridge_stage_begin(void **state,
                                        const struct mosquittod_wish *wish);

/* Writes the configuration file. */
void bridge_stage_config(struct bridge_stage *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Starts our broker with it and more options. */
#define BRIDGE_STAGE_START(s, ...) \
    bridge_stage_start((s), (const char *const[]){__VA_ARGS__, NULL})
void bridge_stage_start(struct bridge_stage *s, const char *const *options);

/* Ends our broker. Fails the test if it does not end well. */
void bridge_stage_end(struct bridge_stage *s);

/* Frees what is left, also after a failure. */
int bridge_stage_teardown(void **state);

/* What is behind that path (jsonpath.h) in what GET /bridges answers. Fails the
 * test if there is no number. */
uint64_t bridge_stage_number(struct bridge_stage *s, const char *path);

/* Waits until that number is `n` or more; until that text is `text`. */
void bridge_stage_await(struct bridge_stage *s, const char *path, uint64_t n);
void bridge_stage_await_text(struct bridge_stage *s, const char *path,
                             const char *text);

/* Waits until our broker has said that on standard error. */
void bridge_stage_await_said(struct bridge_stage *s, const char *part);

/* The last seq of a set; 0: it has none, or is not there. */
uint64_t bridge_stage_last(struct http *h, const char *set);

/* Waits until it is `last` or more; it may take as long as it grows. */
void bridge_stage_await_beyond(struct http *h, const char *set, uint64_t last);

/* Waits until it is `last`; fails the test if it becomes larger. */
void bridge_stage_await_last(struct http *h, const char *set, uint64_t last);

#endif
