/*
 * How a subscriber comes to its subscription, keeps it, and loses it.
 */
#include <stdio.h>

#include "client/tidings.h"
#include "client/websub/hub_subscription.h"
#include "tests/test.h"
#include "tests/unit/lib/transfers.h"
#include "tests/unit/websub/stage.h"

/* Takes the next request, asserts its mode, and confirms it. */
static struct fake_request *
grant(const char *mode, uint64_t lease_s)
{
    struct fake_request *r = stage_take(NULL);

    fake_hub_assert(r, "hub.mode", mode);
    fake_hub_answer(r, 202, NULL, "");
    assert_int_equal(fake_hub_verify(&stage.hub, r, NULL, lease_s), 200);
    return r;
}

FIXTURE(stage_setup, stage_teardown);

/* W-020 */
TEST(the_request_is_what_the_standard_asks_for)
{
    const struct td_subscriber_options options = {.lease_s = 4000};
    struct fake_request *r = stage_join(&options, 4000);

    fake_hub_assert(r, "hub.topic", origin_url(stage.source));
    fake_hub_assert(r, "hub.lease_seconds", "4000");
    assert_memory_equal(fake_hub_value(r, "hub.callback"),
                        td_callback_url(stage.callback),
                        strlen(td_callback_url(stage.callback)));
    /* W-030: random, shorter than 200 bytes; W-106: in that format. */
    assert_memory_equal(fake_hub_value(r, "hub.secret"), "whsec_", 6);
    assert_true(strlen(fake_hub_value(r, "hub.secret")) == 6 + 44);
}

/* W-030 */
TEST(a_secret_goes_by_https_or_stays_on_this_machine)
{
    assert_true(hub_subscription_is_safe("https://hub.example/"));
    assert_true(hub_subscription_is_safe("HTTPS://hub.example"));
    assert_true(hub_subscription_is_safe("http://127.0.0.1:80/hub"));
    assert_true(hub_subscription_is_safe("http://127.1/hub"));
    assert_true(hub_subscription_is_safe("http://localhost/"));
    assert_true(hub_subscription_is_safe("http://[::1]:8080/"));
    assert_false(hub_subscription_is_safe("http://hub.example/"));
    assert_false(hub_subscription_is_safe("http://127.0.0.1.example/"));
    assert_false(hub_subscription_is_safe("http://localhost.example/"));
    assert_false(hub_subscription_is_safe("http://10.0.0.1/"));
    assert_false(hub_subscription_is_safe("http://[::2]/"));
}

/* W-030: the hub has an address that is no loopback address, though it leads
 * here; then nothing is signed. */
TEST(no_secret_goes_over_the_network_in_the_clear)
{
    struct fake_request *r;
    char hub[100];

    snprintf(hub, sizeof(hub), "http://0.0.0.0%s", strrchr(stage.hub.url, ':'));
    origin_names(stage.source, origin_url(stage.source), hub);
    stage_subscribe(NULL, NULL);
    r = grant("subscribe", 7200);
    stage_await(TD_ACTIVE, 1);
    fake_hub_assert(r, "hub.secret", "");
    STAGE_DELIVER(r, 202, .body = "a");
    stage_await_deliveries(1);
}

/* W-005: where the headers name a hub, the body's does not count. */
TEST(what_the_headers_lack_is_looked_for_in_the_body)
{
    struct fake_request *r;
    char links[200];

    stage_body("text/html", "<link rel=hub href=\"http://127.0.0.1:1/wrong\">"
                            "<link rel=self href=\"http://example.com/self\">");
    snprintf(links, sizeof(links), "<%s>; rel=hub", stage.hub.url);
    origin_links(stage.source, links);
    origin_answers(stage.source, 200, NULL, 0);
    stage_subscribe(NULL, NULL);
    r = stage_take(NULL);
    fake_hub_assert(r, "hub.topic", "http://example.com/self");
    fake_hub_answer(r, 500, NULL, "");
    stage_await_trouble(1);
    stage_take(NULL); /* and no other one next time */
    assert_int_equal(stage_count(TD_TROUBLE), 1);
}

