/*
 * websub_subscriber_test.c - libtidings as a subscriber of the real broker's
 * hub: new changes arrive at a callback, and it pulls the missing ones.
 *
 * The loop turns in the test itself, between what it asks the broker for.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tidings.h"
#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define SET "news"

struct stage {
    struct broker broker;
    struct http http;
    char url[200]; /* of the set */
    unsigned n_posted;

    struct td_client *client;
    struct td_callback *callback;
    struct td_follower *follower;
    struct td_subscriber *subscriber;

    /* Reports to the follower */
    uint64_t last; /* seq; each is one more than the one before */
    int n_heartbeats;
    char position[TD_POSITION_SIZE];
    bool is_filtered; /* the messages are only counted */
    unsigned n_filtered;
    uint64_t closes_after; /* seq: closed by the callback */
    bool has_ended;
    enum td_status rc;
    char why[400];

    /* and the subscriber */
    int n_active, n_ended, n_deliveries;
    uint64_t delivered; /* td:last of the last body */
};

static int
begin(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, "--hub-retry-first", "0.05", "--hub-retry-max",
                "0.2", "--hub-lease-min", "1", NULL);
    http_open(&s->http, s->broker.url);
    snprintf(s->url, sizeof(s->url), "%s/sets/" SET, s->broker.url);
    assert_int_equal(http_request(&s->http, "PUT", "/sets/" SET, NULL,
                                  (struct slice){NULL, 0}) /
                         100,
                     2);
    s->client = td_open();
    assert_non_null(s->client);
    assert_int_equal(
        td_callback_open(s->client, "127.0.0.1:0", NULL, &s->callback), TD_OK);
    return 0;
}

static int
end(void **state)
{
    struct stage *s = *state;

    td_follower_close(s->follower);
    td_subscriber_close(s->subscriber);
    td_callback_close(s->callback);
    td_close(s->client);
    http_close(&s->http);
    if (s->broker.pid)
        broker_stop(&s->broker);
    broker_close(&s->broker);
    free(s);
    return 0;
}

/* Turns the loop once; blocks for `ms` at most, if nothing comes. */
static void
turn(struct stage *s, int ms)
{
    struct pollfd fd = {.fd = td_fd(s->client), .events = POLLIN};

    assert_true(poll(&fd, 1, ms) >= 0);
    assert_int_equal(td_service(s->client), TD_OK);
}

/* Turns the loop until a callback has made `what` true. */
#define TURN_UNTIL(s, what)                      \
    do {                                         \
        while (!(what))                          \
            turn((s), td_timeout_ms(s->client)); \
    } while (0)

/* Turns the loop until `what` is true, which asks the broker each time. */
#define ASK_UNTIL(s, what) \
    do {                   \
        while (!(what))    \
            turn((s), 0);  \
    } while (0)

static uint64_t
post(struct stage *s, unsigned n)
{
    uint64_t last = source_post(&s->http, SET, s->n_posted, n).last;

    s->n_posted += n;
    return last;
}

static int
on_message(const struct td_message *message, void *user)
{
    struct stage *s = user;

    assert_int_equal(message->kind, TD_CHANGES);
    assert_true(!s->position[0] || message->after == s->last);
    if (s->is_filtered)
        s->n_filtered += (unsigned)message->n_changes;
    for (size_t i = 0; i < message->n_changes && !s->is_filtered; i++) {
        char loc[100];

        assert_int_equal(message->changes[i].seq, ++s->last);
        snprintf(loc, sizeof(loc), "http://example.com/r/%u",
                 (unsigned)s->last - 1);
        assert_string_equal(message->changes[i].loc, loc);
    }
    s->last = message->last;
    s->n_heartbeats += message->n_changes == 0;
    snprintf(s->position, sizeof(s->position), "%s", message->position);
    if (s->closes_after && s->last >= s->closes_after) {
        td_follower_close(s->follower);
        s->follower = NULL;
    }
    return 0;
}

static void
on_end(enum td_status rc, const char *why, void *user)
{
    struct stage *s = user;

    s->has_ended = true;
    s->rc = rc;
    snprintf(s->why, sizeof(s->why), "%s", why);
}

static void
follow(struct stage *s, const char *after, enum td_form form,
       const struct td_filter *filter)
{
    const struct td_follow_options options = {
        .after = after,
        .form = form,
        .filters = filter,
        .n_filters = filter != NULL,
        .on_end = on_end,
    };

    assert_int_equal(td_callback_follow(s->callback, s->url, &options,
                                        on_message, s, &s->follower),
                     TD_OK);
}

