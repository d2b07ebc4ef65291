/*
 * hub_stage.h - a broker with a hub, its publisher, and callbacks on an address
 * of their own.
 *
 *     struct hub_stage *s = HUB_STAGE_OPEN(state, "--hub-timeout", "1");
 *     struct callback *cb = hub_stage_join(s, "/cb/1");
 *
 *     hub_stage_post(s, 3);
 *     callback_await_last(cb, 3);
 *
 * As the end of a test: hub_stage_teardown. There is one set, HUB_SET, without
 * an entry.
 */
#ifndef TESTS_SUPPORT_HUB_STAGE_H
#define TESTS_SUPPORT_HUB_STAGE_H

#include <stdint.h>

#include "tests/support/broker.h"
#include "tests/support/callbacks.h"
#include "tests/support/http.h"
#include "tests/support/hub.h"

#define HUB_SET       "news"
#define HUB_CALLBACKS "127.0.0.2" /* where they listen */

/* Retries that a test can wait for. */
#define HUB_QUICK "--hub-retry-first", "0.05", "--hub-retry-max", "0.2"

struct hub_stage {
    struct broker broker;
    struct http http;
    struct callbacks *callbacks;
    struct hub_url topic, hub; /* the URLs of HUB_SET's topic, and of the hub */
    unsigned n_posted;
};

/* Starts all of it; the broker's options follow. *state is the stage's. */
#define HUB_STAGE_OPEN(state, ...) \
    hub_stage_begin((state), (const char *const[]){__VA_ARGS__, NULL})

struct hub_stage *hub_stage_begin(void **state, const char *const *options);

/* Fails the test if the callbacks have seen anything that cannot be, if the
 * broker does not end well, or is not there. */
void hub_stage_end(struct hub_stage *s);

/* Frees what is left, also after a failure. */
int hub_stage_teardown(void **state);

/* A callback that has subscribed, and is active. */
struct callback *hub_stage_join(struct hub_stage *s, const char *target);

/* Posts `n` entries at once; the last seq. */
uint64_t hub_stage_post(struct hub_stage *s, unsigned n);

/* Who was to be told of what was posted so far, was: `fence` is a callback that
 * joined and is in good order. Whoever has got nothing until then gets nothing
 * of it. */
void hub_stage_fence(struct hub_stage *s, struct callback *fence);

#endif