/* W-058: a mode that nobody asked for. */
TEST(an_unsubscription_that_nobody_asked_for_is_404)
{
    struct fake_request *r;
    char query[400];

    r = stage_join(NULL, 7200);
    snprintf(query, sizeof(query),
             "hub.mode=unsubscribe&hub.challenge=x&hub.topic=%s",
             origin_url(stage.source));
    assert_int_equal(fake_hub_query(&stage.hub, r, query), 404);
    assert_int_equal(fake_hub_query(&stage.hub, r, ""), 404);
    assert_int_equal(fake_hub_query(&stage.hub, r, "hub.mode=%zz"), 400);
    STAGE_DELIVER(r, 202, .body = "a");
    stage_await_deliveries(1);
    assert_int_equal(stage_counts().unknown, 2);
}

/* W-056 seen from here: the hub may not have got our first answer. */
TEST(a_verification_that_comes_again_is_confirmed_again)
{
    struct fake_request *r = stage_join(NULL, 7200);

    assert_int_equal(fake_hub_verify(&stage.hub, r, NULL, 3600), 200);
    stage_await(TD_ACTIVE, 2);
    assert_string_equal(stage.details[TD_ACTIVE], "3600");
}

/* W-073: nobody can put the renewal off. */
TEST(a_verification_that_comes_again_makes_no_lease_longer)
{
    struct fake_request *r = stage_join(NULL, 3600);

    assert_int_equal(fake_hub_verify(&stage.hub, r, NULL, 1000000), 200);
    stage_await(TD_ACTIVE, 2);
    assert_string_equal(stage.details[TD_ACTIVE], "3600");
}

/* W-043 */
TEST(what_is_denied_is_not_asked_for_again)
{
    struct fake_request *r = stage_request();
    fake_hub_answer(r, 202, NULL, "");
    assert_int_equal(fake_hub_deny(&stage.hub, r, "not\nfor you"), 200);
    stage_await(TD_DENIED, 1);
    assert_string_equal(stage.details[TD_DENIED], "not for you");
    assert_int_equal(fake_hub_verify(&stage.hub, r, NULL, 7200), 404);
    turner_end(stage.turner);
    stage.turner = NULL;
    assert_int_equal(td_run(stage.client), TD_OK); /* nothing runs any more */
    assert_true(fake_hub_is_idle(&stage.hub));
}

/* A request at another callback than that of `r`, which was denied. */
static struct fake_request *
take_question(const struct fake_request *r)
{
    struct fake_request *question = stage_take(NULL);

    fake_hub_assert(question, "hub.mode", "subscribe");
    assert_string_not_equal(fake_hub_value(question, "hub.callback"),
                            fake_hub_value(r, "hub.callback"));
    return question;
}

/* W-042, W-043: also when it was active. Everybody who knows the callback can
 * send a denial. The subscriber believes it when the hub refuses, when the hub
 * denies at a callback that nobody else knows, or when the topic is gone. */
TEST(an_active_subscription_may_be_denied)
{
    struct fake_request *r = stage_join(NULL, 7200), *question;

    assert_int_equal(fake_hub_query(&stage.hub, r,
                                    "hub.mode=denied&hub.topic=http://other/"),
                     404);
    assert_int_equal(fake_hub_deny(&stage.hub, r, "no more"), 200);
    question = take_question(r);
    assert_int_equal(stage_count(TD_DENIED), 0);
    assert_non_null(strstr(stage.details[TD_TROUBLE], "no more"));
    fake_hub_answer(question, 403, NULL, "not any more");
    stage_await(TD_DENIED, 1);
    assert_non_null(strstr(stage.details[TD_DENIED], "not any more"));
    STAGE_DELIVER(r, 404, .body = "a");
}

/* W-042, W-043 */
TEST(a_hub_may_prove_a_denial_by_another_one)
{
    struct fake_request *r = stage_join(NULL, 7200), *question;

    assert_int_equal(fake_hub_deny(&stage.hub, r, "no more"), 200);
    question = take_question(r);
    fake_hub_answer(question, 202, NULL, "");
    assert_int_equal(fake_hub_deny(&stage.hub, question, "indeed"), 200);
    stage_await(TD_DENIED, 1);
    assert_string_equal(stage.details[TD_DENIED], "indeed");
}

