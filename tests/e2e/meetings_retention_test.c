/*
 * meetings_retention_test.c - where retention meets archives, times and
 * filters.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/demo.h"
#include "tests/support/events.h"
#include "tests/support/follower.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/support/refusal.h"
#include "tests/support/source.h"
#include "tests/support/wire.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

/* Archives */

/* Asserts that the archive names the lists `from` to `to`, each once, in order,
 * and that each address leads to one with entries; through parts if there are
 * `n_parts`. */
static void
assert_archived(struct http *h, uint64_t from, uint64_t to, size_t n_parts)
{
    char parts[50][200];
    uint64_t next = from;
    struct xpath x;

    snprintf(parts[0], sizeof(parts[0]), "/sets/demo/changelist-archive.xml");
    if (n_parts > 0) {
        assert_int_equal(http_get(h, parts[0]), 200);
        xpath_open(&x, buf_slice(&h->body));
        assert_xpath_count(&x, "/s:sitemapindex/s:sitemap", n_parts);
        for (size_t i = 0; i < n_parts; i++) {
            char expression[80];

            snprintf(expression, sizeof(expression),
                     "/s:sitemapindex/s:sitemap[%zu]/s:loc", i + 1);
            snprintf(parts[i], sizeof(parts[i]), "%s",
                     xpath_get(&x, expression) + strlen(h->url));
        }
        xpath_close(&x);
    }
    for (size_t i = 0; i < (n_parts ? n_parts : 1); i++) {
        size_t n;

        assert_int_equal(http_get(h, parts[i]), 200);
        xpath_open(&x, buf_slice(&h->body));
        n = xpath_count(&x, "/s:urlset/s:url");
        assert_true(n > 0);
        for (size_t k = 1; k <= n; k++, next++) {
            char expression[120];
            struct xpath list;

            snprintf(expression, sizeof(expression),
                     "/s:urlset/s:url[%zu]/s:loc", k);
            assert_int_equal(
                http_get(h, xpath_get(&x, expression) + strlen(h->url)), 200);
            snprintf(expression, sizeof(expression),
                     "/s:urlset/s:url[%zu]/s:loc[contains(., '%012llu.xml')]",
                     k, (unsigned long long)next);
            assert_xpath_count(&x, expression, 1);
            xpath_open(&list, buf_slice(&h->body));
            assert_true(xpath_count(&list, "/s:urlset/s:url") > 0);
            xpath_close(&list);
        }
        xpath_close(&x);
    }
    assert_int_equal(next, to + 1);
}

/* The parts of an archive begin at fixed numbers; a set that is made again, and
 * one whose oldest lists are gone, begin within one. */
TEST(an_archive_that_begins_within_a_part_names_every_list_once)
{
    struct broker b;
    struct http h;

    broker_open(&b, "--rotate-entries", "1", "--index-lists", "4",
                "--remove-grace", "0", NULL);
    http_open(&h, b.url);
    source_post(&h, "demo", 1, 5, 0);
    assert_archived(&h, 1, 5, 2);
    demo_remove(&h);
    for (uint64_t list = 7; list <= 20; list++) {
        source_post(&h, "demo", 1, 1, 0); /* 6 was open; 7 begins */
        if (list < 11)
            assert_archived(&h, 7, list, 0);
        else
            assert_archived(&h, 7, list, (size_t)(list - 1) / 4);
    }
    http_get(&h, "/sets/demo/changelist-archive/000000000001-000000000004.xml");
    assert_refused(&h, 410, "no longer kept");
    http_get(&h, "/sets/demo/changelist-archive/000000000021-000000000024.xml");
    assert_refused(&h, 404, "there and closed");

    for (unsigned left = 13; left <= 13; left -= 3) {
        char settings[60];
        uint64_t first = 21 - left;

        snprintf(settings, sizeof(settings),
                 "{\"retainLists\":%u,\"rotateEntries\":1}", left);
        demo_put(&h, settings);
        demo_await_closed(&h, left);
        assert_archived(&h, first, 20,
                        left > 4 ? 5 - (size_t)(first - 1) / 4 : 0);
    }
    http_close(&h);
    broker_close(&b);
}

/* an archive is named while it is there: in the index, the Capability
 * List and the set's own description alike. */
TEST(an_archive_without_lists_is_not_named)
{
    struct broker b;
    struct xpath x;
    struct http h;

    broker_open(&b, "--remove-grace", "0", NULL);
    http_open(&h, b.url);
    source_post(&h, "demo", 1, 1, 0);
    source_rotate(&h, "demo");
    for (size_t n = 1;; n--) {
        assert_int_equal(http_get(&h, "/sets/demo/changelist-archive.xml"),
                         n ? 200 : 404);
        assert_int_equal(http_get(&h, "/sets/demo/changelist.xml"), 200);
        xpath_open(&x, buf_slice(&h.body));
        assert_xpath_count(&x, "//rs:ln[@rel='archives']", n);
        xpath_close(&x);
        assert_int_equal(http_get(&h, "/sets/demo/capabilitylist.xml"), 200);
        xpath_open(&x, buf_slice(&h.body));
        assert_xpath_count(&x, "//rs:md[@capability='changelist-archive']", n);
        xpath_close(&x);
        http_get(&h, "/sets/demo");
        assert_int_equal(
            !!memmem(h.body.data, h.body.size, "changelist-archive", 18), n);
        if (n == 0)
            break;
        demo_put(&h, "{\"retainAge\":0.001}");
        demo_await_closed(&h, 0);
    }
    http_close(&h);
    broker_close(&b);
}

