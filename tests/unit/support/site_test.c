#include "tests/support/site.h"

#include <stdio.h>

#include "tests/support/tempdir.h"
#include "tests/support/wire.h"
#include "tests/test.h"

struct bench {
    struct site *s;
    struct wire *w;
    struct wire_answer a;
};

static int
setup(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    b->s = site_new();
    b->w = wire_connect("127.0.0.1", site_port(b->s));
    assert_non_null(b->w);
    *state = b;
    return 0;
}

static int
teardown(void **state)
{
    struct bench *b = *state;

    wire_close(b->w);
    site_free(b->s);
    free(b);
    return 0;
}

/* Asks on the same connection as before; the status. */
static unsigned
ask(struct bench *b, const char *path, const char *headers)
{
    assert_true(wire_request(b->w, "GET", path, headers, NULL, &b->a));
    return b->a.status;
}

static const char *
told(struct bench *b, const char *name)
{
    static char value[200];

    return wire_header(&b->a, name, value, sizeof(value)) ? value : NULL;
}

FIXTURE(setup, teardown);

TEST(a_page_is_what_was_put_last)
{
    struct bench *b = *state;

    assert_int_equal(ask(b, "/a.xml", NULL), 404);
    site_put(b->s, "/a.xml", "application/xml", SLICE("<a/>"));
    assert_int_equal(ask(b, "/a.xml?q=1", NULL), 200);
    assert_string_equal(b->a.body, "<a/>");
    assert_string_equal(told(b, "Content-Type"), "application/xml");
    site_putf(b->s, "/a.xml", NULL, "<b>%s</b>", "x");
    site_headers(b->s, "/a.xml", "Link: </d>; rel=\"describedby\"\r\nX-Y: z");
    assert_int_equal(ask(b, "/a.xml", NULL), 200);
    assert_string_equal(b->a.body, "<b>x</b>");
    assert_null(told(b, "Content-Type"));
    assert_string_equal(told(b, "X-Y"), "z");
    site_delete(b->s, "/a.xml");
    assert_int_equal(ask(b, "/a.xml", NULL), 404);

    assert_int_equal(site_count(b->s, "/a.xml"), 4);
    assert_int_equal(site_answered(b->s, "/a.xml", 3), 404);
    assert_int_equal(site_connections(b->s), 1);
}

TEST(a_page_with_a_query_may_be_another_one)
{
    struct bench *b = *state;

    site_put(b->s, "/l", NULL, SLICE("first"));
    site_put(b->s, "/l?page=2", NULL, SLICE("second"));

    assert_int_equal(ask(b, "/l?page=2", NULL), 200);
    assert_string_equal(b->a.body, "second");
    assert_int_equal(ask(b, "/l", NULL), 200);
    assert_string_equal(b->a.body, "first");
}

TEST(files_of_a_directory_are_pages)
{
    struct bench *b = *state;
    struct tempdir dir;

    tempdir_open(&dir);
    tempdir_write(dir.fd, "a b.txt", "text");
    site_dir(b->s, "/files/", dir.path);

    assert_int_equal(ask(b, "/files/a%20b.txt", NULL), 200);
    assert_string_equal(b->a.body, "text");
    assert_string_equal(told(b, "Content-Type"), "text/plain");
    assert_int_equal(ask(b, "/files/none", NULL), 404);
    assert_int_equal(ask(b, "/files/", NULL), 404);
    assert_int_equal(ask(b, "/files/../a%20b.txt", NULL), 404);
    site_delete(b->s, "/files/a%20b.txt");
    assert_int_equal(ask(b, "/files/a%20b.txt", NULL), 404);
    tempdir_close(&dir);
}

TEST(a_status_is_told_so_many_times)
{
    struct bench *b = *state;

    site_put(b->s, "/a", NULL, SLICE("body"));
    site_status(b->s, "/a", 503, "Retry-After: 1", 2);

    assert_int_equal(ask(b, "/a", NULL), 503);
    assert_string_equal(told(b, "Retry-After"), "1");
    assert_int_equal(ask(b, "/a", NULL), 503);
    assert_int_equal(ask(b, "/a", NULL), 200);
    site_status(b->s, NULL, 500, NULL, 0);
    assert_int_equal(ask(b, "/a", NULL), 500);
    assert_int_equal(ask(b, "/b", NULL), 500);
    site_status(b->s, NULL, 0, NULL, 0);
    assert_int_equal(ask(b, "/a", NULL), 200);
}

TEST(what_is_known_by_its_etag_is_not_sent_again)
{
    struct bench *b = *state;
    char etag[200], asked[250];

    site_put(b->s, "/a", NULL, SLICE("body"));
    assert_int_equal(ask(b, "/a", NULL), 200);
    snprintf(etag, sizeof(etag), "%s", told(b, "ETag"));
    snprintf(asked, sizeof(asked), "If-None-Match: %s\r\n", etag);

    assert_int_equal(ask(b, "/a", asked), 304);
    site_put(b->s, "/a", NULL, SLICE("other"));
    assert_int_equal(ask(b, "/a", asked), 200);
    assert_string_equal(site_header(b->s, "/a", 1, "if-none-match"), etag);
    assert_null(site_header(b->s, "/a", 0, "If-None-Match"));
}