/* W-042, W-043 */
TEST(a_topic_that_is_gone_proves_a_denial)
{
    struct fake_request *r = stage_join(NULL, 7200);

    origin_answers(stage.source, 410, NULL, 0);
    assert_int_equal(fake_hub_deny(&stage.hub, r, "no more"), 200);
    stage_await(TD_DENIED, 1);
    assert_non_null(strstr(stage.details[TD_DENIED], "410"));
    assert_true(fake_hub_is_idle(&stage.hub));
}

/* W-043: only the topic's server can say that the topic is gone. A page without
 * a hub, as proxies and networks put one before a server, says nothing. */
TEST(a_topic_that_cannot_be_read_proves_no_denial)
{
    static const unsigned statuses[] = {503, 429, 302, 200};
    struct fake_request *r = stage_join(NULL, 7200), *question;

    origin_links(stage.source, NULL);
    origin_content(stage.source, "text/html", NULL, SLICE("<p>Please log in"));
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        origin_answers(stage.source, statuses[i], NULL, 0);
        if (i == 0)
            assert_int_equal(fake_hub_deny(&stage.hub, r, "go away"), 200);
        else
            stage_pass_pause();
        stage_await(TD_TROUBLE, (int)i + 2); /* one is the denial */
    }
    assert_non_null(strstr(stage.details[TD_TROUBLE], "no hub"));

    stage_headers(NULL);
    stage_pass_pause();
    question = take_question(r);
    fake_hub_answer(question, 202, NULL, "");
    assert_int_equal(fake_hub_verify(&stage.hub, question, NULL, 7200), 200);
    stage_await(TD_ACTIVE, 2);
    assert_int_equal(stage_count(TD_DENIED), 0);
}

/* W-043: a denial that the hub knows nothing of costs no delivery, and its
 * sender the callback. */
TEST(a_false_denial_is_not_believed)
{
    struct fake_request *r = stage_join(NULL, 7200), *question, *bye;

    assert_int_equal(fake_hub_deny(&stage.hub, r, "go away"), 200);
    question = take_question(r);
    STAGE_DELIVER(r, 202, .body = "a");
    assert_int_equal(fake_hub_deny(&stage.hub, r, "go away"), 200);
    fake_hub_answer(question, 503, NULL, "");
    stage_await_trouble(2);

    question = take_question(r);
    fake_hub_answer(question, 202, NULL, "");
    STAGE_DELIVER(r, 202, .body = "b");
    assert_int_equal(fake_hub_verify(&stage.hub, question, NULL, 7200), 200);
    stage_await(TD_ACTIVE, 2);
    STAGE_DELIVER(question, 202, .body = "c");
    bye = stage_take(NULL);
    fake_hub_assert(bye, "hub.mode", "unsubscribe");
    fake_hub_assert(bye, "hub.callback", fake_hub_value(r, "hub.callback"));
    assert_int_equal(fake_hub_deny(&stage.hub, r, "go away"), 200);
    fake_hub_answer(bye, 202, NULL, "");
    assert_int_equal(fake_hub_verify(&stage.hub, bye, NULL, 0), 200);
    stage_assert_bodies(3, "a|b|c|");
    assert_int_equal(stage_count(TD_DENIED), 0);
    assert_true(fake_hub_is_idle(&stage.hub));
}

/* W-032, W-044: a refusal is a denial. */
TEST(a_request_that_is_refused_is_denied)
{
    struct fake_request *r = stage_request();
    fake_hub_answer(r, 403, "Content-Type: text/plain\r\n",
                    "this topic is not ours\nmore");
    stage_await(TD_DENIED, 1);
    assert_non_null(strstr(stage.details[TD_DENIED], "this topic is not ours"));
    assert_null(strstr(stage.details[TD_DENIED], "more"));
}

TEST(a_hub_in_trouble_is_asked_again)
{
    static const unsigned statuses[] = {500, 503, 429, 302, 408};
    struct fake_request *r;

    stage_headers(NULL);
    stage_subscribe(NULL, NULL);
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        r = stage_take(NULL);
        fake_hub_answer(r, statuses[i], NULL, "");
        stage_await_trouble((int)i + 1);
    }
    r = grant("subscribe", 7200);
    stage_await(TD_ACTIVE, 1);
}

