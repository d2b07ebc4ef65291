/* Pings: the hub fetches the topic that they name from its Source. */
#include "broker/sources/foreign_source.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/hub/stage.h"

FIXTURE(stage_open_relay, stage_close);

/* W-121, W-122, W-123: fetched with conditions, kept if it is new. */
TEST(fetches_what_is_pinged)
{
    origin_content(stage.origin, "text/plain", "\"1\"", SLICE("one"));

    assert_http(stage_ping(), 204, "");
    stage_await_documents(1);
    assert_http(stage_ping(), 204, "");
    origin_await(stage.origin, "GET", 2);
    assert_true(origin_was_asked(stage.origin, "If-None-Match: \"1\"\r\n"));
    origin_content(stage.origin, "application/json", "\"2\"", SLICE("{}"));
    assert_http(stage_ping(), 204, "");
    stage_await_documents(2);
    assert_int_equal(stage_documents(), 2);
}

/* However many pings arrive, one fetch is under way, and one follows. */
TEST(pings_that_come_meanwhile_mean_one_fetch_more)
{
    origin_content(stage.origin, "text/plain", NULL, SLICE("one"));
    origin_hold(stage.origin, true);
    (void)stage_ping();
    origin_await(stage.origin, "GET", 1);
    for (int i = 0; i < 10; i++)
        (void)stage_ping();
    origin_content(stage.origin, "text/plain", NULL, SLICE("two"));
    origin_hold(stage.origin, false);
    origin_await(stage.origin, "GET", 2);
    origin_content(stage.origin, "text/plain", NULL, SLICE("three"));
    stage_await_documents(1);
    (void)stage_ping();
    origin_await(stage.origin, "GET", 3);
    assert_int_equal(origin_count(stage.origin, "GET"), 3);
}

/* The hub has answered a ping, so it repeats a failed fetch. */
TEST(fetches_again_what_could_not_be_fetched)
{
    origin_content(stage.origin, "text/plain", NULL, SLICE("one"));
    origin_answers(stage.origin, 503, NULL, 2);
    (void)stage_ping();
    for (unsigned n = 1; n <= 2; n++) {
        origin_await(stage.origin, "GET", n);
        clock_await_us(ASKED_RETRY_US);
        clock_pass_us(ASKED_RETRY_US);
    }
    stage_await_documents(1);
    assert_int_equal(origin_count(stage.origin, "GET"), 3);

    /* A refusal is one. */
    origin_answers(stage.origin, 404, NULL, 1);
    (void)stage_ping();
    origin_await(stage.origin, "GET", 4);
    origin_content(stage.origin, "text/plain", NULL, SLICE("two"));
    (void)stage_ping();
    stage_await_documents(2);
    assert_int_equal(origin_count(stage.origin, "GET"), 5);
}

/* W-123: a size limit. */
TEST(keeps_nothing_of_a_topic_that_is_too_large)
{
    broker.sets.config.max_body = 10;
    origin_content(stage.origin, "text/plain", NULL, SLICE("12345678901"));
    (void)stage_ping();
    origin_await(stage.origin, "GET", 1);
    origin_content(stage.origin, "text/plain", NULL, SLICE("1234567890"));
    (void)stage_ping();
    stage_await_documents(1);
    assert_int_equal(stage_documents(), 1);
}

/* A set accepts fetched documents, too; a document that is both posted and
 * pinged counts once.
 */
TEST(a_set_is_fed_by_pings, stage_open_set, stage_close)
{
    static const char one[] = NOTICE("x", "http://e.example/1");
    static const char two[] = NOTICE("x", "http://e.example/2");

    origin_content(stage.origin, "application/xml", "\"1\"", slice_of(one));
    (void)stage_ping();
    stage_await_entries(1);
    assert_http(stage_post_xml("k-1", one), 200, "");
    assert_http(stage_post_xml("k-2", two), 200, "");
    origin_content(stage.origin, "application/xml", "\"2\"", slice_of(two));
    (void)stage_ping();
    origin_await(stage.origin, "GET", 2);
    origin_content(stage.origin, "application/xml", "\"3\"",
                   SLICE(NOTICE("x", "http://e.example/3")));
    (void)stage_ping();
    stage_await_entries(3);
    assert_int_equal(sets_head(&broker.sets, "demo").last, 3);
}

/* W-122, W-124 */
TEST(refuses_pings_for_topics_that_nobody_registered)
{
    (void)sets_post(&broker.sets, "demo", 1, 1);

    assert_http(asked_ping("hub.url=" SETS_URL "/sets/none/notifications"), 404,
                "is no topic that this hub takes in");
    assert_http(asked_ping("hub.url=" SETS_URL "/sets/demo/notifications"), 204,
                ""); /* ours: nothing to do */
    assert_int_equal(origin_count(stage.origin, "GET"), 0);
}

/* A publisher may name all feeds of its site: those that are known get fetched,
 * the others named. */
TEST(fetches_the_known_topics_of_a_ping)
{
    static const char *const forms[] = {
        "hub.url=%s&hub.topic=http://127.0.0.1:9/other",
        "hub.topic=http://127.0.0.1:9/other&hub.url=%s",
        "hub.url[]=http://127.0.0.1:9/other&hub.url%%5B1%%5D=%s",
        "hub.url=%s&hub.url=%s&hub.url=http://127.0.0.1:9/other",
    };

    for (unsigned i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        char form[600];
        struct told told;

        origin_content(stage.origin, "text/plain", NULL, slice_of(forms[i]));
        snprintf(form, sizeof(form), forms[i], stage.topic, stage.topic);
        told = asked_ping(form);
        assert_http(told, 202, "");
        assert_string_equal(told.text,
                            "\"http://127.0.0.1:9/other\" is no topic that "
                            "this hub takes in: it is of no relay, and no set "
                            "has it as its upstreamTopic\n");
        stage_await_documents(i + 1);
    }
}

/* Of many unknown ones the refusal names some, and counts the others. */
TEST(counts_the_unknown_topics_of_a_ping)
{
    char form[4096] = "hub.url=http://127.0.0.1:9/one";

    assert_http(asked_ping("hub.url=http://127.0.0.1:9/one"
                           "&hub.url=http://127.0.0.1:9/two"),
                404, "\"http://127.0.0.1:9/two\" is no topic");
    for (size_t i = 1; i < 20; i++)
        strcat(form, "&hub.url=http://127.0.0.1:9/more");
    assert_http(asked_ping(form), 404, "upstreamTopic; and 13 more");
}
