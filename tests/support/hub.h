/*
 * hub.h - what a subscriber asks of a hub, for tests; and what the broker says
 * of its subscriptions.
 *
 *     struct http h;
 *
 *     assert_int_equal(HUB_SUBSCRIBE(&h, .set = "news",
 *                                    .callback = callback_url(cb),
 *                                    .secret = "s3cr3t"),
 *                      202);
 *     hub_await_active(&h, "news", callback_url(cb));
 *
 * Forms are encoded here, by themselves.
 */
#ifndef TESTS_SUPPORT_HUB_H
#define TESTS_SUPPORT_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "tests/support/callbacks.h"
#include "tests/support/http.h"
#include "tests/test.h"

#define HUB_FORM "application/x-www-form-urlencoded"

/* A request; NULL: no such parameter. */
struct hub_form {
    const char *mode;
    const char *set;   /* its notifications are the topic */
    const char *topic; /* if it is no set's */
    const char *callback;
    const char *secret;
    const char *lease; /* hub.lease_seconds, as it is to stand */
    const char *more;  /* more parameters, encoded: "&after=x-1&foo=bar" */
};

/* "http://127.0.0.1:40123/sets/news/notifications", of the broker that `h`
 * speaks to; and "http://127.0.0.1:40123/hub". */
struct hub_url {
    char text[300];
};

struct hub_url hub_topic(const struct http *h, const char *set);
struct hub_url hub_address(const struct http *h);

/* Appends `text`, percent-encoded but for unreserved characters. */
void hub_encode(struct buf *to, const char *text);

/* Appends the form. */
void hub_write(struct buf *to, const struct http *h,
               const struct hub_form *form);

/* Posts it to /hub; the status. The answer is h's. */
long hub_ask(struct http *h, const struct hub_form *form);

/* Posts a body as a form, as it is. */
long hub_send(struct http *h, const char *body);

#define HUB_SUBSCRIBE(h, ...) \
    hub_ask((h), &(const struct hub_form){.mode = "subscribe", __VA_ARGS__})
#define HUB_UNSUBSCRIBE(h, ...) \
    hub_ask((h), &(const struct hub_form){.mode = "unsubscribe", __VA_ARGS__})

/* Subscribes a callback, plainly, and waits until it is active: deliveries to
 * it begin with what is posted after this. */
void hub_join(struct http *h, const char *set, struct callback *cb);

/* The answer is 202 without a body (W-031). */
void hub_assert_taken(struct http *h, long status);

/* The answer is that status, and a text/plain body says why (W-032); `part` is
 * in it. */
void hub_assert_refused(struct http *h, long status, const char *part);

/* What GET /sets/{set}/subscriptions tells of one. */
struct hub_state {
    char id[65];
    char topic[300];
    char state[20];
    char lease_end[40];
    char position[64];
    char last_error[300];
    uint64_t lag, failures, skipped;
};

/* false: there is none with that callback. The answer is h's. */
bool hub_look(struct http *h, const char *set, const char *callback,
              struct hub_state *state);

/* How many the set has, in whatever state: one that is renewed is there twice
 * until its callback has confirmed it. */
size_t hub_count(struct http *h, const char *set);
void hub_await_count(struct http *h, const char *set, size_t n);

/* Looks again and again until it has that state. Fails the test if it does not
 * come about. */
void hub_await_active(struct http *h, const char *set, const char *callback);
void hub_await_pending(struct http *h, const char *set, const char *callback);

/* Until it is neither pending nor active; not there is fine. */
void hub_await_gone(struct http *h, const char *set, const char *callback);

/* Until it lags by nothing. */
void hub_await_head(struct http *h, const char *set, const char *callback);

/* Until something is true of it. */
typedef bool hub_state_fn(const struct hub_state *state);
struct hub_state hub_await(struct http *h, const char *set,
                           const char *callback, hub_state_fn *is_so,
                           const char *what);

#endif