/* W-011: of several hubs the subscriber asks another one if one has trouble. */
TEST(another_hub_is_asked_where_one_fails)
{
    char links[300];

    snprintf(links, sizeof(links),
             "<http://127.0.0.1:1/hub>; rel=\"hub\", <%s>; rel=\"hub\", "
             "</topic>; rel=\"self\"",
             stage.hub.url);
    origin_links(stage.source, links);
    stage_subscribe(NULL, NULL);
    stage_await_trouble(1);
    grant("subscribe", 7200);
    stage_await(TD_ACTIVE, 1);
    assert_int_equal(stage_count(TD_TROUBLE), 1);
}

/* W-011: the subscriber asks a hub with https first, wherever it stands. */
TEST(a_hub_by_https_is_preferred)
{
    char links[300];

    snprintf(links, sizeof(links),
             "<%s>; rel=\"hub\", <https://127.0.0.1:1/hub>; rel=\"hub\", "
             "</topic>; rel=\"self\"",
             stage.hub.url);
    origin_links(stage.source, links);
    stage_subscribe(NULL, NULL);
    stage_await_trouble(1);
    stage_take(NULL);
    assert_int_equal(stage_count(TD_TROUBLE), 1);
    assert_non_null(
        strstr(stage.details[TD_TROUBLE], "https://127.0.0.1:1/hub"));
}

TEST(a_topic_that_is_away_or_says_nothing_is_asked_again)
{
    origin_answers(stage.source, 503, NULL, 1);
    origin_content(stage.source, "text/plain", NULL, SLICE("nothing"));
    stage_subscribe(NULL, NULL);
    stage_await_trouble(1);
    stage_await(TD_TROUBLE, 2);
    origin_links(stage.source, "<http://127.0.0.1:1/>; rel=hub");
    stage_pass_pause();
    stage_await(TD_TROUBLE, 3);
    stage_headers(NULL);
    stage_pass_pause();
    grant("subscribe", 7200);
    stage_await(TD_ACTIVE, 1);
}

/* When a lease of a second is renewed at the latest. */
#define RENEWAL_US (INT64_C(850) * 1000)

/* W-033: 307 is for once, 308 is remembered at the renewal. */
static void
assert_renews_at(unsigned status, bool is_remembered)
{
    const struct td_subscriber_options options = {.lease_s = 1};
    struct fake_request *first, *moved, *again;
    struct fake_hub other;
    char location[100];

    fake_hub_open(&other);
    snprintf(location, sizeof(location), "Location: %s\r\n", other.url);
    stage_headers(NULL);
    stage_subscribe(NULL, &options);
    first = stage_take(NULL);
    fake_hub_answer(first, status, location, "");
    moved = stage_take(&other);
    fake_hub_answer(moved, 202, NULL, "");
    stage_await(TD_REQUESTED, 1);
    assert_int_equal(fake_hub_verify(&other, moved, NULL, 1), 200);
    stage_await(TD_ACTIVE, 1);

    stage_pass_us(RENEWAL_US);
    again = stage_take(is_remembered ? &other : &stage.hub);
    fake_hub_assert(again, "hub.mode", "subscribe");
    fake_hub_close(&other);
}

/* W-033 */
TEST(a_hub_that_moved_for_good_is_remembered)
{
    assert_renews_at(308, true);
}

/* W-033 */
TEST(a_hub_that_moved_for_now_is_not)
{
    assert_renews_at(307, false);
}

TEST(redirects_without_end_are_trouble)
{
    struct fake_request *r;
    char location[100];

    snprintf(location, sizeof(location), "Location: %s\r\n", stage.hub.url);
    stage_headers(NULL);
    stage_subscribe(NULL, NULL);
    for (int i = 0; i < 6; i++) {
        r = stage_take(NULL);
        fake_hub_answer(r, 307, location, "");
    }
    stage_await(TD_TROUBLE, 1);
    assert_non_null(strstr(stage.details[TD_TROUBLE], "307"));
}

/* W-073, W-010: the renewal begins when about a quarter of the lease is left,
 * and with discovery, so that a topic that has moved is found. */