/* The number of the hub's subscriptions in any state: a renewed one is there
 * twice until its callback has confirmed it. */
static size_t
count_subscriptions(struct stage *s)
{
    static const char name[] = "\"callback\":";
    struct slice rest;
    size_t n = 0;

    assert_int_equal(http_get(&s->http, "/sets/" SET "/subscriptions"), 200);
    rest = buf_slice(&s->http.body);
    for (const char *at;
         (at = memmem(rest.data, rest.size, name, strlen(name))); n++) {
        rest.size -= (size_t)(at + 1 - rest.data);
        rest.data = at + 1;
    }
    return n;
}

/* Has the hub a subscription that is active? */
static bool
is_active(struct stage *s)
{
    http_get(&s->http, "/sets/" SET "/subscriptions");
    return memmem(s->http.body.data, s->http.body.size, "\"active\"", 8);
}

/* Waits until everything is handed over, and the hub pushes new changes. */
static void
join(struct stage *s, uint64_t last)
{
    TURN_UNTIL(s, s->last == last && s->n_heartbeats > 0);
    ASK_UNTIL(s, is_active(s));
    TURN_UNTIL(s, td_timeout_ms(s->client) > 1000); /* nothing is under way */
}

FIXTURE(begin, end);

/* W-147: earlier changes are pulled, later ones pushed; the next look at the
 * lists is only in ten minutes. */
TEST(each_change_arrives_once_in_order)
{
    struct stage *s = *state;
    int heartbeats;

    post(s, 3);
    follow(s, "0", TD_XML, NULL);
    join(s, 3);
    heartbeats = s->n_heartbeats;
    for (unsigned i = 1; i <= 20; i++) {
        uint64_t last = post(s, i);

        TURN_UNTIL(s, s->last == last);
    }
    /* Each change was handed over as it was delivered: the follower asked for
     * none. */
    assert_int_equal(s->n_heartbeats, heartbeats);
    assert_false(s->has_ended);
}

/* W-147: a delivery that cannot be used directly shows that there is more.
 */
TEST(json_and_filters_are_pulled_when_a_delivery_comes)
{
    const struct td_filter filter = {"prefix", "http://example.com/r/1"};
    struct stage *s = *state;
    char position[TD_POSITION_SIZE];
    uint64_t last;

    follow(s, NULL, TD_JSON, NULL);
    join(s, 0);
    last = post(s, 2);
    TURN_UNTIL(s, s->last == last);
    td_follower_close(s->follower);
    s->n_heartbeats = 0;

    strcpy(position, s->position);
    follow(s, position, TD_XML, &filter);
    join(s, last);
    s->is_filtered = true;
    last = post(s, 12);
    TURN_UNTIL(s, s->last == last);
    assert_int_equal(s->n_filtered, 4); /* r/10 to r/13 */
}

/* W-074 seen from here: the broker dies in the middle, and comes back with what
 * it had; everything arrives once. */
TEST(the_broker_may_be_killed)
{
    struct stage *s = *state;

    follow(s, "0", TD_XML, NULL);
    join(s, 0);
    for (int i = 0; i < 3; i++) {
        uint64_t last = post(s, 7);

        broker_kill9(&s->broker);
        broker_restart(&s->broker);
        TURN_UNTIL(s, s->last == last);
        last = post(s, 2);
        TURN_UNTIL(s, s->last == last);
    }
    assert_false(s->has_ended);
}

/* W-061 seen from here: a follower that goes unsubscribes. */
TEST(a_follower_that_is_closed_unsubscribes)
{
    struct stage *s = *state;

    follow(s, "0", TD_XML, NULL);
    join(s, 0);
    assert_int_equal(count_subscriptions(s), 1);
    td_follower_close(s->follower);
    s->follower = NULL;
    assert_int_equal(td_callback_settle(s->callback, 60000), TD_OK);
    ASK_UNTIL(s, !is_active(s)); /* it has our answer */
}

/* Also from its own callback. */
TEST(a_follower_may_be_closed_by_its_callback)
{
    struct stage *s = *state;
    uint64_t last;

    follow(s, "0", TD_XML, NULL);
    join(s, 0);
    s->closes_after = 2;
    last = post(s, 2);
    TURN_UNTIL(s, !s->follower);
    assert_int_equal(s->last, last);
    assert_int_equal(td_callback_settle(s->callback, 60000), TD_OK);
    ASK_UNTIL(s, !is_active(s)); /* it has our answer */
}

