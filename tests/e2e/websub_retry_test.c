/*
 * websub_retry_test.c - what fails comes again, the same, and in order: all
 * that happened meanwhile comes after it.
 */
#include <stdio.h>
#include <time.h>

#include "tests/support/hub_stage.h"
#include "tests/support/trace.h"
#include "tests/support/xmldoc.h"
#include "tests/test.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

FIXTURE(NULL, hub_stage_teardown);

/* W-087, W-089, W-091, R-297, R-305, R-306 */
TEST(what_failed_comes_again_the_same)
{
    static const struct manner manners[] = {
        {.status = 301},
        {.status = 302},
        {.status = 303},
        {.status = 304},
        {.status = 307},
        {.status = 308},
        {.status = 400},
        {.status = 401},
        {.status = 404},
        {.status = 413},
        {.status = 429},
        {.status = 500},
        {.status = 503},
        {.kind = MANNER_HANG},
        {.kind = MANNER_TRICKLE, .pause_ms = 1000},
        {.kind = MANNER_SLOW_READ, .pause_ms = 20000},
        {.kind = MANNER_RESET_EARLY},
        {.kind = MANNER_RESET},
        {.kind = MANNER_RESET_MIDDLE},
        {.kind = MANNER_CLOSE},
        {.kind = MANNER_GARBAGE},
        {.kind = MANNER_ENDLESS_HEAD},
    };
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-timeout",
                                         "10", "--hub-host-connections", "100");
    struct callback *elsewhere = callbacks_add(s->callbacks, "/cb/elsewhere");
    struct callback *all[N(manners)];
    char location[300];

    snprintf(location, sizeof(location), "Location: %s\r\n",
             callback_url(elsewhere));
    for (size_t i = 0; i < N(manners); i++) {
        struct manner manner = manners[i];
        char target[40];

        snprintf(target, sizeof(target), "/cb/%zu", i);
        all[i] = hub_stage_join(s, target);
        if (manner.status / 100 == 3)
            manner.headers = location;
        manner.times = 1;
        callback_does(all[i], SEEN_DELIVERY, &manner, 1);
    }
    hub_stage_post(s, 2);
    for (size_t i = 0; i < N(manners); i++) {
        size_t n = manners[i].kind == MANNER_SLOW_READ ? 1 : 2;
        const struct seen *again = callback_await(all[i], SEEN_DELIVERY, n);

        callback_await_last(all[i], 2);
        hub_await_head(&s->http, HUB_SET, callback_url(all[i]));
        assert_int_equal(callback_count(all[i], SEEN_DELIVERY), n);
        if (callback_seen(all[i], SEEN_DELIVERY, 0)->is_whole) {
            const struct seen *first = callback_seen(all[i], SEEN_DELIVERY, 0);

            assert_string_equal(first->id, again->id);
            seen_assert_same_body(first, again);
        }
        assert_int_equal(callback_journal(all[i]).n_holes, 0);
    }
    /* Redirects are not followed (W-162). */
    assert_int_equal(callback_count(elsewhere, SEEN_DELIVERY), 0);
    assert_int_equal(callback_count(elsewhere, SEEN_VERIFICATION), 0);
    hub_stage_end(s);
}

static bool
has_failed_twice(const struct hub_state *state)
{
    return state->failures >= 2;
}

/* down, then up. */
TEST(who_was_away_gets_everything_when_it_is_back)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = hub_stage_join(s, "/cb/1");
    struct hub_state before;
    struct trace t;

    callback_await_last(cb, hub_stage_post(s, 1));
    hub_await_head(&s->http, HUB_SET, callback_url(cb)); /* has its answer */
    callbacks_go_down(s->callbacks);
    for (unsigned i = 0; i < 10; i++)
        hub_stage_post(s, 5);
    before = hub_await(&s->http, HUB_SET, callback_url(cb), has_failed_twice,
                       "failing");
    assert_string_not_equal(before.last_error, "");
    assert_string_equal(before.state, "active");
    assert_int_equal(before.lag, 50);

    callbacks_come_up(s->callbacks);
    callback_await_last(cb, 51);
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    callback_trace(cb, &t);
    assert_int_equal(t.last, 51);
    trace_fini(&t);
    hub_stage_end(s);
}

