#include "proto/http/response_head.h"

#include <stdlib.h>

#include "tests/test.h"

#define OK "HTTP/1.1 200 OK\r\n"

/* Reads `text` as it arrives: `step` bytes at a time, from a block of just the
 * bytes that are there. The slices of the head are those of `text`. */
static enum status
read_cut(struct response_head *h, struct slice text, size_t step,
         struct problem *why)
{
    struct head_seen seen = {0};
    enum status rc = STATUS_AGAIN;

    for (size_t n = 0; rc == STATUS_AGAIN && n < text.size;) {
        char *copy;

        n = text.size - n < step ? text.size : n + step;
        copy = malloc(n);
        memcpy(copy, text.data, n);
        rc = response_head_read(h, (struct slice){copy, n}, &seen, why);
        free(copy);
        if (rc != STATUS_OK)
            continue;
        assert_int_equal(seen.line + seen.scanned, 0);
        return response_head_read(h, text, &seen, why);
    }
    return rc;
}

TEST(reads_what_a_head_says)
{
    static const struct {
        const char *text;
        unsigned status, minor;
        bool is_kept;
        struct head_body body;
    } rows[] = {
        {OK "\r\n", 200, 1, true, {false, false, 0}},
        {"HTTP/1.1 204\r\n\r\n", 204, 1, true, {false, false, 0}},
        {"HTTP/1.1 204 \r\n\r\n", 204, 1, true, {false, false, 0}},
        {"HTTP/1.1 999 \xe9\t!\r\n\r\n", 999, 1, true, {false, false, 0}},
        {"HTTP/1.9 200 OK\r\n\r\n", 200, 1, true, {false, false, 0}},
        {"HTTP/1.0 200 OK\r\n\r\n", 200, 0, false, {false, false, 0}},
        {"HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\n\r\n",
         200,
         0,
         true,
         {false, false, 0}},
        {OK "Connection: x,close\r\n\r\n", 200, 1, false, {false, false, 0}},
        {OK "content-length:  7 \r\n\r\n", 200, 1, true, {false, true, 7}},
        {OK "Transfer-Encoding: Chunked\r\n\r\n",
         200,
         1,
         true,
         {true, false, 0}},
        {OK "A: b\r\nX-Content-Length: 5\r\n\r\n",
         200,
         1,
         true,
         {false, false, 0}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t step = 1; step < 60; step++) {
            struct problem why = {""};
            struct response_head h;

            if (read_cut(&h, slice_of(rows[i].text), step, &why))
                fail_msg("\"%s\" for:\n%s", why.text, rows[i].text);
            assert_int_equal(h.size, strlen(rows[i].text));
            assert_int_equal(h.status, rows[i].status);
            assert_int_equal(h.minor, rows[i].minor);
            assert_int_equal(h.is_kept, rows[i].is_kept);
            assert_int_equal(h.body.is_chunked, rows[i].body.is_chunked);
            assert_int_equal(h.body.has_length, rows[i].body.has_length);
            assert_int_equal(h.body.length, rows[i].body.length);
        }
    }
}

TEST(fields_come_in_order)
{
    struct slice text = SLICE(OK "Link: <a>\r\nX:\r\nlink:\t<b> \r\n\r\n<body");
    struct head_seen seen = {0};
    struct response_head h;
    struct head_field f;

    assert_int_equal(response_head_read(&h, text, &seen, NULL), STATUS_OK);
    assert_true(response_head_next(&h.fields, &f));
    assert_true(slice_is(f.name, "Link") && slice_is(f.value, "<a>"));
    assert_true(response_head_next(&h.fields, &f));
    assert_true(slice_is(f.name, "X") && f.value.size == 0);
    assert_true(response_head_next(&h.fields, &f));
    assert_true(slice_is(f.name, "link") && slice_is(f.value, "<b>"));
    assert_false(response_head_next(&h.fields, &f));
}

