/*
 * The tests that websub.rocks has for subscribers, 100 to 302, each of them
 * with a source and a hub that do what that site's do: the hub verifies before
 * it answers the request.
 */
#include <stdio.h>

#include "client/tidings.h"
#include "tests/test.h"
#include "tests/unit/websub/stage.h"

/* The subscription that the test's source leads to, and a delivery. */
static void
assert_subscribes(struct stage *s, const char *topic)
{
    struct fake_request *r = stage_take(s, &s->hub);

    fake_hub_assert(r, "hub.mode", "subscribe");
    fake_hub_assert(r, "hub.topic", topic);
    assert_int_equal(fake_hub_verify(&s->hub, r, NULL, 7200), 200);
    fake_hub_answer(r, 202, NULL, "");
    stage_await(s, TD_ACTIVE, 1);
    STAGE_DELIVER(s, r, 202, .body = "a post");
    stage_await_deliveries(s, 1);
    stage_assert_bodies(s, "a post|");
}

FIXTURE(stage_setup, stage_teardown);

/* 100. W-005, W-020, W-058 */
TEST(finds_hub_and_self_in_the_headers)
{
    struct stage *s = stage_of(state);

    stage_headers(s, NULL);
    stage_subscribe(s, NULL, NULL);
    assert_subscribes(s, origin_url(s->source));
    assert_string_equal(s->details[TD_DISCOVERED], origin_url(s->source));
    assert_string_equal(s->details[TD_ACTIVE], "7200");
}

/* 101. W-006 */
TEST(finds_them_in_an_html_page)
{
    struct stage *s = stage_of(state);

    stage_body(s, "text/html",
               "<!DOCTYPE html><html><head><title>Posts</title>"
               "<link rel=\"hub\" href=\"HUB\"><link rel=\"self\" "
               "href=\"SELF\"></head><body></body></html>");
    stage_subscribe(s, NULL, NULL);
    assert_subscribes(s, origin_url(s->source));
}

/* 102. W-006; as text/xml. */
TEST(finds_them_in_an_atom_feed)
{
    struct stage *s = stage_of(state);

    stage_body(s, "text/xml",
               "<?xml version=\"1.0\"?><feed "
               "xmlns=\"http://www.w3.org/2005/Atom\"><title>x</title>"
               "<link href=\"HUB\" rel=\"hub\"/><link href=\"SELF\" "
               "rel=\"self\"/><entry><title>a</title></entry></feed>");
    stage_subscribe(s, NULL, NULL);
    assert_subscribes(s, origin_url(s->source));
}

/* 103. W-006 */
TEST(finds_them_in_an_rss_feed)
{
    struct stage *s = stage_of(state);

    stage_body(s, "text/xml",
               "<?xml version=\"1.0\"?><rss "
               "xmlns:atom=\"http://www.w3.org/2005/Atom\" version=\"2.0\">"
               "<channel><title>x</title><atom:link href=\"HUB\" rel=\"hub\"/>"
               "<atom:link href=\"SELF\" rel=\"self\"/><item/></channel>"
               "</rss>");
    stage_subscribe(s, NULL, NULL);
    assert_subscribes(s, origin_url(s->source));
}

/* 104. W-005 */
TEST(headers_win_over_links_in_the_body)
{
    struct stage *s = stage_of(state);

    stage_body(s, "text/html",
               "<link rel=hub href=\"http://127.0.0.1:1/wrong\">"
               "<link rel=self href=\"http://127.0.0.1:1/wrong\">");
    stage_headers(s, NULL);
    stage_subscribe(s, NULL, NULL);
    assert_subscribes(s, origin_url(s->source));
}

/* 200. W-009 */
TEST(subscribes_to_self_though_it_differs_from_the_url)
{
    struct stage *s = stage_of(state);

    stage_headers(s, "https://example.com/canonical?a=1&b=%7E");
    stage_subscribe(s, NULL, NULL);
    assert_subscribes(s, "https://example.com/canonical?a=1&b=%7E");
}

/* W-010: what the last answer says counts. */
static void
assert_follows(struct stage *s, unsigned status)
{
    struct origin *first = origin_new("/first");

    origin_answers(first, status, origin_url(s->source), 0);
    origin_names(first, "http://example.com/wrong", "http://127.0.0.1:1/wrong");
    stage_headers(s, NULL);
    stage_subscribe(s, origin_url(first), NULL);
    assert_subscribes(s, origin_url(s->source));
    origin_free(first);
}

