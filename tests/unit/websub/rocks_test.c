/*
 * The tests of websub.rocks for subscribers, 100 to 302, each with a source and
 * a hub that behave as that site's: the hub verifies before it answers the
 * request.
 */
#include <stdio.h>

#include "client/tidings.h"
#include "tests/test.h"
#include "tests/unit/websub/stage.h"

/* The subscription that the test's source leads to, and a delivery. */
static void
assert_subscribes(const char *topic)
{
    struct fake_request *r = stage_take(NULL);

    fake_hub_assert(r, "hub.mode", "subscribe");
    fake_hub_assert(r, "hub.topic", topic);
    assert_int_equal(fake_hub_verify(&stage.hub, r, NULL, 7200), 200);
    fake_hub_answer(r, 202, NULL, "");
    stage_await(TD_ACTIVE, 1);
    STAGE_DELIVER(r, 202, .body = "a post");
    stage_assert_bodies(1, "a post|");
}

FIXTURE(stage_setup, stage_teardown);

/* 100. W-005, W-020, W-058 */
TEST(finds_hub_and_self_in_the_headers)
{
    stage_headers(NULL);
    stage_subscribe(NULL, NULL);
    assert_subscribes(origin_url(stage.source));
    assert_string_equal(stage.details[TD_DISCOVERED], origin_url(stage.source));
    assert_string_equal(stage.details[TD_ACTIVE], "7200");
}

/* 101, 102 (as text/xml), 103. W-006 */
TEST(finds_them_in_a_body)
{
    static const struct {
        const char *name, *type, *body;
    } rows[] = {
        {"an HTML page", "text/html",
         "<!DOCTYPE html><html><head><title>Posts</title>"
         "<link rel=\"hub\" href=\"HUB\"><link rel=\"self\" "
         "href=\"SELF\"></head><body></body></html>"},
        {"an Atom feed", "text/xml",
         "<?xml version=\"1.0\"?><feed "
         "xmlns=\"http://www.w3.org/2005/Atom\"><title>x</title>"
         "<link href=\"HUB\" rel=\"hub\"/><link href=\"SELF\" "
         "rel=\"self\"/><entry><title>a</title></entry></feed>"},
        {"an RSS feed", "text/xml",
         "<?xml version=\"1.0\"?><rss "
         "xmlns:atom=\"http://www.w3.org/2005/Atom\" version=\"2.0\">"
         "<channel><title>x</title><atom:link href=\"HUB\" rel=\"hub\"/>"
         "<atom:link href=\"SELF\" rel=\"self\"/><item/></channel>"
         "</rss>"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("in %s\n", rows[i].name);
        stage_body(rows[i].type, rows[i].body);
        stage_subscribe(NULL, NULL);
        assert_subscribes(origin_url(stage.source));
        stage_teardown(state);
        stage_setup(state);
    }
}

/* 104. W-005 */
TEST(headers_win_over_links_in_the_body)
{
    stage_body("text/html",
               "<link rel=hub href=\"http://127.0.0.1:1/wrong\">"
               "<link rel=self href=\"http://127.0.0.1:1/wrong\">");
    stage_headers(NULL);
    stage_subscribe(NULL, NULL);
    assert_subscribes(origin_url(stage.source));
}

/* 200. W-009 */
TEST(subscribes_to_self_though_it_differs_from_the_url)
{
    stage_headers("https://example.com/canonical?a=1&b=%7E");
    stage_subscribe(NULL, NULL);
    assert_subscribes("https://example.com/canonical?a=1&b=%7E");
}

/* 201, 202. W-010: the last answer counts. */
TEST(follows_a_topic_that_is_elsewhere)
{
    static const unsigned statuses[] = {301, 302, 307, 308};

    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        struct origin *first = origin_new("/first");

        print_message("%u\n", statuses[i]);
        origin_answers(first, statuses[i], origin_url(stage.source), 0);
        origin_names(first, "http://example.com/wrong",
                     "http://127.0.0.1:1/wrong");
        stage_headers(NULL);
        stage_subscribe(origin_url(first), NULL);
        assert_subscribes(origin_url(stage.source));
        origin_free(first);
        stage_teardown(state);
        stage_setup(state);
    }
}

/* W-033: the same POST, there. */
static void
assert_repeats(unsigned status)
{
    struct fake_request *first, *second;
    struct fake_hub other;
    char location[100];

    fake_hub_open(&other);
    snprintf(location, sizeof(location), "Location: %s\r\n", other.url);
    first = stage_request();
    fake_hub_answer(first, status, location, "");

    second = stage_take(&other);
    for (size_t i = 0; i < first->form.n; i++)
        fake_hub_assert(second, first->form.fields[i].name.data,
                        first->form.fields[i].value.data);
    assert_int_equal(first->form.n, second->form.n);
    assert_int_equal(fake_hub_verify(&other, second, NULL, 7200), 200);
    fake_hub_answer(second, 202, NULL, "");
    stage_await(TD_ACTIVE, 1);
    assert_int_equal(FAKE_HUB_DELIVER(&other, second, .body = "a post"), 202);
    stage_await_deliveries(1);
    fake_hub_close(&other);
}

/* 203 */
TEST(repeats_the_request_where_the_hub_is_for_now)
{
    assert_repeats(307);
}

/* 204 */
TEST(repeats_the_request_where_the_hub_has_moved)
{
    assert_repeats(308);
}

/* 205. W-059 */
TEST(answers_404_to_the_verification_of_another_topic)
{
    struct fake_request *r = stage_request();
    assert_int_equal(
        fake_hub_verify(&stage.hub, r, "http://example.com/wrong", 7200), 404);
    assert_int_equal(stage_counts().unknown, 1);
    assert_int_equal(stage_count(TD_ACTIVE), 0);

    assert_int_equal(fake_hub_verify(&stage.hub, r, NULL, 7200), 200);
    fake_hub_answer(r, 202, NULL, "");
    stage_await(TD_ACTIVE, 1);
}

/* 300. W-088 */
TEST(answers_a_delivery_with_2xx)
{
    struct fake_request *r = stage_join(NULL, 7200);

    assert_int_equal(FAKE_HUB_DELIVER(&stage.hub, r, .body = "a post",
                                      .type = "text/html; charset=utf-8") /
                         100,
                     2);
    stage_assert_bodies(1, "a post|");
    assert_string_equal(stage.last.type, "text/html; charset=utf-8");
    assert_string_equal(stage.last.topic, origin_url(stage.source));
}

/* 301. W-104, W-105 */
TEST(does_not_process_what_is_signed_wrongly)
{
    struct fake_request *r = stage_join(NULL, 7200);

    assert_true(fake_hub_value(r, "hub.secret")[0]);
    assert_int_equal(
        FAKE_HUB_DELIVER(
            &stage.hub, r, .body = "evil",
            .signature = "sha256=0000000000000000000000000000000000000000000000"
                         "000000000000000000"),
        202);
    STAGE_DELIVER(r, 202, .body = "a post");
    stage_assert_bodies(1, "a post|");
    assert_int_equal(stage_counts().wrong, 1);
}

/* 302. W-104, W-105 */
TEST(refuses_what_is_not_signed)
{
    struct fake_request *r = stage_join(NULL, 7200);

    STAGE_DELIVER(r, 403, .body = "evil", .signature = "");
    STAGE_DELIVER(r, 202, .body = "a post");
    stage_assert_bodies(1, "a post|");
    assert_int_equal(stage_counts().unsigned_, 1);
}
