/*
 * meetings_test.c - where one promise meets another: removal and retention with
 * keys, waiting requests, event streams, posts that are arriving, archives,
 * times, and documents that somebody reads slowly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/broker.h"
#include "tests/support/events.h"
#include "tests/support/follower.h"
#include "tests/support/gzip.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/refusal.h"
#include "tests/support/source.h"
#include "tests/support/wire.h"
#include "tests/support/xpath.h"

#define CHANGES "/sets/demo/changes"

static const char *const json[] = {"Content-Type: application/json", NULL};
static const struct slice nothing = {NULL, 0};

static void
remove_demo(struct http *h)
{
    assert_int_equal(http_request(h, "DELETE", "/sets/demo", NULL, nothing),
                     204);
}

static void
put_demo(struct http *h, const char *settings)
{
    long status =
        http_request(h, "PUT", "/sets/demo", json, slice_of(settings));

    assert_true(status == 200 || status == 201);
}

static uint64_t
closed_lists(struct http *h)
{
    struct jsonpath j;
    uint64_t n;

    assert_int_equal(http_get(h, "/sets/demo"), 200);
    jsonpath_open(&j, buf_slice(&h->body));
    n = jsonpath_number(&j, "lists.closed");
    jsonpath_close(&j);
    return n;
}

/* ctest ends a test for which that never comes true. */
static void
wait_for_closed(struct http *h, uint64_t n)
{
    while (closed_lists(h) != n)
        usleep(1000);
}

static bool
has_folder(const struct broker *b, const char *set)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/sets/%s", b->data, set);
    return access(path, F_OK) == 0;
}

static bool
has_list(const struct broker *b, const char *set, unsigned list)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/sets/%s/changes/%012u.xml.gz", b->data,
             set, list);
    return access(path, F_OK) == 0;
}

/* Keys */

/* Posts one entry with a key; the position that was told. */
static void
post_with_key(struct http *h, const char *key, char to[64])
{
    char line[80];
    const char *const headers[] = {"Content-Type: application/json", line,
                                   NULL};
    struct jsonpath j;
    struct buf body;

    snprintf(line, sizeof(line), "Idempotency-Key: \"%s\"", key);
    buf_init(&body, 4096);
    source_entries(&body, 1, 1, 0);
    assert_int_equal(
        http_request(h, "POST", CHANGES, headers, buf_slice(&body)), 200);
    buf_fini(&body);
    jsonpath_open(&j, buf_slice(&h->body));
    snprintf(to, 64, "%s", jsonpath_text(&j, "position"));
    jsonpath_close(&j);
}

static void
position_of_demo(struct http *h, char to[64])
{
    struct jsonpath j;

    assert_int_equal(http_get(h, "/sets/demo"), 200);
    jsonpath_open(&j, buf_slice(&h->body));
    snprintf(to, 64, "%s", jsonpath_text(&j, "position"));
    jsonpath_close(&j);
}

/* A key belongs to the log that its post is in: a repeat after the set was made
 * again is a post, also after a restart that finds nothing of the old one. */
static void
a_key_of_a_removed_set_is_new_to_the_next_one(void **state)
{
    char first[64], second[64], again[64], now[64];
    struct broker b;
    struct http h;

    (void)state;
    broker_open(&b, "--remove-grace", "0", NULL);
    http_open(&h, b.url);
    post_with_key(&h, "k", first);
    for (int round = 0; round < 3; round++) {
        remove_demo(&h);
        if (round > 0) {
            while (has_folder(&b, "demo"))
                usleep(1000);
            broker_kill9(&b);
            broker_restart(&b);
        }
        post_with_key(&h, "k", second);
        assert_string_not_equal(first, second);
        assert_string_equal(strchr(second, '-'), "-1");
        post_with_key(&h, "k", again);
        assert_string_equal(second, again);
        position_of_demo(&h, now);
        assert_string_equal(second, now);
        memcpy(first, second, sizeof(first));
    }
    http_close(&h);
    broker_close(&b);
}

/* A post with a key and a removal in one round of the log, in either order:
 * what was answered is there, or went with the set as a whole. */
