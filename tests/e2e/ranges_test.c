/*
 * ranges_test.c - parts of documents: put together they are the document,
 * wherever its bytes are kept at the moment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/lists.h"
#include "tests/support/source.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define ARCHIVE  "/sets/" LISTS_SET "/changelist-archive.xml"
#define TEXT_MAX 200

/* Asks for a range; the rest of the line is the caller's. */
static long
ask(struct http *h, const char *path, const char *range, const char *more)
{
    char line[TEXT_MAX + 20];

    snprintf(line, sizeof(line), "Range: bytes=%s", range);
    return http_ask(h, "GET", path, line, more, NULL);
}

static void
assert_part(struct http *h, const struct buf *whole, size_t first, size_t size)
{
    char range[TEXT_MAX];

    if (h->status != 206)
        fail_msg("%ld %s", h->status, h->error);
    snprintf(range, sizeof(range), "bytes %zu-%zu/%zu", first, first + size - 1,
             whole->size);
    assert_string_equal(http_header(h, "Content-Range"), range);
    assert_int_equal(h->body.size, size);
    assert_memory_equal(h->body.data, whole->data + first, size);
    assert_null(http_header(h, "Content-Encoding"));
}

/* Every part is what stands there: small ones at every edge, large ones, and
 * one after the other the whole. */
static void
assert_parts(struct http *h, const char *path, const struct buf *whole)
{
    static const size_t sizes[] = {1, 700, 65536, 100003};
    char range[TEXT_MAX];

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t step = sizes[i] < 65536 ? whole->size / 40 : sizes[i];

        for (size_t at = 0; at < whole->size; at += step ? step : 1) {
            size_t size = sizes[i];

            if (size > whole->size - at)
                size = whole->size - at;
            snprintf(range, sizeof(range), "%zu-%zu", at, at + size - 1);
            ask(h, path, range, NULL);
            assert_part(h, whole, at, size);
        }
    }
    ask(h, path, "-1", NULL);
    assert_part(h, whole, whole->size - 1, 1);
    ask(h, path, "-300", NULL);
    assert_part(h, whole, whole->size - 300, 300);
    ask(h, path, "10-", NULL);
    assert_part(h, whole, 10, whole->size - 10);
}

/* Several posts make several batches, and blocks of the file. */
static void
post_much(struct lists *l)
{
    for (unsigned i = 0; i < 20; i++)
        source_post(&l->http, LISTS_SET, 1 + 100 * i, 100, 300);
}

FIXTURE(lists_setup, lists_teardown);

TEST(parts_of_a_list_are_the_list_wherever_it_is_kept)
{
    struct lists *l = *state;
    struct buf open, closed;

    LISTS_OPEN(l, "--tail-bytes", "1M");
    lists_obstruct(l);
    post_much(l);
    open = lists_copy(l, 1);
    assert_true(open.size > 600000);
    assert_parts(&l->http, lists_path(l, 1), &open); /* in memory */
    broker_kill9(&l->broker);
    broker_restart(&l->broker);
    assert_parts(&l->http, lists_path(l, 1), &open); /* in the store */

    source_rotate(&l->http, LISTS_SET);
    closed = lists_copy(l, 1);
    assert_parts(&l->http, lists_path(l, 1), &closed); /* without a file */
    lists_clear(l);
    lists_await_gzip(l, 1);
    assert_parts(&l->http, lists_path(l, 1), &closed);
    broker_stop(&l->broker);
    broker_restart(&l->broker);
    assert_parts(&l->http, lists_path(l, 1), &closed); /* in the file */
    buf_fini(&open);
    buf_fini(&closed);
}

/* Documents that are made as they are read. */
TEST(parts_of_an_archive_are_the_archive)
{
    struct lists *l = *state;
    struct buf whole;

    LISTS_OPEN(l, "--rotate-entries", "1");
    source_post(&l->http, LISTS_SET, 1, 600, 0);
    assert_int_equal(http_get(&l->http, ARCHIVE), 200);
    buf_init(&whole, SIZE_MAX);
    buf_add_slice(&whole, buf_slice(&l->http.body));
    assert_parts(&l->http, ARCHIVE, &whole);
    buf_fini(&whole);
}

/* RFC 9110 sections 14.2 and 15.5.17 */
TEST(what_cannot_be_a_part_is_refused_or_whole)
{
    static const char *const whole[] = {"0-1,3-4", "5-2", "x", "-", "0-1x"};
    static const char *const outside[] = {"1000000-", "1000000-2000000", "-0"};
    struct lists *l = *state;
    struct buf list;
    char range[TEXT_MAX];

    LISTS_OPEN(l, NULL);
    source_post(&l->http, LISTS_SET, 1, 10, 0);
    list = lists_copy(l, 1);
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        assert_int_equal(ask(&l->http, lists_path(l, 1), whole[i], NULL), 200);
        assert_int_equal(l->http.body.size, list.size);
        assert_null(http_header(&l->http, "Content-Range"));
    }
    snprintf(range, sizeof(range), "bytes */%zu", list.size);
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        assert_int_equal(ask(&l->http, lists_path(l, 1), outside[i], NULL),
                         416);
        assert_string_equal(http_header(&l->http, "Content-Range"), range);
    }
    buf_fini(&list);
}