/* W-089: no sooner than it was asked for. */
TEST(retry_after_is_kept_to)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *seconds = hub_stage_join(s, "/cb/1");
    struct callback *date = hub_stage_join(s, "/cb/2");
    time_t when = time(NULL) + 4;
    struct timespec now;
    struct tm broken;
    char header[100];
    int64_t paused_us;

    strftime(header, sizeof(header), "Retry-After: %a, %d %b %Y %T GMT\r\n",
             gmtime_r(&when, &broken));
    CALLBACK_DOES(seconds, SEEN_DELIVERY,
                  {.status = 429, .headers = "Retry-After: 2\r\n", .times = 1});
    CALLBACK_DOES(date, SEEN_DELIVERY,
                  {.status = 503, .headers = header, .times = 1});
    hub_stage_post(s, 1);

    paused_us = callback_await(seconds, SEEN_DELIVERY, 2)->at_us -
                callback_seen(seconds, SEEN_DELIVERY, 0)->at_us;
    assert_true(paused_us >= 2000000);
    callback_await(date, SEEN_DELIVERY, 2);
    clock_gettime(CLOCK_REALTIME, &now); /* time() may be behind it */
    assert_true(now.tv_sec >= when);
    hub_stage_end(s);
}

/* W-089: it means something with 429 and 503 only. */
TEST(retry_after_of_other_answers_is_nobodys_business)
{
    static const unsigned statuses[] = {302, 400, 404, 500, 502, 504};
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *all[N(statuses)];

    for (size_t i = 0; i < N(statuses); i++) {
        char target[40];

        snprintf(target, sizeof(target), "/cb/%zu", i);
        all[i] = hub_stage_join(s, target);
        CALLBACK_DOES(all[i], SEEN_DELIVERY,
                      {.status = statuses[i],
                       .headers = "Retry-After: 86400\r\n",
                       .times = 1});
    }
    hub_stage_post(s, 1);
    for (size_t i = 0; i < N(statuses); i++)
        callback_await_last(all[i], 1);
    hub_stage_end(s);
}

static bool
has_skipped(const struct hub_state *state)
{
    return state->skipped > 0;
}

/* W-090, R-305, R-309 */
TEST(what_is_given_up_leaves_a_hole_that_shows)
{
    struct hub_stage *s =
        HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-give-up", "5");
    struct callback *cb = hub_stage_join(s, "/cb/1");
    struct hub_state told;

    callback_await_last(cb, hub_stage_post(s, 2));
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    CALLBACK_DOES(cb, SEEN_DELIVERY, {.status = 500});
    hub_stage_post(s, 3);
    told =
        hub_await(&s->http, HUB_SET, callback_url(cb), has_skipped, "given up");
    assert_string_equal(told.state, "active");
    assert_true(callback_count(cb, SEEN_DELIVERY) > 2); /* it was retried */

    CALLBACK_DOES(cb, SEEN_DELIVERY, {.status = 200});
    callback_await_last(cb, hub_stage_post(s, 1));
    assert_int_equal(callback_journal(cb).n_holes, 1);
    assert_int_equal(callback_journal(cb).n, 2);
    {
        size_t n = callback_count(cb, SEEN_DELIVERY);
        const struct seen *d = callback_seen(cb, SEEN_DELIVERY, n - 1);

        assert_int_equal(d->after, 5);
        assert_int_equal(d->last, 6);
    }
    hub_stage_end(s);
}