static void
a_key_that_waits_behind_a_removal_is_kept_once(void **state)
{
    struct broker *b = broker_of(state);
    struct http h;

    http_open(&h, b->url);
    for (unsigned round = 0; round < 40; round++) {
        struct wire *removal = wire_connect("127.0.0.1", b->port);
        struct wire *post = wire_connect("127.0.0.1", b->port);
        char key[20], told[64], again[64], now[64];
        struct wire_answer a;
        struct jsonpath j;
        struct buf body;

        snprintf(key, sizeof(key), "k%u", round);
        buf_init(&body, 4096);
        source_entries(&body, 1, 1, 0);
        source_post(&h, "demo", 1, 1, 0);
        assert_non_null(removal);
        assert_non_null(post);
        if (round % 4 != 3)
            assert_true(wire_send_text(removal, "DELETE /sets/demo HTTP/1.1\r\n"
                                                "Host: 127.0.0.1\r\n\r\n"));
        assert_true(wire_send_format(
            post,
            "POST " CHANGES " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            "Content-Type: application/json\r\nIdempotency-Key: \"%s\"\r\n"
            "Content-Length: %zu\r\n\r\n%.*s",
            key, body.size, (int)body.size, body.data));
        if (round % 4 == 3)
            assert_true(wire_send_text(removal, "DELETE /sets/demo HTTP/1.1\r\n"
                                                "Host: 127.0.0.1\r\n\r\n"));
        assert_true(wire_answer(removal, &a, false));
        assert_int_equal(a.status, 204);
        assert_true(wire_answer(post, &a, false));
        assert_int_equal(a.status, 200);
        jsonpath_open(&j, (struct slice){a.body, a.body_size});
        snprintf(told, sizeof(told), "%s", jsonpath_text(&j, "position"));
        jsonpath_close(&j);

        if (http_get(&h, "/sets/demo") == 410) { /* the removal was later */
            post_with_key(&h, key, again);
            assert_string_not_equal(told, again);
        } else {
            position_of_demo(&h, now);
            assert_string_equal(told, now);
            assert_string_equal(strchr(told, '-'), "-1");
            post_with_key(&h, key, again);
            assert_string_equal(told, again);
        }
        buf_fini(&body);
        wire_close(removal);
        wire_close(post);
    }
    http_close(&h);
}

/* Reads to the end of the stream: the last event has that name. */
static void
expect_last_event(struct events *e, const char *name)
{
    char last[sizeof(e->name)] = "";

    while (events_read(e))
        memcpy(last, e->name, sizeof(last));
    assert_string_equal(last, name);
    assert_true(e->is_whole);
}

/* Who waits */

static struct wire *
ask_and_wait(const struct broker *b, const char *path)
{
    struct wire *w = wire_connect("127.0.0.1", b->port);

    assert_non_null(w);
    assert_true(wire_send_format(
        w, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path));
    return w;
}

/* Filtered or not, behind a position or a time. Those that come too late to
 * wait are refused with the same status. */
static void
requests_that_wait_on_a_removed_set_are_answered(void **state)
{
    static const char *const paths[] = {
        CHANGES "?after=3&wait=60",
        CHANGES "?after=0&wait=60&prefix=http://nobody/",
        CHANGES "?since=2100-01-01&wait=60&tag=x",
    };

    enum { N = sizeof(paths) / sizeof(paths[0]) };
    struct broker *b = broker_of(state);
    char position[64], path[120];
    struct wire_answer a;
    struct wire *w[N];
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "demo", 1, 3, 0);
    for (size_t i = 0; i < N; i++)
        w[i] = ask_and_wait(b, paths[i]);
    for (unsigned i = 0; i < 20; i++)
        source_post(&h, "other", 1, 1, 0); /* they wait by then, likely */
    remove_demo(&h);
    for (size_t i = 0; i < N; i++) {
        assert_true(wire_answer(w[i], &a, false));
        assert_wire_refused(&a, 410, "was removed");
        wire_close(w[i]);
    }

    /* There is a set of that name again before they look. */
    for (int round = 0; round < 20; round++) {
        source_post(&h, "demo", 1, 3, 0);
        position_of_demo(&h, position);
        snprintf(path, sizeof(path), CHANGES "?after=%s&wait=60", position);
        for (size_t i = 0; i < N; i++)
            w[i] = ask_and_wait(b, path);
        source_post(&h, "other", 1, 1, 0);
        remove_demo(&h);
        source_post(&h, "demo", 1, 3, 0);
        for (size_t i = 0; i < N; i++) {
            assert_true(wire_answer(w[i], &a, false));
            assert_int_equal(a.status, 410);
            wire_close(w[i]);
        }
    }
    http_close(&h);
}

