/*
 * gzip_test.c - posts with Content-Encoding: gzip: the same as without, and
 * nothing that comes out of a few bytes holds anybody up.
 */
#include "tests/support/gzip.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"
#include "proto/vocab.h"
#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/refusal.h"
#include "tests/support/source.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define CHANGES  "/sets/news/changes"
#define MAX_BODY (8 << 20)

#define ENTRY(n) "{\"loc\":\"http://example.com/" n "\",\"change\":\"created\"}"

static int
set_up(void **state)
{
    struct broker *b = malloc(sizeof(*b));
    struct http h;

    assert_non_null(b);
    *state = b;
    broker_open(b, "--threads", "1", "--max-body", "8M", "--ingest-bytes",
                "32M", NULL);
    http_open(&h, b->url);
    source_post(&h, "news", 1, 1, 0);
    http_close(&h);
    return 0;
}

static int
tear_down(void **state)
{
    broker_close(*state);
    free(*state);
    return 0;
}

static long
post_coded(struct http *h, const char *type, const char *coding,
           struct slice body)
{
    char type_line[100], coding_line[100];
    const char *const headers[] = {type_line, coding_line, NULL};

    snprintf(type_line, sizeof(type_line), "Content-Type: %s", type);
    snprintf(coding_line, sizeof(coding_line), "Content-Encoding: %s", coding);
    return http_request(h, "POST", CHANGES, headers, body);
}

/* The number of the set's last entry. */
static uint64_t
last(struct http *h)
{
    struct jsonpath j;
    uint64_t n;

    assert_int_equal(http_get(h, CHANGES "?after=0"), 200);
    jsonpath_open(&j, buf_slice(&h->body));
    n = jsonpath_number(&j, "last");
    jsonpath_close(&j);
    return n;
}

FIXTURE(set_up, tear_down);

/* RFC 9110 sections 8.4.1 and 8.4.1.3. */
TEST(takes_every_format_in_gzip)
{
    static const struct {
        const char *type;
        const char *coding;
        const char *body;
        size_t n;
    } posts[] = {
        {"application/json", "gzip", ENTRY("a"), 1},
        {"application/json", "x-gzip", "[" ENTRY("a") "," ENTRY("b") "]", 2},
        {"application/x-ndjson", "GZip", ENTRY("a") "\n" ENTRY("b") "\n", 2},
        {"application/xml", "gzip",
         "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS "'>"
         "<rs:md capability='changelist'/>"
         "<url><loc>http://example.com/x</loc><rs:md change='deleted'/></url>"
         "</urlset>",
         1},
    };
    struct broker *b = *state;
    struct http h;

    http_open(&h, b->url);
    for (size_t i = 0; i < sizeof(posts) / sizeof(posts[0]); i++) {
        struct slice body = slice_of(posts[i].body);
        uint64_t before = last(&h);
        struct buf zip;

        buf_init(&zip, SIZE_MAX);
        gzip_add(&zip, body);
        assert_int_equal(
            post_coded(&h, posts[i].type, posts[i].coding, buf_slice(&zip)),
            200);
        assert_int_equal(last(&h), before + posts[i].n);

        /* In two members. */
        buf_clear(&zip);
        gzip_add(&zip, (struct slice){body.data, 20});
        gzip_add(&zip, (struct slice){body.data + 20, body.size - 20});
        assert_int_equal(
            post_coded(&h, posts[i].type, posts[i].coding, buf_slice(&zip)),
            200);
        assert_int_equal(last(&h), before + 2 * posts[i].n);
        buf_fini(&zip);

        assert_int_equal(post_coded(&h, posts[i].type, "identity", body), 200);
    }
    http_close(&h);
}

/* A body that comes in many packets, and inflates to many steps. */
TEST(takes_large_posts_in_gzip)
{
    struct broker *b = *state;
    uint64_t before;
    struct buf body, zip;
    struct http h;

    buf_init(&body, SIZE_MAX);
    buf_init(&zip, SIZE_MAX);
    source_entries(&body, 1, 50000, 0);
    assert_true(body.size < MAX_BODY && body.size > MAX_BODY / 4);
    gzip_add(&zip, buf_slice(&body));

    http_open(&h, b->url);
    before = last(&h);
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            post_coded(&h, "application/json", "gzip", buf_slice(&zip)), 200);
    assert_int_equal(source_post(&h, "news", 1, 1, 0).last,
                     before + 3 * 50000 + 1);
    http_close(&h);
    buf_fini(&zip);
    buf_fini(&body);
}

/* RFC 9110 section 15.5.16: 415, and what would have been read. */
TEST(refuses_other_codings_with_what_it_reads)
{
    static const char *const codings[] = {
        "br",         "deflate",        "zstd",           "compress",
        "gzip, gzip", "identity, gzip", "gzip, identity", "*",
    };
    struct broker *b = *state;
    struct wire_answer a;
    struct wire *w;
    struct http h;

    http_open(&h, b->url);
    for (size_t i = 0; i < sizeof(codings) / sizeof(codings[0]); i++) {
        post_coded(&h, "application/json", codings[i], SLICE(ENTRY("a")));
        assert_refused(&h, 415, codings[i]);
        assert_string_equal(http_header(&h, "Accept-Encoding"), "gzip");
        assert_null(http_header(&h, "Allow"));
    }
    post_coded(&h, "text/plain", "gzip", SLICE("a"));
    assert_refused(&h, 415, "text/plain");
    assert_null(http_header(&h, "Accept-Encoding"));

    /* In two lines of the head. */
    w = wire_connect("127.0.0.1", b->port);
    assert_non_null(w);
    assert_true(wire_request(w, "POST", CHANGES,
                             "Content-Type: application/json\r\n"
                             "Content-Encoding: gzip\r\n"
                             "Content-Encoding: gzip\r\n",
                             ENTRY("a"), &a));
    assert_wire_refused(&a, 415, "gzip");
    wire_close(w);
    assert_int_equal(last(&h), 1);
    http_close(&h);
}