/* RFC 9110 section 13.1.5: whoever resumes a download gets the rest of what
 * they have, or all of what it has become. */
TEST(a_part_is_of_what_the_client_has)
{
    struct lists *l = *state;
    char etag[TEXT_MAX], date[TEXT_MAX];
    struct buf open, closed;

    LISTS_OPEN(l, NULL);
    source_post(&l->http, LISTS_SET, 1, 10, 0);
    open = lists_copy(l, 1);
    snprintf(etag, sizeof(etag), "If-Range: %s", http_header(&l->http, "ETag"));
    ask(&l->http, lists_path(l, 1), "100-", etag);
    assert_part(&l->http, &open, 100, open.size - 100);

    source_post(&l->http, LISTS_SET, 11, 1, 0);
    assert_int_equal(ask(&l->http, lists_path(l, 1), "100-", etag), 200);
    source_rotate(&l->http, LISTS_SET);
    closed = lists_copy(l, 1);
    snprintf(etag, sizeof(etag), "If-Range: %s", http_header(&l->http, "ETag"));
    lists_await_gzip(l, 1);
    snprintf(date, sizeof(date), "If-Range: %s",
             http_header(&l->http, "Last-Modified"));
    ask(&l->http, lists_path(l, 1), "100-", etag);
    assert_part(&l->http, &closed, 100, closed.size - 100);
    ask(&l->http, lists_path(l, 1), "100-", date);
    assert_part(&l->http, &closed, 100, closed.size - 100);
    assert_int_equal(ask(&l->http, lists_path(l, 1), "100-",
                         "If-Range: Sun, 06 Nov 1994 08:49:37 GMT"),
                     200);
    assert_int_equal(
        http_ask(&l->http, "HEAD", lists_path(l, 1), "Range: bytes=0-1", NULL),
        200);
    buf_fini(&open);
    buf_fini(&closed);
}

/* By raw bytes: a part is as long as it says, the next answer comes after it.
 */
TEST(a_connection_goes_on_after_a_part)
{
    struct lists *l = *state;
    struct wire_answer a;
    struct wire *w;
    struct buf list;

    LISTS_OPEN(l, NULL);
    source_post(&l->http, LISTS_SET, 1, 1000, 300);
    list = lists_copy(l, 1);
    w = wire_connect("127.0.0.1", l->broker.port);
    assert_non_null(w);
    for (size_t i = 0; i < 3; i++)
        assert_true(
            wire_send_format(w,
                             "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nRange: "
                             "bytes=%zu-%zu\r\n\r\n",
                             lists_path(l, 1), 1000 * i, 100000 + i));
    for (size_t i = 0; i < 3; i++) {
        assert_true(wire_answer(w, &a, false));
        assert_int_equal(a.status, 206);
        assert_int_equal(a.body_size, 100001 - 999 * i);
        assert_memory_equal(a.body, list.data + 1000 * i, a.body_size);
    }
    wire_close(w);
    buf_fini(&list);
}

/* curl, as a peer that is not ours: two parts and a resumed download. */
TEST(curl_puts_parts_together)
{
    struct lists *l = *state;
    struct command *c = calloc(1, sizeof(*c));
    char line[1200];
    const char *argv[] = {"/bin/sh", "-c", line, NULL};
    struct buf list;

    assert_non_null(c);
    LISTS_OPEN(l, NULL);
    source_post(&l->http, LISTS_SET, 1, 1000, 300);
    source_rotate(&l->http, LISTS_SET);
    list = lists_copy(l, 1);
    lists_await_gzip(l, 1);
    snprintf(
        line, sizeof(line),
        "cd '%s' && u='%s%s' && curl -sS --noproxy '*' -o whole $u &&"
        " curl -sS --noproxy '*' -r 0-99999 -o parts $u &&"
        " curl -sS --noproxy '*' --compressed -r 100000-200000 $u >>parts &&"
        " curl -sS --noproxy '*' -C - -o parts $u &&"
        " cmp whole parts && wc -c <parts",
        l->broker.dir.path, l->broker.url, lists_path(l, 1));
    command_start(c, argv);
    command_give(c, "");
    if (command_end(c) != 0)
        fail_msg("%s %s", c->out_text, c->err_text);
    assert_int_equal(strtoul(c->out_text, NULL, 10), list.size);
    buf_fini(&list);
    free(c);
}