/* An EventSource hears why, comes back by itself, is refused; or, when there is
 * a set of that name again, is told once that its position is gone. */
static void
event_streams_of_a_removed_set_end_and_are_not_taken_up(void **state)
{
    static const char stream[] = "/sets/demo/stream";
    struct broker *b = broker_of(state);
    struct events plain, filtered;
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "demo", 1, 3, 0);
    events_open(&plain, b->port, stream, NULL);
    events_next(&plain);
    events_open(&filtered, b->port, "/sets/demo/stream?prefix=http://nobody/",
                NULL);
    events_next(&filtered);
    source_post(&h, "demo", 4, 1, 0);
    events_until(&plain, 4);
    remove_demo(&h);
    expect_last_event(&plain, "removed");
    expect_last_event(&filtered, "removed");
    assert_string_not_equal(plain.last_id, "gone");

    http_ask(&h, "GET", stream, "Accept: text/event-stream", NULL);
    assert_refused(&h, 410, "was removed");
    source_post(&h, "demo", 1, 1, 0);
    events_again(&plain, false);
    expect_last_event(&plain, "gone");
    assert_string_equal(plain.last_id, "gone");
    assert_non_null(
        memmem(plain.data.data, plain.data.size, "\"earliest\":", 11));
    events_close(&plain);
    events_close(&filtered);
    http_close(&h);
}

/* Posts that are arriving */

/* It is posted when it is whole: to the set that there is then. */
static void
a_post_that_arrives_during_a_removal_begins_the_next_set(void **state)
{
    struct broker *b = broker_of(state);
    struct wire *w = wire_connect("127.0.0.1", b->port);
    struct buf entries, body;
    struct wire_answer a;
    struct jsonpath j;
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "demo", 1, 3, 0);
    buf_init(&entries, 1 << 20);
    buf_init(&body, 1 << 20);
    source_entries(&entries, 10, 500, 100);
    gzip_add(&body, buf_slice(&entries));
    assert_non_null(w);
    assert_true(wire_send_format(
        w,
        "POST " CHANGES " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Content-Type: application/json\r\nContent-Encoding: gzip\r\n"
        "Idempotency-Key: \"g\"\r\nContent-Length: %zu\r\n\r\n",
        body.size));
    assert_true(wire_send(w, body.data, body.size / 2));
    remove_demo(&h);
    http_get(&h, CHANGES);
    assert_refused(&h, 410, "was removed");
    assert_true(
        wire_send(w, body.data + body.size / 2, body.size - body.size / 2));
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 200);
    jsonpath_open(&j, (struct slice){a.body, a.body_size});
    assert_int_equal(jsonpath_number(&j, "first"), 1);
    assert_int_equal(jsonpath_number(&j, "last"), 500);
    jsonpath_close(&j);
    assert_int_equal(http_get(&h, CHANGES "?after=0"), 200);
    jsonpath_open(&j, buf_slice(&h.body));
    assert_int_equal(jsonpath_count(&j, "changes"), 500);
    jsonpath_close(&j);
    buf_fini(&entries);
    buf_fini(&body);
    wire_close(w);
    http_close(&h);
}

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
static void
an_archive_that_begins_within_a_part_names_every_list_once(void **state)
{
    struct broker b;
    struct http h;

    (void)state;
    broker_open(&b, "--rotate-entries", "1", "--index-lists", "4",
                "--remove-grace", "0", NULL);
    http_open(&h, b.url);
    source_post(&h, "demo", 1, 5, 0);
    assert_archived(&h, 1, 5, 2);
    remove_demo(&h);
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
        put_demo(&h, settings);
        wait_for_closed(&h, left);
        assert_archived(&h, first, 20,
                        left > 4 ? 5 - (size_t)(first - 1) / 4 : 0);
    }
    http_close(&h);
    broker_close(&b);
}

