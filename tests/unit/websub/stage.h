/*
 * stage.h - a subscriber of libtidings, a source and a hub, for tests: the
 * source and the hub do what the test says, the subscriber's loop turns on a
 * thread of its own.
 *
 *     struct stage *s = stage_of(state);
 *
 *     stage_source(s, "text/html", "<link rel=hub href=\"%s\">...");
 *     stage_subscribe(s, NULL);
 *     r = stage_take(s, &s->hub); ...
 *     stage_await(s, TD_ACTIVE, 1);
 *
 * With stage_setup and stage_teardown as fixture of each test.
 */
#ifndef TESTS_UNIT_WEBSUB_STAGE_H
#define TESTS_UNIT_WEBSUB_STAGE_H

#include "client/tidings.h"
#include "tests/support/fake_hub.h"
#include "tests/support/origin.h"
#include "tests/support/turner.h"

#define STAGE_REQUESTS 10 /* of one test, at most */
#define STAGE_STATES   6  /* of enum td_subscription_state */

struct stage {
    struct fake_hub hub;
    struct origin *source; /* at "/topic" */
    struct td_client *client;
    struct td_callback *callback;
    struct td_subscriber *subscriber;
    struct turner *turner;

    /* What the subscriber told; while the turner is held. */
    int n_states[STAGE_STATES];
    char details[STAGE_STATES][400]; /* of the last of each */
    int n_deliveries;
    char bodies[2000]; /* of all deliveries, each with "|" behind it */

    struct {
        char topic[300], type[100], id[100];
    } last;

    struct fake_request requests[STAGE_REQUESTS]; /* in the order they came */
    size_t n_requests;

    int closes_after; /* so many deliveries: it is closed by the callback */
};

int stage_setup(void **state);
int stage_teardown(void **state);
struct stage *stage_of(void **state);

/* What the source says from now on: hub and self in its headers (rel=self is
 * `self`, NULL: its own URL), or in a body, where "HUB" and "SELF" are
 * replaced.
 */
void stage_headers(struct stage *s, const char *self);
void stage_body(struct stage *s, const char *type, const char *body);

/* Subscribes at the source, or at `url`. options NULL: all zero. */
void stage_subscribe(struct stage *s, const char *url,
                     const struct td_subscriber_options *options);

/* Waits for the next request at the hub, reads it and keeps it until the end of
 * the test. */
struct fake_request *stage_take(struct stage *s, struct fake_hub *hub);

/* The whole way to TD_ACTIVE: request, verification, 202. */
struct fake_request *stage_join(struct stage *s,
                                const struct td_subscriber_options *options,
                                uint64_t lease_s);

/* Delivers what comes behind `status`, members of struct fake_delivery, and
 * expects that answer. */
#define STAGE_DELIVER(s, request, status, ...)                            \
    assert_int_equal(FAKE_HUB_DELIVER(&(s)->hub, (request), __VA_ARGS__), \
                     (status))

/* td_subscriber_end */
void stage_end(struct stage *s);

void stage_await(struct stage *s, enum td_subscription_state state, int n);

/* A pause of the subscriber between two attempts is over; the other one waits
 * for the trouble before. */
void stage_pass_pause(struct stage *s);
void stage_await_trouble(struct stage *s, int n);

/* The clock goes on when the subscriber has the answers to its requests. */
void stage_pass_us(struct stage *s, int64_t us);

void stage_await_deliveries(struct stage *s, int n);
int stage_count(struct stage *s, enum td_subscription_state state);
void stage_assert_bodies(struct stage *s, const char *bodies);
struct td_subscriber_counts stage_counts(struct stage *s);

#endif