/* Times */

/* a time of which something is no longer retained is refused like a
 * position, also when no list is left and nothing is in memory. One at which
 * all is retained is not. */
TEST(a_time_before_the_earliest_is_gone)
{
    static const char *const forms[] = {"application/json", "application/xml"};
    char accept[40], path[120], before[64], last[64];
    struct receipt receipt;
    struct patience gone = {.with = "the file of what was let go to go"};
    struct events e;
    struct broker b;
    struct jsonpath j;
    struct http h;

    broker_open(&b, "--remove-grace", "0", NULL);
    http_open(&h, b.url);
    source_post(&h, "demo", 1, 1, 0);
    receipt = source_post(&h, "demo", 2, 1, 0);
    snprintf(before, sizeof(before), "%s", receipt.datetime);
    receipt = source_post(&h, "demo", 3, 1, 0);
    snprintf(last, sizeof(last), "%s", receipt.datetime);
    source_rotate(&h, "demo");
    demo_put(&h, "{\"retainAge\":0.001}");
    demo_await_closed(&h, 0);
    while (demo_has_list(&b, 1))
        patience_step(&gone);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 2; i++) {
            snprintf(accept, sizeof(accept), "Accept: %s", forms[i]);
            snprintf(path, sizeof(path), DEMO_CHANGES "?since=%s", before);
            http_ask(&h, "GET", path, accept, NULL);
            assert_refused(&h, 410, "no longer retained");
            jsonpath_open(&j, buf_slice(&h.body));
            assert_string_equal(strchr(jsonpath_text(&j, "earliest"), '-'),
                                "-3");
            assert_true(jsonpath_has(&j, "last"));
            assert_true(jsonpath_has(&j, "restart"));
            jsonpath_close(&j);
            snprintf(path, sizeof(path), DEMO_CHANGES "?since=%s", last);
            assert_int_equal(http_ask(&h, "GET", path, accept, NULL), 200);
        }
        http_get(&h, DEMO_CHANGES "?since=2001-01-01");
        assert_refused(&h, 410, "no longer retained");
        snprintf(path, sizeof(path), "/sets/demo/stream?since=%s", before);
        events_open(&e, b.port, path, NULL);
        events_end(&e, "gone");
        assert_string_equal(e.last_id, "gone");
        events_close(&e);
        if (round == 1)
            source_post(&h, "demo", 4, 1, 0);
        broker_stop(&b);
        broker_restart(&b);
    }
    http_close(&h);
    broker_close(&b);
}

/* Filters */

/* Retention goes past the last message of those whom nothing passes. They have
 * looked at what went, and miss nothing: they stay. */
TEST(who_gets_nothing_is_not_left_behind)
{
    static const char some[] =
        "[{\"loc\":\"http://example.com/x/1\",\"change\":\"created\"}]";
    struct wire_answer a;
    struct jsonpath j;
    struct follower f;
    struct broker b;
    struct wire *w;
    struct http h;

    broker_open(&b, "--rotate-entries", "2", "--heartbeat", "3600", NULL);
    http_open(&h, b.url);
    source_post(&h, "demo", 1, 1, 0);
    follower_open(&f, b.port, "/sets/demo/stream?prefix=http://example.com/x/",
                  NULL);
    assert_int_equal(follower_next(&f)->last, 1);
    w = wire_ask(b.port, DEMO_CHANGES "?after=1&wait=60"
                                      "&prefix=http://example.com/x/");
    assert_non_null(w);
    assert_true(wire_await_threads(b.port)); /* it waits */
    for (unsigned i = 0; i < 12; i++)
        source_post(&h, "demo", 1, 1, 0);
    assert_true(wire_await_threads(b.port)); /* both have seen them */
    demo_put(&h, "{\"retainLists\":1}");
    demo_await_closed(&h, 1);
    http_get(&h, DEMO_CHANGES "?after=1");
    assert_refused(&h, 410, "no longer retained");
    assert_int_equal(
        http_post(&h, DEMO_CHANGES, "application/json", SLICE(some)), 200);
    assert_int_equal(follower_next(&f)->last, 14);
    assert_int_equal(f.notice.after, 1);
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 200);
    jsonpath_open(&j, (struct slice){a.body, a.body_size});
    assert_int_equal(jsonpath_number(&j, "after"), 1);
    assert_int_equal(jsonpath_number(&j, "last"), 14);
    assert_int_equal(jsonpath_count(&j, "changes"), 1);
    jsonpath_close(&j);
    wire_close(w);
    follower_close(&f);
    http_close(&h);
    broker_close(&b);
}