TEST(a_range_is_sent_if_it_is_of_the_same_bytes)
{
    struct bench *b = *state;
    char asked[250];

    site_put(b->s, "/a", NULL, SLICE("0123456789"));
    assert_int_equal(ask(b, "/a", "Range: bytes=4-\r\n"), 206);
    assert_string_equal(b->a.body, "456789");
    assert_string_equal(told(b, "Content-Range"), "bytes 4-9/10");
    assert_int_equal(ask(b, "/a", "Range: bytes=0-1\r\n"), 206);
    assert_string_equal(b->a.body, "01");
    assert_int_equal(ask(b, "/a", "Range: bytes=-3\r\n"), 206);
    assert_string_equal(b->a.body, "789");
    assert_int_equal(ask(b, "/a", "Range: bytes=10-\r\n"), 416);
    assert_string_equal(told(b, "Content-Range"), "bytes */10");
    snprintf(asked, sizeof(asked), "Range: bytes=4-\r\nIf-Range: %s\r\n",
             told(b, "ETag"));
    assert_int_equal(ask(b, "/a", asked), 206);
    site_put(b->s, "/a", NULL, SLICE("9876543210"));
    assert_int_equal(ask(b, "/a", asked), 200);
    assert_string_equal(b->a.body, "9876543210");
    site_ranges(b->s, "/a", false);
    assert_int_equal(ask(b, "/a", "Range: bytes=4-\r\n"), 200);
}

TEST(gzip_is_for_those_who_ask_for_it)
{
    struct bench *b = *state;

    site_put(b->s, "/a", NULL, SLICE("0123456789"));
    site_gzip(b->s, "/a", true);
    assert_int_equal(ask(b, "/a", "Accept-Encoding: gzip, deflate\r\n"), 200);
    assert_string_equal(told(b, "Content-Encoding"), "gzip");
    assert_memory_equal(b->a.body, "\x1f\x8b", 2);
    assert_int_equal(ask(b, "/a", NULL), 200);
    assert_string_equal(b->a.body, "0123456789");
}

TEST(a_body_may_come_in_chunks)
{
    struct bench *b = *state;
    char text[100] = "";

    site_put(b->s, "/a", NULL, SLICE("0123456789"));
    site_chunked(b->s, "/a", true);
    assert_true(wire_send_text(b->w, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"));
    assert_true(wire_answer_head(b->w, &b->a));
    assert_string_equal(told(b, "Transfer-Encoding"), "chunked");
    assert_true(wire_read(b->w, text, 5 + 5 + 5 + 5 + 5));
    assert_string_equal(text, "5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n");
}

TEST(a_cut_answer_ends_after_so_many_bytes)
{
    struct bench *b = *state;
    char text[10] = "";

    site_put(b->s, "/a", NULL, SLICE("0123456789"));
    site_cut(b->s, "/a", 4);
    assert_true(wire_send_text(b->w, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"));
    assert_true(wire_answer_head(b->w, &b->a));
    assert_string_equal(told(b, "Content-Length"), "10");
    assert_true(wire_read(b->w, text, 4));
    assert_string_equal(text, "0123");
    assert_true(wire_is_ended(b->w));
    wire_close(b->w);
    b->w = wire_connect("127.0.0.1", site_port(b->s));
    assert_int_equal(ask(b, "/a", NULL), 200);
}

TEST(who_is_held_waits_and_is_counted)
{
    struct bench *b = *state;
    struct wire *second = wire_connect("127.0.0.1", site_port(b->s));

    site_hold(b->s, "/a");
    assert_true(wire_send_text(second, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"));
    assert_true(wire_send_text(b->w, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"));
    site_await(b->s, "/a", 2);
    assert_int_equal(site_max_parallel(b->s), 2);
    assert_int_equal(site_answered(b->s, "/a", 0), 0);
    site_put(b->s, "/a", NULL, SLICE("late"));
    site_release(b->s, "/a");
    assert_true(wire_answer(b->w, &b->a, false));
    assert_string_equal(b->a.body, "late");
    assert_true(wire_answer(second, &b->a, false));
    wire_close(second);
    assert_int_equal(ask(b, "/a", NULL), 200);
    assert_int_equal(site_max_parallel(b->s), 2);
}

TEST(what_was_posted_is_kept)
{
    struct bench *b = *state;
    struct slice body;

    site_put(b->s, "/a", NULL, SLICE(""));
    assert_true(
        wire_request(b->w, "POST", "/a", "X-A: b\r\n", "posted", &b->a));
    assert_int_equal(b->a.status, 200);
    body = site_body(b->s, "/a", 0);
    assert_true(slice_is(body, "posted"));
    assert_string_equal(site_header(b->s, "/a", 0, "x-a"), "b");
    assert_memory_equal(site_head(b->s, "/a", 0), "POST /a HTTP/1.1\r\n", 18);
}

TEST(a_large_body_comes_whole)
{
    struct bench *b = *state;
    size_t size = 20 << 20;
    char *bytes = malloc(size);

    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(i * 7 + i / 1000);
    site_put(b->s, "/a", NULL, (struct slice){bytes, size});
    assert_int_equal(ask(b, "/a", NULL), 200);
    assert_int_equal(b->a.body_size, size);
    assert_memory_equal(b->a.body, bytes, size);
    free(bytes);
}