TEST(refuses_what_two_readers_could_understand_differently)
{
    static const struct {
        const char *text, *why;
        enum status rc;
    } rows[] = {
        {"\r\n", "not of HTTP/1", STATUS_UNSUPPORTED},
        {"x", "not of HTTP/1", STATUS_UNSUPPORTED},
        {"HTTQ", "not of HTTP/1", STATUS_UNSUPPORTED},
        {"HTTP/2 200\r\n\r\n", "not of HTTP/1", STATUS_UNSUPPORTED},
        {"HTTP/11.1 200\r\n\r\n", "not of HTTP/1", STATUS_UNSUPPORTED},
        {"HTTP/1.\r\n", "without a status", STATUS_INVALID},
        {"HTTP/1.x 200\r\n", "without a status", STATUS_INVALID},
        {"HTTP/1.1200 OK\r\n", "without a status", STATUS_INVALID},
        {"HTTP/1.1  200\r\n", "without a status", STATUS_INVALID},
        {"HTTP/1.1 20\r\n", "without a status", STATUS_INVALID},
        {"HTTP/1.1 2000\r\n", "without a status", STATUS_INVALID},
        {"HTTP/1.1 2a0\r\n", "without a status", STATUS_INVALID},
        {"HTTP/1.1 +20\r\n", "without a status", STATUS_INVALID},
        {"HTTP/1.1 099\r\n", "without a status", STATUS_INVALID},
        {"HTTP/1.1 200 OK\n", "a line feed", STATUS_INVALID},
        {"HTTP/1.1 200 OK\rX", "a carriage return", STATUS_INVALID},
        {"HTTP/1.1 200 \x01", "a control character", STATUS_INVALID},
        {OK "X: \x7f", "a control character", STATUS_INVALID},
        {OK " X: y\r\n", "a folded field line", STATUS_INVALID},
        {OK "X: y\r\n\tz\r\n", "a folded field line", STATUS_INVALID},
        {OK "X : y\r\n", "white space behind", STATUS_INVALID},
        {OK ": y\r\n", "without a name", STATUS_INVALID},
        {OK "X\r\n", "without a name", STATUS_INVALID},
        {OK "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
         "two Content-Length", STATUS_INVALID},
        {OK "Content-Length: 5, 5\r\n\r\n", "not one plain number",
         STATUS_INVALID},
        {OK "Content-Length: +5\r\n\r\n", "not one plain number",
         STATUS_INVALID},
        {OK "Content-Length:\r\n\r\n", "not one plain number", STATUS_INVALID},
        {OK "Content-Length: 9223372036854775808\r\n\r\n",
         "not one plain number", STATUS_INVALID},
        {OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
         "beside Content-Length", STATUS_INVALID},
        {OK "Transfer-Encoding: chunked, chunked\r\n\r\n",
         "does not end with one chunked", STATUS_INVALID},
        {OK "Transfer-Encoding: chunked, gzip\r\n\r\n",
         "does not end with one chunked", STATUS_INVALID},
        {OK "Transfer-Encoding: gzip, chunked\r\n\r\n", "other than chunked",
         STATUS_INVALID},
        {OK "Transfer-Encoding: chunked,\r\n\r\n",
         "does not end with one chunked", STATUS_INVALID},
        {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "in HTTP/1.0",
         STATUS_INVALID},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t step = 1; step < 60; step++) {
            struct problem why = {""};
            struct response_head h;

            if (read_cut(&h, slice_of(rows[i].text), step, &why) !=
                    rows[i].rc ||
                !strstr(why.text, rows[i].why))
                fail_msg("step %zu: \"%s\" for:\n%s", step, why.text,
                         rows[i].text);
        }
    }
}

/* A head of `size` bytes, if it ends; its one field line is long. */
static char *
long_head(size_t size)
{
    char *text = malloc(size + 1);

    memset(text, 'a', size);
    text[size] = '\0';
    memcpy(text, OK "X:", sizeof(OK "X:") - 1);
    memcpy(text + size - 4, "\r\n\r\n", 4);
    return text;
}

TEST(a_head_has_a_longest_size)
{
    for (size_t i = 0; i < 2; i++) {
        size_t size = RESPONSE_HEAD_MAX + i;
        char *text = long_head(size);

        for (size_t step = 1; step < 100000; step *= 7) {
            struct problem why = {""};
            struct response_head h;

            assert_int_equal(
                read_cut(&h, (struct slice){text, size}, step, &why),
                i ? STATUS_TOO_LARGE : STATUS_OK);
        }
        free(text);
    }
}

TEST(a_head_that_is_not_whole_waits)
{
    struct slice text = SLICE(OK "Content-Length: 5\r\n\r\n");

    for (size_t n = 1; n < text.size; n++) {
        struct response_head h;

        assert_int_equal(read_cut(&h, (struct slice){text.data, n}, 3, NULL),
                         STATUS_AGAIN);
    }
}