/* 201 */
TEST(follows_a_topic_that_is_elsewhere_for_now)
{
    assert_follows(stage_of(state), 302);
}

/* 202 */
TEST(follows_a_topic_that_has_moved)
{
    assert_follows(stage_of(state), 301);
}

/* W-010 */
TEST(follows_a_topic_that_keeps_the_method)
{
    assert_follows(stage_of(state), 307);
}

/* W-010 */
TEST(follows_a_topic_that_has_moved_and_keeps_the_method)
{
    assert_follows(stage_of(state), 308);
}

/* W-033: the same POST, there. */
static void
assert_repeats(struct stage *s, unsigned status)
{
    struct fake_request *first, *second;
    struct fake_hub other;
    char location[100];

    fake_hub_open(&other);
    snprintf(location, sizeof(location), "Location: %s\r\n", other.url);
    stage_headers(s, NULL);
    stage_subscribe(s, NULL, NULL);
    first = stage_take(s, &s->hub);
    fake_hub_answer(first, status, location, "");

    second = stage_take(s, &other);
    for (size_t i = 0; i < first->form.n; i++)
        fake_hub_assert(second, first->form.fields[i].name.data,
                        first->form.fields[i].value.data);
    assert_int_equal(first->form.n, second->form.n);
    assert_int_equal(fake_hub_verify(&other, second, NULL, 7200), 200);
    fake_hub_answer(second, 202, NULL, "");
    stage_await(s, TD_ACTIVE, 1);
    assert_int_equal(FAKE_HUB_DELIVER(&other, second, .body = "a post"), 202);
    stage_await_deliveries(s, 1);
    fake_hub_close(&other);
}

/* 203 */
TEST(repeats_the_request_where_the_hub_is_for_now)
{
    assert_repeats(stage_of(state), 307);
}

/* 204 */
TEST(repeats_the_request_where_the_hub_has_moved)
{
    assert_repeats(stage_of(state), 308);
}

/* 205. W-059 */
TEST(answers_404_to_the_verification_of_another_topic)
{
    struct stage *s = stage_of(state);
    struct fake_request *r;

    stage_headers(s, NULL);
    stage_subscribe(s, NULL, NULL);
    r = stage_take(s, &s->hub);
    assert_int_equal(
        fake_hub_verify(&s->hub, r, "http://example.com/wrong", 7200), 404);
    assert_int_equal(stage_counts(s).unknown, 1);
    assert_int_equal(stage_count(s, TD_ACTIVE), 0);

    assert_int_equal(fake_hub_verify(&s->hub, r, NULL, 7200), 200);
    fake_hub_answer(r, 202, NULL, "");
    stage_await(s, TD_ACTIVE, 1);
}

/* 300. W-088 */
TEST(answers_a_delivery_with_2xx)
{
    struct stage *s = stage_of(state);
    struct fake_request *r = stage_join(s, NULL, 7200);

    assert_int_equal(FAKE_HUB_DELIVER(&s->hub, r, .body = "a post",
                                      .type = "text/html; charset=utf-8") /
                         100,
                     2);
    stage_await_deliveries(s, 1);
    stage_assert_bodies(s, "a post|");
    assert_string_equal(s->last.type, "text/html; charset=utf-8");
    assert_string_equal(s->last.topic, origin_url(s->source));
}

/* 301. W-104, W-105 */
TEST(does_not_process_what_is_signed_wrongly)
{
    struct stage *s = stage_of(state);
    struct fake_request *r = stage_join(s, NULL, 7200);

    assert_true(fake_hub_value(r, "hub.secret")[0]);
    assert_int_equal(
        FAKE_HUB_DELIVER(
            &s->hub, r, .body = "evil",
            .signature = "sha256=0000000000000000000000000000000000000000000000"
                         "000000000000000000"),
        202);
    STAGE_DELIVER(s, r, 202, .body = "a post");
    stage_await_deliveries(s, 1);
    stage_assert_bodies(s, "a post|");
    assert_int_equal(stage_counts(s).wrong, 1);
}

/* 302. W-104, W-105 */
TEST(refuses_what_is_not_signed)
{
    struct stage *s = stage_of(state);
    struct fake_request *r = stage_join(s, NULL, 7200);

    STAGE_DELIVER(s, r, 403, .body = "evil", .signature = "");
    STAGE_DELIVER(s, r, 202, .body = "a post");
    stage_await_deliveries(s, 1);
    stage_assert_bodies(s, "a post|");
    assert_int_equal(stage_counts(s).unsigned_, 1);
}