/* W-082, W-091, W-093, R-306, R-311 */
TEST(what_gathers_behind_a_delivery_goes_out_at_once)
{
    struct hub_stage *s =
        HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-timeout", "600");
    struct callback *cb = hub_stage_join(s, "/cb/1");
    const struct seen *d;
    struct trace t;

    CALLBACK_DOES(cb, SEEN_DELIVERY, {.waits = true, .times = 1});
    hub_stage_post(s, 1);
    callback_await(cb, SEEN_DELIVERY, 1);
    for (unsigned i = 0; i < 20; i++)
        hub_stage_post(s, 5);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), 1);
    callback_release(cb);

    d = callback_await(cb, SEEN_DELIVERY, 2);
    assert_int_equal(d->after, 1);
    assert_int_equal(d->last, 101);
    callback_await_last(cb, 101);
    callback_trace(cb, &t);
    trace_fini(&t);
    hub_stage_end(s);
}

/* What was fixed at the first try stays so, whatever comes meanwhile: R-306. */
TEST(a_retry_covers_what_the_first_try_did)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = hub_stage_join(s, "/cb/1");

    CALLBACK_DOES(cb, SEEN_DELIVERY, {.waits = true, .status = 500, .times = 1},
                  {.waits = true, .kind = MANNER_RESET, .times = 1});
    hub_stage_post(s, 3);
    for (size_t n = 1; n <= 2; n++) {
        callback_await(cb, SEEN_DELIVERY, n);
        hub_stage_post(s, 2);
        callback_release(cb);
    }
    callback_await_last(cb, 7);
    for (size_t i = 0; i < 3; i++) {
        const struct seen *d = callback_seen(cb, SEEN_DELIVERY, i);

        assert_int_equal(d->last, 3);
        assert_string_equal(d->id, callback_seen(cb, SEEN_DELIVERY, 0)->id);
        seen_assert_same_body(d, callback_seen(cb, SEEN_DELIVERY, 0));
    }
    assert_int_equal(callback_seen(cb, SEEN_DELIVERY, 3)->after, 3);
    assert_int_equal(callback_seen(cb, SEEN_DELIVERY, 3)->last, 7);
    hub_stage_end(s);
}

/* W-091, W-093, W-120, R-287, R-292, R-306, R-307: the same history, with the
 * digests of the Change List. */
TEST(everything_comes_in_order_whatever_fails)
{
    static const struct manner manners[] = {
        {.times = 3},
        {.status = 500, .times = 2},
        {.kind = MANNER_RESET, .times = 1},
        {.times = 5},
        {.kind = MANNER_RESET_EARLY, .times = 1},
        {.kind = MANNER_GARBAGE, .times = 1},
        {.status = 429, .headers = "Retry-After: 0\r\n", .times = 1},
        {.kind = MANNER_TRICKLE, .pause_ms = 1, .times = 5},
    };
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *all[5];
    uint64_t last = 0;
    struct trace list;
    struct xmldoc d;
    struct problem why = {""};

    for (unsigned i = 0; i < N(all); i++) {
        char target[40];

        snprintf(target, sizeof(target), "/cb/%u", i);
        all[i] = hub_stage_join(s, target);
        callback_does(all[i], SEEN_DELIVERY, manners + i,
                      N(manners) - i); /* each in another order of things */
    }
    for (unsigned i = 0; i < 100; i++)
        last = hub_stage_post(s, 1 + i % 7);

    trace_init(&list);
    for (unsigned i = 0; i < N(all); i++)
        callback_await_last(all[i], last);
    assert_int_equal(http_get(&s->http, "/sets/" HUB_SET "/changelist.xml"),
                     200);
    if (!xmldoc_read(&d, buf_slice(&s->http.body), &why) ||
        !trace_document(&list, &d, &why))
        fail_msg("%s", why.text);
    xmldoc_free(&d);
    for (unsigned i = 0; i < N(all); i++) {
        struct trace t;

        callback_trace(all[i], &t);
        assert_int_equal(t.last, last);
        assert_true(t.has_digests);
        if (!trace_is_same(&t, &list, &why))
            fail_msg("%s: %s", callback_url(all[i]), why.text);
        trace_fini(&t);
    }
    trace_fini(&list);
    hub_stage_end(s);
}
