/* Pings: what they name is fetched from its Source. */
#include "broker/hub/foreign.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/hub/stage.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* W-121, W-122, W-123: fetched with conditions, kept if it is new. */
TEST(fetches_what_is_pinged)
{
    struct stage s;
    struct told t;

    stage_open_relay(&s, state);
    origin_content(s.origin, "text/plain", "\"1\"", SLICE("one"));

    t = stage_ping(&s);
    assert_http(&t, 204, "");
    stage_await_documents(&s, 1);
    t = stage_ping(&s);
    assert_http(&t, 204, "");
    origin_await(s.origin, "GET", 2);
    assert_true(origin_was_asked(s.origin, "If-None-Match: \"1\"\r\n"));
    origin_content(s.origin, "application/json", "\"2\"", SLICE("{}"));
    t = stage_ping(&s);
    assert_http(&t, 204, "");
    stage_await_documents(&s, 2);
    assert_int_equal(stage_documents(&s), 2);

    stage_close(&s);
}

/* However often it is pinged, one fetch is under way, and one follows. */
TEST(pings_that_come_meanwhile_mean_one_fetch_more)
{
    struct stage s;

    stage_open_relay(&s, state);
    origin_content(s.origin, "text/plain", NULL, SLICE("one"));
    origin_hold(s.origin, true);
    (void)stage_ping(&s);
    origin_await(s.origin, "GET", 1);
    for (int i = 0; i < 10; i++)
        (void)stage_ping(&s);
    origin_content(s.origin, "text/plain", NULL, SLICE("two"));
    origin_hold(s.origin, false);
    origin_await(s.origin, "GET", 2);
    origin_content(s.origin, "text/plain", NULL, SLICE("three"));
    stage_await_documents(&s, 1);
    (void)stage_ping(&s);
    origin_await(s.origin, "GET", 3);
    assert_int_equal(origin_count(s.origin, "GET"), 3);

    stage_close(&s);
}

/* A ping was answered, so it is not lost with the first attempt. */
TEST(fetches_again_what_could_not_be_fetched)
{
    struct stage s;

    stage_open_relay(&s, state);
    origin_content(s.origin, "text/plain", NULL, SLICE("one"));
    origin_answers(s.origin, 503, NULL, 2);
    (void)stage_ping(&s);
    for (unsigned n = 1; n <= 2; n++) {
        origin_await(s.origin, "GET", n);
        clock_await_us(ASKED_RETRY_US);
        clock_pass_us(ASKED_RETRY_US);
    }
    stage_await_documents(&s, 1);
    assert_int_equal(origin_count(s.origin, "GET"), 3);

    /* A refusal is one. */
    origin_answers(s.origin, 404, NULL, 1);
    (void)stage_ping(&s);
    origin_await(s.origin, "GET", 4);
    origin_content(s.origin, "text/plain", NULL, SLICE("two"));
    (void)stage_ping(&s);
    stage_await_documents(&s, 2);
    assert_int_equal(origin_count(s.origin, "GET"), 5);

    stage_close(&s);
}

/* W-123: a size limit. */
TEST(keeps_nothing_of_a_topic_that_is_too_large)
{
    struct stage s;

    stage_open_relay(&s, state);
    s.asked.sets.config.max_body = 10;
    origin_content(s.origin, "text/plain", NULL, SLICE("12345678901"));
    (void)stage_ping(&s);
    origin_await(s.origin, "GET", 1);
    origin_content(s.origin, "text/plain", NULL, SLICE("1234567890"));
    (void)stage_ping(&s);
    stage_await_documents(&s, 1);
    assert_int_equal(stage_documents(&s), 1);

    stage_close(&s);
}

/* A set takes in what was fetched, too; and what was posted and pinged, once.
 */
TEST(a_set_is_fed_by_pings)
{
    static const char one[] = NOTICE("x", "http://e.example/1");
    static const char two[] = NOTICE("x", "http://e.example/2");
    struct stage s;
    struct told t;

    stage_open_set(&s, state);
    origin_content(s.origin, "application/xml", "\"1\"", slice_of(one));
    (void)stage_ping(&s);
    stage_await_entries(&s, 1);
    t = asked_post(&s.asked, s.topic, "application/xml", "k-1", one);
    assert_http(&t, 200, "");
    t = asked_post(&s.asked, s.topic, "application/xml", "k-2", two);
    assert_http(&t, 200, "");
    origin_content(s.origin, "application/xml", "\"2\"", slice_of(two));
    (void)stage_ping(&s);
    origin_await(s.origin, "GET", 2);
    origin_content(s.origin, "application/xml", "\"3\"",
                   SLICE(NOTICE("x", "http://e.example/3")));
    (void)stage_ping(&s);
    stage_await_entries(&s, 3);
    assert_int_equal(sets_head(&s.asked.sets, "demo").last, 3);

    stage_close(&s);
}

/* W-122, W-124: all that a ping names, or nothing. */
TEST(refuses_pings_for_topics_that_nobody_registered)
{
    char form[600];
    struct stage s;
    struct told t;

    stage_open_relay(&s, state);
    (void)sets_post(&s.asked.sets, "demo", 1, 1);

    snprintf(form, sizeof(form),
             "hub.url=%s&hub.topic=http://127.0.0.1:9/other", s.topic);
    t = asked_ping(&s.asked, form);
    assert_http(&t, 404, "is no topic that this hub takes in");
    t = asked_ping(&s.asked, "hub.url=" SETS_URL "/sets/none/notifications");
    assert_http(&t, 404, "is no topic that this hub takes in");
    t = asked_ping(&s.asked, "hub.url=" SETS_URL "/sets/demo/notifications");
    assert_http(&t, 204, ""); /* ours: nothing to do */
    assert_int_equal(origin_count(s.origin, "GET"), 0);

    stage_close(&s);
}