/* Times */

/* a time of which something is no longer retained is refused like a
 * position, also when no list is left and nothing is in memory. One at which
 * all is retained is not. */
static void
a_time_before_the_earliest_is_gone(void **state)
{
    static const char *const forms[] = {"application/json", "application/xml"};
    char accept[40], path[120], before[64], last[64];
    struct receipt receipt;
    struct events e;
    struct broker b;
    struct jsonpath j;
    struct http h;

    (void)state;
    broker_open(&b, "--remove-grace", "0", NULL);
    http_open(&h, b.url);
    source_post(&h, "demo", 1, 1, 0);
    receipt = source_post(&h, "demo", 2, 1, 0);
    snprintf(before, sizeof(before), "%s", receipt.datetime);
    receipt = source_post(&h, "demo", 3, 1, 0);
    snprintf(last, sizeof(last), "%s", receipt.datetime);
    source_rotate(&h, "demo");
    put_demo(&h, "{\"retainAge\":0.001}");
    wait_for_closed(&h, 0);
    while (has_folder(&b, "demo"))
        usleep(1000);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 2; i++) {
            snprintf(accept, sizeof(accept), "Accept: %s", forms[i]);
            snprintf(path, sizeof(path), CHANGES "?since=%s", before);
            http_ask(&h, "GET", path, accept, NULL);
            assert_refused(&h, 410, "no longer retained");
            jsonpath_open(&j, buf_slice(&h.body));
            assert_string_equal(strchr(jsonpath_text(&j, "earliest"), '-'),
                                "-3");
            assert_true(jsonpath_has(&j, "last"));
            assert_true(jsonpath_has(&j, "restart"));
            jsonpath_close(&j);
            snprintf(path, sizeof(path), CHANGES "?since=%s", last);
            assert_int_equal(http_ask(&h, "GET", path, accept, NULL), 200);
        }
        http_get(&h, CHANGES "?since=2001-01-01");
        assert_refused(&h, 410, "no longer retained");
        snprintf(path, sizeof(path), "/sets/demo/stream?since=%s", before);
        events_open(&e, b.port, path, NULL);
        expect_last_event(&e, "gone");
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
static void
who_gets_nothing_is_not_left_behind(void **state)
{
    static const char some[] =
        "[{\"loc\":\"http://example.com/x/1\",\"change\":\"created\"}]";
    struct wire_answer a;
    struct jsonpath j;
    struct follower f;
    struct broker b;
    struct wire *w;
    struct http h;

    (void)state;
    broker_open(&b, "--rotate-entries", "2", "--heartbeat", "3600", NULL);
    http_open(&h, b.url);
    source_post(&h, "demo", 1, 1, 0);
    follower_open(&f, b.port, "/sets/demo/stream?prefix=http://example.com/x/",
                  NULL);
    assert_int_equal(follower_next(&f)->last, 1);
    w = ask_and_wait(&b, CHANGES "?after=1&wait=60"
                                 "&prefix=http://example.com/x/");
    for (unsigned i = 0; i < 12; i++)
        source_post(&h, "demo", 1, 1, 0);
    put_demo(&h, "{\"retainLists\":1}"); /* both have long been waiting */
    wait_for_closed(&h, 1);
    http_get(&h, CHANGES "?after=1");
    assert_refused(&h, 410, "no longer retained");
    assert_int_equal(http_post(&h, CHANGES, "application/json", SLICE(some)),
                     200);
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

/* Documents */

/* an archive is named while it is there: in the index, the Capability
 * List and the set's own description alike. */
static void
an_archive_without_lists_is_not_named(void **state)
{
    struct broker b;
    struct xpath x;
    struct http h;

    (void)state;
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
        put_demo(&h, "{\"retainAge\":0.001}");
        wait_for_closed(&h, 0);
    }
    http_close(&h);
    broker_close(&b);
}