/* Design section 5, rule 5: nothing of a bad post is kept. */
TEST(keeps_nothing_of_a_damaged_stream)
{
    struct broker *b = *state;
    struct buf body, zip;
    struct http h;

    buf_init(&body, SIZE_MAX);
    buf_init(&zip, SIZE_MAX);
    source_entries(&body, 1, 1000, 0);
    gzip_add(&zip, buf_slice(&body));
    http_open(&h, b->url);

    post_coded(&h, "application/json", "gzip",
               (struct slice){zip.data, zip.size - 1});
    assert_refused(&h, 400, "it ends before its end");
    post_coded(&h, "application/json", "gzip",
               (struct slice){zip.data, zip.size / 2});
    assert_refused(&h, 400, "it ends before its end");

    zip.data[zip.size - 6] ^= 1; /* the checksum: all entries are there */
    post_coded(&h, "application/json", "gzip", buf_slice(&zip));
    assert_refused(&h, 400, "incorrect data check");
    zip.data[zip.size - 6] ^= 1;
    BUF_ADD(&zip, "more");
    post_coded(&h, "application/json", "gzip", buf_slice(&zip));
    assert_refused(&h, 400, "something else follows its end");
    post_coded(&h, "application/json", "gzip", buf_slice(&body));
    assert_refused(&h, 400, "incorrect header check");

    /* What is inside is judged as ever. */
    buf_clear(&zip);
    gzip_add(&zip, SLICE("[" ENTRY("a") ",{\"loc\":\"a\"}]"));
    post_coded(&h, "application/json", "gzip", buf_slice(&zip));
    assert_entry_refused(&h, 422, "", 2);

    assert_int_equal(last(&h), 1);
    http_close(&h);
    buf_fini(&zip);
    buf_fini(&body);
}

/* A few kilobytes that inflate to 256 MB: refused when the limit is passed, in
 * bounded memory, and the one service thread goes on. (That others are served
 * in between: unit/sets/gunzip, makes_small_steps.) */
TEST(stops_a_bomb_at_the_limit)
{
    struct broker *b = *state;
    size_t before = broker_rss_kib(b);
    struct http bomber, other;
    struct buf zip;

    buf_init(&zip, SIZE_MAX);
    gzip_add(&zip, SLICE("[" ENTRY("a") ","));
    gzip_add_bomb(&zip, '\n', (size_t)256 << 20);
    gzip_add(&zip, SLICE(ENTRY("b") "]"));
    assert_true(zip.size < 1 << 20);

    http_open(&bomber, b->url);
    http_open(&other, b->url);
    for (int i = 0; i < 10; i++) {
        post_coded(&bomber, "application/x-ndjson", "gzip", buf_slice(&zip));
        assert_refused(&bomber, 400, "NDJSON"); /* its first line */
        post_coded(&bomber, "application/json", "gzip", buf_slice(&zip));
        assert_refused(&bomber, 422, "a string or space of more than");
        assert_int_equal(http_get(&other, "/healthz"), 200);
    }
    buf_clear(&zip);
    gzip_add_bomb(&zip, '\n', (size_t)256 << 20);
    for (int i = 0; i < 10; i++) {
        /* Empty lines: only the limit ends them. */
        post_coded(&bomber, "application/x-ndjson", "gzip", buf_slice(&zip));
        assert_refused(&bomber, 413, "at most 8388608 bytes when inflated");
        assert_int_equal(http_get(&other, "/healthz"), 200);
    }
    assert_int_equal(last(&other), 1);
    assert_true(broker_rss_kib(b) < before + (32 << 10));
    http_close(&bomber);
    http_close(&other);
    buf_fini(&zip);
}

/* One packet with more in it than one step reads; the client goes away, or says
 * no more, while the rest waits. */
TEST(survives_a_client_that_goes_away_while_it_catches_up)
{
    struct broker *b = *state;
    struct buf zip;
    struct http h;

    buf_init(&zip, SIZE_MAX);
    gzip_add_bomb(&zip, '\n', 7 << 20);
    gzip_add(&zip, SLICE(ENTRY("a")));
    for (int i = 0; i < 50; i++) {
        struct wire *w = wire_connect("127.0.0.1", b->port);
        size_t size = i % 2 ? zip.size : zip.size - 1;

        assert_non_null(w);
        assert_true(wire_send_format(w,
                                     "POST " CHANGES " HTTP/1.1\r\n"
                                     "Host: 127.0.0.1:%u\r\n"
                                     "Content-Type: application/x-ndjson\r\n"
                                     "Content-Encoding: gzip\r\n"
                                     "Content-Length: %zu\r\n\r\n",
                                     b->port, zip.size));
        assert_true(wire_send(w, zip.data, size));
        if (i % 3)
            wire_abort(w);
        else
            wire_close(w);
    }
    http_open(&h, b->url);
    assert_int_equal(
        post_coded(&h, "application/x-ndjson", "gzip", buf_slice(&zip)), 200);
    http_close(&h);
    broker_stop(b);
    broker_restart(b);
    buf_fini(&zip);
}
