/*
 * hub_test.c - SIGKILL in the middle of deliveries and verifications.
 *
 * The moments are random; the seed is printed, and TIDINGS_SEED=N repeats the
 * choices of a run (the moments themselves are the machine's, too).
 */
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/support/crossed.h"
#include "tests/support/hub_stage.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

#define ROUNDS       12
#define POSTS_MAX    60 /* of a round */
#define POST_MAX     20 /* entries of one */
#define LATER_MAX_MS 20
#define CALLBACKS    24

static uint64_t
seed(void)
{
    const char *text = getenv("TIDINGS_SEED");
    uint64_t random = text ? strtoull(text, NULL, 10) : (uint64_t)time(NULL);

    print_message("TIDINGS_SEED=%" PRIu64 "\n", random);
    return random;
}

/* Every third is in good order, the others fail now and then. */
static void
misbehave(struct callback *cb, size_t i)
{
    static const enum manner_kind kinds[] = {MANNER_RESET, MANNER_RESET_EARLY,
                                             MANNER_RESET_MIDDLE, MANNER_CLOSE};

    if (i % 3 == 1)
        CALLBACK_DOES(cb, SEEN_DELIVERY, {.times = 2 + (unsigned)i % 5},
                      {.status = 503, .times = 1}, {.times = 3},
                      {.kind = kinds[i % N(kinds)], .times = 2});
    if (i % 3 == 2)
        CALLBACK_DOES(cb, SEEN_DELIVERY,
                      {.kind = MANNER_TRICKLE, .pause_ms = 1, .times = 2});
}

/* W-074, W-091, W-093, R-306; design section 5, rules 1 and 3: every entry, in
 * order, once when repeats are dropped by the delivery's id. */
static void
deliveries_go_on_where_a_kill_has_cut_them(void **state)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *all[CALLBACKS];
    uint64_t random = seed(), last = 0;
    size_t n_repeats = 0;

    for (size_t i = 0; i < N(all); i++) {
        char target[40];

        snprintf(target, sizeof(target), "/cb/%zu", i);
        all[i] = hub_stage_join(s, target);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned n_posts = 1 + crossed_random(&random) % POSTS_MAX;

        for (size_t i = 0; i < N(all); i++)
            misbehave(all[i], i);
        for (unsigned i = 0; i < n_posts; i++)
            last = hub_stage_post(s, 1 + crossed_random(&random) % POST_MAX);
        /* Any moment is as good as another. */
        poll(NULL, 0, (int)(crossed_random(&random) % (LATER_MAX_MS + 1)));
        broker_kill9(&s->broker);
        broker_restart(&s->broker);
    }

    for (size_t i = 0; i < N(all); i++) {
        struct callback_journal j;
        struct trace t;

        callback_await_last(all[i], last);
        hub_await_head(&s->http, HUB_SET, callback_url(all[i]));
        j = callback_journal(all[i]);
        assert_int_equal(j.first_after, 0);
        assert_int_equal(j.n_holes, 0);
        callback_trace(all[i], &t); /* nothing is missing, doubled or moved */
        assert_int_equal(t.last, last);
        assert_int_equal(t.n_repeats, 0);
        trace_fini(&t);
        n_repeats += j.n_repeats;
    }
    print_message("%" PRIu64 " entries to %d callbacks; %zu deliveries were "
                  "repeated\n",
                  last, CALLBACKS, n_repeats);
    hub_stage_end(s);
}

/* W-074, W-091, R-306: the same bytes, under the same id, also when there is
 * more by then. */
static void
the_delivery_in_flight_is_repeated_as_it_was(void **state)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = hub_stage_join(s, "/cb/1");
    const struct seen *first, *again;

    CALLBACK_DOES(cb, SEEN_DELIVERY, {.kind = MANNER_HANG, .times = 1});
    hub_stage_post(s, 3);
    first = callback_await(cb, SEEN_DELIVERY, 1);
    hub_stage_post(s, 4);
    broker_kill9(&s->broker);
    broker_restart(&s->broker);

    again = callback_await(cb, SEEN_DELIVERY, 2);
    assert_string_equal(again->id, first->id);
    seen_assert_same_body(again, first);
    callback_await_last(cb, 7);
    assert_int_equal(callback_journal(cb).n_holes, 0);
    hub_stage_end(s);
}