/* Asks for a document of some megabytes, and reads no more than its head. */
static struct wire *
begin_reading(const struct broker *b, const char *path, size_t *size)
{
    struct wire *w = wire_connect_narrow("127.0.0.1", b->port);
    struct wire_answer a;
    char length[32];

    assert_non_null(w);
    assert_true(wire_send_format(
        w, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path));
    assert_true(wire_answer_head(w, &a));
    assert_int_equal(a.status, 200);
    assert_true(wire_header(&a, "Content-Length", length, sizeof(length)));
    assert_int_equal(sscanf(length, "%zu", size), 1);
    return w;
}

/* Who reads a list when its set is removed gets the rest of it, as long as the
 * grace period lasts; after that he is cut off. Never does he get bytes of the
 * set that has the name then. */
static void
a_list_of_a_removed_set_is_read_to_its_end_or_cut_off(void **state)
{
    static const char *const graces[] = {"3600", "0"};

    (void)state;
    for (size_t round = 0; round < 4; round++) {
        bool is_kept = round < 2, is_closed = round % 2;
        size_t size, got = 0;
        struct buf before;
        struct broker b;
        struct wire *w;
        struct http h;
        char etag[80], *body;
        long n;

        broker_open(&b, "--remove-grace", graces[round / 2], "--tail-bytes",
                    "1M", NULL);
        http_open(&h, b.url);
        for (unsigned i = 0; i < 10; i++)
            source_post(&h, "demo", i * 10, 10, 200000); /* 20 MB in all */
        if (is_closed) {
            source_rotate(&h, "demo");
            while (!http_ask(&h, "GET", CHANGES "/000000000001.xml",
                             "Accept-Encoding: gzip", NULL) ||
                   !http_header(&h, "Content-Encoding"))
                usleep(1000);
        }
        assert_int_equal(http_get(&h, CHANGES "/000000000001.xml"), 200);
        snprintf(etag, sizeof(etag), "If-None-Match: %s",
                 http_header(&h, "ETag"));
        buf_init(&before, 64 << 20);
        buf_add_slice(&before, buf_slice(&h.body));
        w = begin_reading(&b, CHANGES "/000000000001.xml", &size);
        assert_int_equal(size, before.size);
        remove_demo(&h);
        for (unsigned i = 0; i < 10; i++)
            source_post(&h, "demo", 500 + i * 10, 10, 100000);
        http_ask(&h, "GET", CHANGES "/000000000001.xml", etag, NULL);
        assert_refused(&h, 410, "no longer kept");
        if (!is_kept) /* the purge has begun; files go first, rows by slices */
            while (is_closed && has_list(&b, "demo", 1))
                usleep(1000);

        body = malloc(size);
        assert_non_null(body);
        while (got < size &&
               (n = wire_read_some(w, body + got, size - got)) > 0)
            got += (size_t)n;
        assert_memory_equal(body, before.data, got);
        if (is_kept)
            assert_int_equal(got, size);
        free(body);
        buf_fini(&before);
        wire_close(w);
        http_close(&h);
        broker_close(&b);
    }
}

#define SLOW_SETS 4096

/* The Source Description names where each set is described. Who reads
 * it slowly gets the bytes that were announced, or an answer that is visibly
 * cut off: never others, and none too many. */
