/*
 * stage.h - a subscriber of libtidings, a source and a hub, for tests: the
 * source and the hub do what the test says, the subscriber's loop turns on a
 * thread of its own.
 *
 *     FIXTURE(stage_setup, stage_teardown);
 *
 *     stage_body("text/html", "<link rel=hub href=\"HUB\">...");
 *     stage_subscribe(NULL, NULL);
 *     r = stage_take(NULL); ...
 *     stage_await(TD_ACTIVE, 1);
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

    /* Reports of the subscriber; read them while the turner is held. */
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

extern struct stage stage; /* the one of the test */

int stage_setup(void **state);
int stage_teardown(void **state);

/* Sets the answers of the source from now on: hub and self in its headers
 * (rel=self is `self`, NULL: its own URL), or in a body, where "HUB" and "SELF"
 * are replaced.
 */
void stage_headers(const char *self);
void stage_body(const char *type, const char *body);

/* Subscribes at the source, or at `url`. options NULL: all zero. */
void stage_subscribe(const char *url,
                     const struct td_subscriber_options *options);

/* Waits for the next request at the hub (NULL: stage.hub), reads it and keeps
 * it until the end of the test. */
struct fake_request *stage_take(struct fake_hub *hub);

/* The source names hub and self in its headers: subscribes there, and returns
 * the request. */
struct fake_request *stage_request(void);

/* The whole way to TD_ACTIVE: request, verification, 202. */
struct fake_request *stage_join(const struct td_subscriber_options *options,
                                uint64_t lease_s);

/* Delivers what comes behind `status`, members of struct fake_delivery, and
 * expects that answer. */
#define STAGE_DELIVER(request, status, ...)                                \
    assert_int_equal(FAKE_HUB_DELIVER(&stage.hub, (request), __VA_ARGS__), \
                     (status))

/* td_subscriber_end */
void stage_end(void);

void stage_await(enum td_subscription_state state, int n);

/* A pause of the subscriber between two attempts is over; the other one waits
 * for the trouble before. */
void stage_pass_pause(void);
void stage_await_trouble(int n);

/* The clock goes on when the subscriber has the answers to its requests. */
void stage_pass_us(int64_t us);

void stage_await_deliveries(int n);
int stage_count(enum td_subscription_state state);

/* Waits for `n` deliveries in all, which have these bodies. */
void stage_assert_bodies(int n, const char *bodies);
struct td_subscriber_counts stage_counts(void);

#endif
