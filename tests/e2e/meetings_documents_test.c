/*
 * meetings_documents_test.c - where settings and removals meet documents:
 * while somebody reads them slowly, while there are posts, after a restart.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/demo.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/support/refusal.h"
#include "tests/support/source.h"
#include "tests/support/wire.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

/* Documents */

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
TEST(a_list_of_a_removed_set_is_read_to_its_end_or_cut_off)
{
    static const char *const graces[] = {"3600", "0"};

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
            struct patience p = {.with = "the list to come from its file"};

            source_rotate(&h, "demo");
            while (!http_ask(&h, "GET", DEMO_CHANGES "/000000000001.xml",
                             "Accept-Encoding: gzip", NULL) ||
                   !http_header(&h, "Content-Encoding"))
                patience_step(&p);
        }
        assert_int_equal(http_get(&h, DEMO_CHANGES "/000000000001.xml"), 200);
        snprintf(etag, sizeof(etag), "If-None-Match: %s",
                 http_header(&h, "ETag"));
        buf_init(&before, 64 << 20);
        buf_add_slice(&before, buf_slice(&h.body));
        w = begin_reading(&b, DEMO_CHANGES "/000000000001.xml", &size);
        assert_int_equal(size, before.size);
        demo_remove(&h);
        for (unsigned i = 0; i < 10; i++)
            source_post(&h, "demo", 500 + i * 10, 10, 100000);
        http_ask(&h, "GET", DEMO_CHANGES "/000000000001.xml", etag, NULL);
        assert_refused(&h, 410, "no longer kept");
        if (!is_kept && is_closed) {
            struct patience p = {.with = "the list's file to go"};

            /* The purge has begun then; files go first, rows by slices. */
            while (demo_has_list(&b, 1))
                patience_step(&p);
        }

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

static const char *const json[] = {"Content-Type: application/json", NULL};

#define SLOW_SETS 4096

/* The Source Description names where each set is described. Who reads
 * it slowly gets the bytes that were announced, or an answer that is visibly
 * cut off: never others, and none too many. */
TEST(a_description_that_changes_while_it_is_read_is_cut_off, broker_setup,
     broker_teardown)
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
            assert_int_equal(http_ask(&h, "DELETE", path, NULL), 204);
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
TEST(limits_of_a_set_hold_while_it_is_posted_to, broker_setup, broker_teardown)
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
                    "POST " DEMO_CHANGES " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
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

    demo_put(&h, "{\"rotateEntries\":2}");
    http_post(&h, "/sets/demo/rotate", NULL, SLICE(""));
    n = demo_closed(&h);
    broker_kill9(b);
    broker_restart(b);
    source_post(&h, "demo", 1, 7, 0);
    assert_int_equal(demo_closed(&h), n + 3);
    assert_int_equal(http_get(&h, "/sets/demo/changes/latest.xml"), 200);
    xpath_open(&x, buf_slice(&h.body));
    assert_xpath_count(&x, "/s:urlset/s:url", 1);
    xpath_close(&x);
    http_close(&h);
}

/* whoever finds the Source, a set of it or its Capability
 * List finds what people read of it; a set that has no such page names none. */
TEST(descriptions_are_named_wherever_a_set_is, broker_setup, broker_teardown)
{
    static const char about[] = "http://example.com/about?a=1&b=2";
    struct broker *b = broker_of(state);
    struct xpath x;
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "plain", 1, 1, 0);
    demo_put(&h, "{\"description\":\"http://example.com/about?a=1&b=2\"}");
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