/* The set is removed: there is nothing to follow any more, and a reason. */
TEST(a_set_that_is_removed_ends_it)
{
    struct stage *s = *state;

    follow(s, "0", TD_XML, NULL);
    join(s, 0);
    assert_int_equal(http_request(&s->http, "DELETE", "/sets/" SET, NULL,
                                  (struct slice){NULL, 0}) /
                         100,
                     2);
    TURN_UNTIL(s, s->has_ended);
    assert_true(s->rc == TD_REFUSED || s->rc == TD_GONE);
    assert_true(s->why[0]);
}

TEST(what_is_no_source_of_notifications_is_refused)
{
    struct stage *s = *state;

    strcat(s->url, "-not-there");
    follow(s, "0", TD_XML, NULL);
    TURN_UNTIL(s, s->has_ended);
    assert_int_equal(s->rc, TD_REFUSED);
}

/* td_subscriber */

static uint64_t
number_in(const struct td_delivery *delivery, const char *name)
{
    const char *at = memmem(delivery->body, delivery->size, name, strlen(name));

    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 10);
}

static void
on_delivery(const struct td_delivery *delivery, void *user)
{
    struct stage *s = user;
    uint64_t after = number_in(delivery, "td:after=\"");
    uint64_t last = number_in(delivery, "td:last=\"");

    assert_string_equal(delivery->type, "application/xml");
    assert_true(delivery->id[0]);
    assert_true(after <= s->delivered || s->delivered == 0);
    if (last > s->delivered)
        s->delivered = last;
    s->n_deliveries++;
}

static void
on_state(enum td_subscription_state state, const char *detail, void *user)
{
    struct stage *s = user;

    (void)detail;
    s->n_active += state == TD_ACTIVE;
    s->n_ended += state == TD_ENDED;
}

static void
subscribe(struct stage *s, unsigned lease_s, int has_no_secret)
{
    const struct td_subscriber_options options = {
        .lease_s = lease_s,
        .has_no_secret = has_no_secret,
        .on_delivery = on_delivery,
        .on_state = on_state,
        .user = s,
    };
    char topic[300];

    snprintf(topic, sizeof(topic), "%s/notifications", s->url);
    assert_int_equal(
        td_subscriber_open(s->callback, topic, &options, &s->subscriber),
        TD_OK);
    TURN_UNTIL(s, s->n_active > 0);
}

/* W-073, W-029: it stays subscribed, by a new callback, and the hub forgets the
 * old one. */
TEST(a_subscription_is_renewed_before_it_ends)
{
    struct stage *s = *state;
    uint64_t last;

    subscribe(s, 4, 0);
    last = post(s, 1);
    TURN_UNTIL(s, s->delivered == last);
    TURN_UNTIL(s, s->n_active > 1);
    last = post(s, 1);
    TURN_UNTIL(s, s->delivered == last);
    ASK_UNTIL(s, count_subscriptions(s) == 1);
}

/* W-104, W-106, W-107: the hub's signatures are right, of both kinds. */
TEST(what_the_hub_signs_is_believed)
{
    struct stage *s = *state;
    struct td_subscriber_counts counts;

    subscribe(s, 0, 0);
    for (int i = 0; i < 5; i++) {
        uint64_t last = post(s, 1);

        TURN_UNTIL(s, s->delivered == last);
    }
    td_subscriber_counts(s->subscriber, &counts);
    assert_int_equal(counts.delivered, s->n_deliveries);
    assert_int_equal(counts.wrong + counts.unsigned_ + counts.unknown, 0);
}

/* W-102 seen from here. */
TEST(without_a_secret_nothing_is_signed)
{
    struct stage *s = *state;
    uint64_t last;

    subscribe(s, 0, 1);
    last = post(s, 1);
    TURN_UNTIL(s, s->delivered == last);
}

/* W-060, W-061 */
TEST(an_unsubscription_is_verified)
{
    struct stage *s = *state;

    subscribe(s, 0, 0);
    td_subscriber_end(s->subscriber);
    TURN_UNTIL(s, s->n_ended == 1);
    ASK_UNTIL(s, !is_active(s));
    post(s, 1);
    assert_int_equal(td_run(s->client), TD_OK); /* nothing runs any more */
    assert_int_equal(s->n_deliveries, 0);
}