static void
a_description_that_changes_while_it_is_read_is_cut_off(void **state)
{
    struct broker *b = broker_of(state);
    char path[40], settings[700], length[32], about[500];
    struct http h;

    http_open(&h, b->url);
    memset(about, 'x', sizeof(about));
    for (unsigned i = 0; i < SLOW_SETS; i++) {
        snprintf(path, sizeof(path), "/sets/s%05u", i);
        snprintf(settings, sizeof(settings),
                 "{\"description\":\"http://example.com/%.*s\"}", 400, about);
        assert_int_equal(
            http_request(&h, "PUT", path, json, slice_of(settings)), 201);
    }
    for (int round = 0; round < 4; round++) {
        static const char *const changes[] = {
            NULL, "{\"description\":\"http://example.com/longer", "{}", NULL};
        struct wire *w = wire_connect_narrow("127.0.0.1", b->port);
        size_t size = 0, got = 0;
        struct wire_answer a;
        char *body;
        long n;

        assert_non_null(w);
        assert_true(wire_send_text(w, "GET /.well-known/resourcesync HTTP/1.1"
                                      "\r\nHost: 127.0.0.1\r\n\r\n"));
        assert_true(wire_answer_head(w, &a));
        assert_true(wire_header(&a, "Content-Length", length, sizeof(length)));
        assert_int_equal(sscanf(length, "%zu", &size), 1);
        snprintf(path, sizeof(path), "/sets/s%05u", SLOW_SETS - 1 - round / 3);
        snprintf(settings, sizeof(settings), "%s%.*s%s",
                 changes[round] ? changes[round] : "", round == 1 ? 450 : 0,
                 about, round == 1 ? "\"}" : "");
        if (changes[round])
            assert_int_equal(
                http_request(&h, "PUT", path, json, slice_of(settings)), 200);
        else if (round == 3)
            assert_int_equal(http_request(&h, "DELETE", path, NULL, nothing),
                             204);
        body = malloc(size + 65536);
        assert_non_null(body);
        while (got < size &&
               (n = wire_read_some(w, body + got, size - got)) > 0)
            got += (size_t)n;
        if (round == 0) {
            assert_int_equal(got, size);
            assert_memory_equal(body + size - 10, "</urlset>\n", 10);
        } else {
            assert_true(got < size);
            assert_null(memmem(body, got, "</urlset>", 9));
        }
        free(body);
        wire_close(w);
    }
    assert_int_equal(http_get(&h, "/.well-known/resourcesync"), 200);
    http_close(&h);
}

/* Settings */

/* Settings that come between posts change where later lists end, and nothing
 * else; the last ones hold after a crash. */
static void
limits_of_a_set_hold_while_it_is_posted_to(void **state)
{
    enum { POSTERS = 8, ROUNDS = 30 };
    struct broker *b = broker_of(state);
    struct wire *w[POSTERS + 1];
    struct wire_answer a;
    struct jsonpath j;
    struct xpath x;
    struct http h;
    struct buf one;
    uint64_t n;

    http_open(&h, b->url);
    buf_init(&one, 4096);
    source_entries(&one, 1, 1, 0);
    for (size_t i = 0; i <= POSTERS; i++) {
        w[i] = wire_connect("127.0.0.1", b->port);
        assert_non_null(w[i]);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i <= POSTERS; i++) {
            if (i == round % (POSTERS + 1))
                assert_true(wire_send_format(
                    w[i],
                    "PUT /sets/demo HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                    "Content-Type: application/json\r\n"
                    "Content-Length: 19\r\n\r\n{\"rotateEntries\":%u}",
                    2 + round % 2));
            else
                assert_true(wire_send_format(
                    w[i],
                    "POST " CHANGES " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                    "Content-Type: application/json\r\n"
                    "Content-Length: %zu\r\n\r\n%.*s",
                    one.size, (int)one.size, one.data));
        }
        for (size_t i = 0; i <= POSTERS; i++) {
            assert_true(wire_answer(w[i], &a, false));
            assert_true(a.status == 200 || (round == 0 && a.status == 201));
        }
    }
    buf_fini(&one);
    for (size_t i = 0; i <= POSTERS; i++)
        wire_close(w[i]);

    assert_int_equal(http_get(&h, "/sets/demo"), 200);
    jsonpath_open(&j, buf_slice(&h.body));
    assert_int_equal(jsonpath_number(&j, "last"), POSTERS * ROUNDS);
    n = jsonpath_number(&j, "lists.closed");
    jsonpath_close(&j);
    for (uint64_t list = 2; list <= n; list++) { /* the first had no limit */
        char path[80];
        size_t entries;

        snprintf(path, sizeof(path), "/sets/demo/changes/%012llu.xml",
                 (unsigned long long)list);
        assert_int_equal(http_get(&h, path), 200);
        xpath_open(&x, buf_slice(&h.body));
        entries = xpath_count(&x, "/s:urlset/s:url");
        assert_in_range(entries, 2, 3);
        xpath_close(&x);
    }

    put_demo(&h, "{\"rotateEntries\":2}");
    http_post(&h, "/sets/demo/rotate", NULL, SLICE(""));
    n = closed_lists(&h);
    broker_kill9(b);
    broker_restart(b);
    source_post(&h, "demo", 1, 7, 0);
    assert_int_equal(closed_lists(&h), n + 3);
    assert_int_equal(http_get(&h, "/sets/demo/changes/latest.xml"), 200);
    xpath_open(&x, buf_slice(&h.body));
    assert_xpath_count(&x, "/s:urlset/s:url", 1);
    xpath_close(&x);
    http_close(&h);
}