/* W-070, W-074: what was granted holds. */
static void
subscriptions_leases_and_secrets_outlive_a_kill(void **state)
{
    static const struct {
        const char *secret, *lease;
    } cases[] = {{NULL, NULL},
                 {"s3cr3t", "1000"},
                 {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "300"},
                 {"a b+c&d=e%26\xc3\xa9", "2678400"}};
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *all[N(cases)], *ended = hub_stage_join(s, "/cb/ended");
    struct hub_state before[N(cases)];

    for (size_t i = 0; i < N(cases); i++) {
        char target[40];

        snprintf(target, sizeof(target), "/cb/%zu?a=%%7E", i);
        all[i] = callbacks_add(s->callbacks, target);
        hub_assert_taken(&s->http,
                         HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                       .callback = callback_url(all[i]),
                                       .secret = cases[i].secret,
                                       .lease = cases[i].lease));
        hub_await_active(&s->http, HUB_SET, callback_url(all[i]));
        assert_true(
            hub_look(&s->http, HUB_SET, callback_url(all[i]), &before[i]));
    }
    hub_assert_taken(&s->http,
                     HUB_UNSUBSCRIBE(&s->http, .set = HUB_SET,
                                     .callback = callback_url(ended)));
    hub_await_gone(&s->http, HUB_SET, callback_url(ended));
    broker_kill9(&s->broker);
    broker_restart(&s->broker);

    assert_int_equal(hub_count(&s->http, HUB_SET), N(cases));
    for (size_t i = 0; i < N(cases); i++) {
        struct hub_state after;

        assert_true(hub_look(&s->http, HUB_SET, callback_url(all[i]), &after));
        assert_string_equal(after.id, before[i].id);
        assert_string_equal(after.state, "active");
        assert_string_equal(after.lease_end, before[i].lease_end);
    }
    hub_stage_post(s, 1);
    for (size_t i = 0; i < N(cases); i++)
        seen_assert_signature(callback_await(all[i], SEEN_DELIVERY, 1),
                              "sha256", cases[i].secret);
    seen_assert_webhook(callback_seen(all[2], SEEN_DELIVERY, 0),
                        cases[2].secret);
    assert_int_equal(callback_count(ended, SEEN_DELIVERY), 0);
    hub_stage_end(s);
}

/* W-031, W-044, W-074: a 202 is a promise; and the subscription begins where it
 * was asked for. */
static void
a_request_that_was_taken_outlives_a_kill(void **state)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    char challenges[2][300];

    hub_stage_post(s, 2);
    CALLBACK_DOES(cb, SEEN_VERIFICATION, {.kind = MANNER_HANG, .times = 1});
    hub_assert_taken(&s->http,
                     HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                   .callback = callback_url(cb),
                                   .secret = "s3cr3t", .lease = "1234"));
    callback_await(cb, SEEN_VERIFICATION, 1);
    hub_stage_post(s, 2);
    broker_kill9(&s->broker);
    broker_restart(&s->broker);

    for (size_t i = 0; i < 2; i++) {
        const struct seen *v = callback_await(cb, SEEN_VERIFICATION, i + 1);

        seen_assert_parameter(v, "hub.mode", "subscribe");
        seen_assert_parameter(v, "hub.topic", s->topic.text);
        seen_assert_parameter(v, "hub.lease_seconds", "1234");
        assert_non_null(seen_parameter(v, "hub.challenge", challenges[i],
                                       sizeof(challenges[i])));
    }
    assert_string_not_equal(challenges[0], challenges[1]); /* W-053 */
    callback_await_last(cb, 4);
    assert_int_equal(callback_journal(cb).first_after, 2);
    seen_assert_signature(callback_seen(cb, SEEN_DELIVERY, 0), "sha256",
                          "s3cr3t");
    hub_stage_end(s);
}

/* W-061, W-074 */
static void
an_unsubscription_that_was_taken_outlives_a_kill(void **state)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *fence = hub_stage_join(s, "/cb/fence");
    struct callback *cb = hub_stage_join(s, "/cb/1");

    CALLBACK_DOES(cb, SEEN_VERIFICATION, {.kind = MANNER_HANG, .times = 1});
    hub_assert_taken(&s->http, HUB_UNSUBSCRIBE(&s->http, .set = HUB_SET,
                                               .callback = callback_url(cb)));
    callback_await(cb, SEEN_VERIFICATION, 2);
    broker_kill9(&s->broker);
    broker_restart(&s->broker);

    seen_assert_parameter(callback_await(cb, SEEN_VERIFICATION, 3), "hub.mode",
                          "unsubscribe");
    hub_await_gone(&s->http, HUB_SET, callback_url(cb));
    hub_stage_fence(s, fence);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), 0);
    hub_stage_end(s);
}

/* W-072, W-074: time goes on while the broker is away. */
static void
a_lease_ends_also_while_the_broker_is_down(void **state)
{
    struct hub_stage *s =
        HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-lease-min", "1");
    struct callback *fence = hub_stage_join(s, "/cb/fence");
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");

    hub_assert_taken(&s->http,
                     HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                   .callback = callback_url(cb), .lease = "3"));
    hub_await_active(&s->http, HUB_SET, callback_url(cb));
    broker_kill9(&s->broker);
    poll(NULL, 0, 4000); /* what is waited for is the end of the lease */
    broker_restart(&s->broker);
    hub_await_gone(&s->http, HUB_SET, callback_url(cb));
    hub_stage_fence(s, fence);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), 0);
    assert_int_equal(callback_count(cb, SEEN_VERIFICATION), 1); /* kept as is */
    hub_stage_end(s);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, hub_stage_teardown)
    const struct CMUnitTest tests[] = {
        TEST(deliveries_go_on_where_a_kill_has_cut_them),
        TEST(the_delivery_in_flight_is_repeated_as_it_was),
        TEST(subscriptions_leases_and_secrets_outlive_a_kill),
        TEST(a_request_that_was_taken_outlives_a_kill),
        TEST(an_unsubscription_that_was_taken_outlives_a_kill),
        TEST(a_lease_ends_also_while_the_broker_is_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