TEST(a_renewal_begins_with_discovery)
{
    const struct td_subscriber_options options = {.lease_s = 1};
    struct fake_request *r = stage_join(&options, 1);

    stage_headers("http://example.com/new");
    stage_pass_us(649000);
    assert_true(transfers_none(NULL));
    stage_pass_us(RENEWAL_US - 649000);
    r = stage_take(NULL);
    fake_hub_assert(r, "hub.topic", "http://example.com/new");
    fake_hub_assert(r, "hub.mode", "subscribe");
    assert_int_equal(stage_count(TD_DISCOVERED), 2);
}

/* W-073: the subscriber repeats a failed renewal, also after a refusal. */
TEST(a_renewal_that_is_refused_is_tried_again)
{
    const struct td_subscriber_options options = {.lease_s = 1};
    struct fake_request *r = stage_join(&options, 1);

    stage_pass_us(RENEWAL_US);
    r = stage_take(NULL);
    fake_hub_answer(r, 404, NULL, "");
    stage_await_trouble(1);
    r = grant("subscribe", 7200);
    stage_await(TD_ACTIVE, 2);
    assert_int_equal(stage_count(TD_DENIED), 0);
}

/* W-060: the lease does not matter there; W-061. */
TEST(an_end_is_verified)
{
    struct fake_request *r, *bye;

    r = stage_join(NULL, 7200);
    stage_end();
    bye = stage_take(NULL);
    fake_hub_assert(bye, "hub.mode", "unsubscribe");
    fake_hub_assert(bye, "hub.callback", fake_hub_value(r, "hub.callback"));
    fake_hub_assert(bye, "hub.topic", fake_hub_value(r, "hub.topic"));
    fake_hub_assert(bye, "hub.secret", "");
    /* Not the parameter of the earlier request. */
    assert_int_equal(fake_hub_verify(&stage.hub, r, NULL, 7200), 404);
    assert_int_equal(fake_hub_verify(&stage.hub, bye, NULL, 0), 200);
    fake_hub_answer(bye, 202, NULL, "");
    stage_await(TD_ENDED, 1);
    assert_int_equal(FAKE_HUB_DELIVER(&stage.hub, r, .body = "a") / 100, 4);
    assert_int_equal(stage.n_deliveries, 0);
}

/* W-086: 410 ends it as well. */
TEST(deliveries_after_the_end_are_410)
{
    struct fake_request *r = stage_join(NULL, 7200);
    stage_end();
    stage_take(NULL);
    STAGE_DELIVER(r, 410, .body = "a");
    stage_await(TD_ENDED, 1);
    assert_int_equal(stage.n_deliveries, 0);
}

TEST(an_end_is_asked_for_again_where_the_hub_is_in_trouble)
{
    stage_join(NULL, 7200);
    stage_end();
    for (int i = 0; i < 3; i++) {
        fake_hub_answer(stage_take(NULL), 503, NULL, "");
        stage_pass_pause();
    }
    grant("unsubscribe", 0);
    stage_await(TD_ENDED, 1);
}

TEST(an_end_before_the_verification_is_one_at_once)
{
    struct fake_request *r = stage_request();
    stage_end();
    stage_await(TD_ENDED, 1);
    assert_int_equal(fake_hub_verify(&stage.hub, r, NULL, 7200), 404);
}

TEST(it_may_be_closed_by_its_callback)
{
    struct fake_request *r = stage_join(NULL, 7200);

    stage.closes_after = 1;
    STAGE_DELIVER(r, 202, .body = "a");
    stage_await_deliveries(1);
    STAGE_DELIVER(r, 404, .body = "b");
}

TEST(bad_arguments_are_refused)
{
    static const char *const urls[] = {"", "topic", "ftp://a.example/",
                                       "http://a.example/#b"};
    struct td_subscriber_options options = {.lease_s = 0};
    struct td_subscriber *subscriber;

    turner_hold(stage.turner);
    assert_int_equal(td_subscriber_open(stage.callback, "http://a.example/",
                                        &options, &subscriber),
                     TD_INVALID);
    options.on_delivery = (void (*)(const struct td_delivery *, void *))1;
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        assert_int_equal(
            td_subscriber_open(stage.callback, urls[i], &options, &subscriber),
            TD_INVALID);
        assert_null(subscriber);
        assert_true(td_problem(stage.client)[0]);
    }
    turner_let(stage.turner);
}