/* whoever finds the Source, a set of it or its Capability
 * List finds what people read of it; a set that has no such page names none. */
static void
descriptions_are_named_wherever_a_set_is(void **state)
{
    static const char about[] = "http://example.com/about?a=1&b=2";
    struct broker *b = broker_of(state);
    struct xpath x;
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "plain", 1, 1, 0);
    put_demo(&h, "{\"description\":\"http://example.com/about?a=1&b=2\"}");
    for (int round = 0; round < 2; round++) {
        assert_int_equal(http_get(&h, "/.well-known/resourcesync"), 200);
        xpath_open(&x, buf_slice(&h.body));
        assert_xpath_count(&x, "/s:urlset/rs:ln[@rel='describedby']", 1);
        assert_int_equal(http_get(&h, xpath_get(&x, "/s:urlset/rs:ln[@rel="
                                                    "'describedby']/@href") +
                                          strlen(h.url)),
                         200);
        assert_xpath_text(&x,
                          "/s:urlset/s:url[contains(s:loc, '/demo/')]/"
                          "rs:ln[@rel='describedby']/@href",
                          about);
        assert_xpath_count(
            &x, "/s:urlset/s:url[contains(s:loc, '/plain/')]/rs:ln", 0);
        xpath_close(&x);
        assert_non_null(memmem(h.body.data, h.body.size,
                               "http://example.com/about?a=1&amp;b=2", 36));
        assert_int_equal(http_get(&h, "/sets/demo/capabilitylist.xml"), 200);
        xpath_open(&x, buf_slice(&h.body));
        assert_xpath_text(&x, "/s:urlset/rs:ln[@rel='describedby']/@href",
                          about);
        xpath_close(&x);
        assert_int_equal(http_get(&h, "/sets/plain/capabilitylist.xml"), 200);
        xpath_open(&x, buf_slice(&h.body));
        assert_xpath_count(&x, "//rs:ln[@rel='describedby']", 0);
        xpath_close(&x);
        broker_kill9(b);
        broker_restart(b);
    }
    http_close(&h);
}

int
main(void)
{
#define TEST(test) \
    cmocka_unit_test_setup_teardown(test, broker_setup, broker_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_of_a_removed_set_is_new_to_the_next_one),
        TEST(a_key_that_waits_behind_a_removal_is_kept_once),
        TEST(requests_that_wait_on_a_removed_set_are_answered),
        TEST(event_streams_of_a_removed_set_end_and_are_not_taken_up),
        TEST(a_post_that_arrives_during_a_removal_begins_the_next_set),
        cmocka_unit_test(
            an_archive_that_begins_within_a_part_names_every_list_once),
        cmocka_unit_test(a_time_before_the_earliest_is_gone),
        cmocka_unit_test(who_gets_nothing_is_not_left_behind),
        cmocka_unit_test(an_archive_without_lists_is_not_named),
        cmocka_unit_test(a_list_of_a_removed_set_is_read_to_its_end_or_cut_off),
        TEST(a_description_that_changes_while_it_is_read_is_cut_off),
        TEST(limits_of_a_set_hold_while_it_is_posted_to),
        TEST(descriptions_are_named_wherever_a_set_is),
    };

    return cmocka_run_group_tests_name("meetings", tests, NULL, NULL);
}
