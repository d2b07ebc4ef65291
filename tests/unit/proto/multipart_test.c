#include "proto/multipart.h"

#include <inttypes.h>
#include <stdio.h>

#include "tests/test.h"

#define RELATED "multipart/related; boundary="

/* What was handed over: "NUMBER@OFFSET type location id[body]" of each part,
 * "|" behind it. */
struct seen {
    struct buf text;
    bool is_open;
    enum status refuses; /* what `begin` says to the second part */
};

static enum status
on_begin(const struct multipart_part *part, void *user, struct problem *why)
{
    struct seen *seen = user;

    assert_false(seen->is_open);
    seen->is_open = true;
    if (seen->refuses && part->number == 2)
        return problem(why, seen->refuses, "not that one");
    buf_add_format(&seen->text, "%" PRIu64 "@%" PRIu64 " %.*s %.*s %.*s[",
                   part->number, part->offset, SLICE_ARG(part->type),
                   SLICE_ARG(part->location), SLICE_ARG(part->id));
    return STATUS_OK;
}

static enum status
on_add(struct slice bytes, void *user, struct problem *why)
{
    struct seen *seen = user;

    (void)why;
    assert_true(seen->is_open);
    assert_true(bytes.size > 0);
    buf_add_slice(&seen->text, bytes);
    return STATUS_OK;
}

static enum status
on_end(void *user, struct problem *why)
{
    struct seen *seen = user;

    (void)why;
    assert_true(seen->is_open);
    seen->is_open = false;
    BUF_ADD(&seen->text, "]|");
    return STATUS_OK;
}

static const struct multipart_sink sink = {on_begin, on_add, on_end, NULL};

/* Reads `body` in pieces of at most `step` bytes, the first one of `first`. */
static enum status
read_pieces(struct seen *seen, const char *content_type, struct slice body,
            size_t first, size_t step, struct problem *why)
{
    struct multipart_sink to = sink;
    struct multipart_type type;
    struct multipart m;
    enum status rc;

    to.user = seen;
    buf_init(&seen->text, SIZE_MAX);
    seen->is_open = false;
    assert_int_equal(multipart_read_type(slice_of(content_type), &type, why),
                     STATUS_OK);
    multipart_init(&m, &type, &to);
    for (rc = STATUS_OK; !rc && body.size > 0; first = step) {
        size_t size = first < body.size ? first : body.size;
        /* Of its own, so that a look beyond its end is found. */
        char *piece = malloc(size + 1);

        assert_non_null(piece);
        memcpy(piece, body.data, size);
        rc = multipart_feed(&m, (struct slice){piece, size}, why);
        free(piece);
        body.data += size;
        body.size -= size;
    }
    if (!rc)
        rc = multipart_end(&m, why);
    multipart_fini(&m);
    return rc;
}

/* Cut in two wherever that can be done, and into pieces of each size. */
static void
assert_parts(const char *content_type, struct slice body, struct slice expected)
{
    for (size_t n = 0; n <= 2 * body.size; n++) {
        size_t first = n <= body.size ? n : n - body.size;
        size_t step = n <= body.size ? SIZE_MAX : first;
        struct problem why = {""};
        struct seen seen = {.refuses = STATUS_OK};

        if (read_pieces(&seen, content_type, body, first, step, &why))
            fail_msg("%s", why.text);
        assert_int_equal(seen.text.size, expected.size);
        assert_memory_equal(seen.text.data, expected.data, expected.size);
        buf_fini(&seen.text);
    }
}

/* Wherever it is cut, it is refused with the same words. */
static void
assert_refused(struct slice body, enum status rc, const char *expected)
{
    for (size_t first = 1; first <= body.size; first++) {
        struct problem why = {""};
        struct seen seen = {.refuses = STATUS_OK};

        assert_int_equal(
            read_pieces(&seen, RELATED "b", body, first, SIZE_MAX, &why), rc);
        assert_string_equal(why.text, expected);
        buf_fini(&seen.text);
    }
}

static void
assert_malformed(struct slice body, const char *expected)
{
    assert_refused(body, STATUS_MALFORMED, expected);
}

/* Parts */

TEST(parts_have_headers_and_bodies_to_the_byte)
{
    assert_parts(RELATED "b",
                 SLICE("--b\r\n"
                       "Content-Type: application/xml\r\n"
                       "Content-ID: <root@x>\r\n"
                       "\r\n"
                       "<urlset/>\r\n"
                       "--b\r\n"
                       "content-location:http://example.com/a\r\n"
                       "CONTENT-TYPE: \t image/png \r\n"
                       "Content-Disposition: attachment; filename=a\r\n"
                       "Content-Transfer-Encoding: BINARY\r\n"
                       "\r\n"
                       "\0\x01\r\n\xff\n\r\n"
                       "\r\n"
                       "--b--\r\n"),
                 SLICE("1@60 application/xml  root@x[<urlset/>]|"
                       "2@225 image/png http://example.com/a [\0\x01\r\n\xff\n"
                       "\r\n]|"));
}

TEST(a_body_may_be_empty_and_headers_may_be_missing)
{
    assert_parts(RELATED "b",
                 SLICE("--b\r\n\r\nx\r\n"
                       "--b\r\n\r\n\r\n"
                       "--b\r\n\r\n"
                       "--b\r\nContent-Type: a/b\r\n\r\n"
                       "--b\r\nContent-Type: c/d\r\n\r\n\r\n"
                       "--b--"),
                 SLICE("1@7   [x]|2@17   []|3@26   []|4@52 a/b  []|"
                       "5@78 c/d  []|"));
}

TEST(preamble_and_epilogue_are_passed_over)
{
    assert_parts(RELATED "b",
                 SLICE("This is --b\r\n -b\r\n--a\r\n\r\n--b\r\n\r\nx\r\n"
                       "--b--\r\n--b\r\nand so\r\n--b--"),
                 SLICE("1@32   [x]|"));
    assert_parts(RELATED "b", SLICE("\r\n--b\r\n\r\nx\r\n--b--\r\n"),
                 SLICE("1@9   [x]|"));
}

/* RFC 2046 section 5.1.1: transport padding. */
TEST(white_space_behind_a_boundary_counts_for_nothing)
{
    assert_parts(RELATED "b", SLICE("--b \t \r\n\r\nx\r\n--b-- \t\r\n"),
                 SLICE("1@10   [x]|"));
    assert_parts(RELATED "b", SLICE("--b\t\r\n\r\nx\r\n--b--  "),
                 SLICE("1@8   [x]|"));
}

TEST(what_only_begins_as_a_delimiter_is_the_bodys)
{
    assert_parts(RELATED "b-c",
                 SLICE("--b-c\r\n\r\n"
                       "\r\r\n\r\n-\r\n--\r\n--b\r\n--b-\r\n--b-d\n--b-c\r--b-c"
                       "--b-c\r\n--c\r\n\r\n--b-c--\r\n"),
                 SLICE("1@9   [\r\r\n\r\n-\r\n--\r\n--b\r\n--b-\r\n--b-d\n--b-c"
                       "\r--b-c--b-c\r\n--c\r\n]|"));
    /* As if behind an end of line: that is none of the body. */
    assert_parts(RELATED "b-c", SLICE("--b-c\r\n\r\n--b-\r\n--b-c--"),
                 SLICE("1@9   [--b-]|"));
    assert_parts(RELATED "b-c", SLICE("--b-c\r\n\r\n-\r\n--b-c--"),
                 SLICE("1@9   [-]|"));
}

/* RFC 5322 section 2.2.3 */
TEST(a_header_may_go_on_in_the_next_line)
{
    assert_parts(
        RELATED "b",
        SLICE("--b\r\nContent-Type:\r\n text/plain;\r\n\tcharset=x\r\n"
              "Content-Location:\r\n http://example.com/a\r\n\r\nx"
              "\r\n--b--"),
        SLICE("1@90 text/plain;\tcharset=x http://example.com/a [x]|"));
}

TEST(what_the_sink_refuses_ends_the_reading)
{
    struct slice body = SLICE("--b\r\n\r\nx\r\n--b\r\n\r\ny\r\n--b--");
    struct seen seen = {.refuses = STATUS_BUSY};
    struct problem why = {""};

    assert_int_equal(
        read_pieces(&seen, RELATED "b", body, SIZE_MAX, SIZE_MAX, &why),
        STATUS_BUSY);
    assert_string_equal(why.text, "not that one");
    buf_fini(&seen.text);
}

/* Refusals */

TEST(what_is_cut_off_or_has_no_part_is_refused)
{
    assert_malformed(SLICE("--b\r\n\r\nx"),
                     "part 1, byte 8: the body ends before its last delimiter: "
                     "\"--b\"");
    assert_malformed(
        SLICE("--b\r\n\r\nx\r\n--b"),
        "part 1, byte 13: the body ends before its last delimiter: "
        "\"--b\"");
    assert_malformed(
        SLICE("--b\r\n\r\nx\r\n--b-"),
        "part 1, byte 14: the body ends before its last delimiter: "
        "\"--b\"");
    assert_malformed(
        SLICE("--b\r\nA: b\r\n"),
        "part 1, byte 11: the body ends before its last delimiter: "
        "\"--b\"");
    assert_malformed(SLICE("--a\r\n\r\nx\r\n--a--"),
                     "byte 15: there is no line with the delimiter: \"--b\"");
    assert_malformed(SLICE("--b\n\nx\n--b--\n"),
                     "part 1, byte 3: behind a boundary stands what does not "
                     "end its line: \"?\"");
    assert_malformed(SLICE("--b--\r\n"), "byte 7: the body has no part");
}

TEST(nothing_is_guessed_of_what_stands_behind_a_boundary)
{
    assert_malformed(SLICE("--bc\r\n\r\nx\r\n--b--"),
                     "part 1, byte 3: behind a boundary stands what does not "
                     "end its line: \"c\"");
    assert_malformed(SLICE("--b\r\n\r\nx\r\n--b--c"),
                     "part 1, byte 15: behind a boundary stands what does not "
                     "end its line: \"c\"");
    assert_malformed(SLICE("--b\r\n\r\nx\r\n--b-\r\n"),
                     "part 1, byte 14: behind a boundary stands what does not "
                     "end its line: \"?\"");
    assert_malformed(SLICE("--b \rx"),
                     "part 1, byte 5: behind a boundary stands what does not "
                     "end its line: \"x\"");
}

TEST(headers_that_are_none_are_refused_with_part_and_byte)
{
    assert_malformed(SLICE("--b\r\nno header\r\n\r\nx\r\n--b--"),
                     "part 1, byte 18: this is no header: \"no header\"");
    assert_malformed(SLICE("--b\r\nA : b\r\n\r\nx\r\n--b--"),
                     "part 1, byte 14: this is no header: \"A : b\"");
    assert_malformed(SLICE("--b\r\n A: b\r\n\r\nx\r\n--b--"),
                     "part 1, byte 14: this is no header: \" A: b\"");
    assert_malformed(SLICE("--b\r\nA: \x01\r\n\r\nx\r\n--b--"),
                     "part 1, byte 13: this is no header: \"A: ?\"");
    assert_malformed(SLICE("--b\r\nA: b\rc\r\n\r\nx\r\n--b--"),
                     "part 1, byte 15: this is no header: \"A: b?c\"");
    assert_malformed(SLICE("--b\r\nA: b\n\r\n\r\nx\r\n--b--"),
                     "part 1, byte 10: a line of its headers does not end with "
                     "CR LF");
    assert_malformed(SLICE("--b\r\n\r\nx\r\n--b\r\nContent-ID: a\r\n"
                           "content-id: b\r\n\r\nx\r\n--b--"),
                     "part 2, byte 47: this header is there twice: "
                     "\"content-id\"");
}

TEST(bytes_that_would_have_to_be_decoded_are_refused)
{
    assert_refused(SLICE("--b\r\nContent-Transfer-Encoding: base64\r\n\r\nx"
                         "\r\n--b--"),
                   STATUS_UNSUPPORTED,
                   "part 1, byte 42: Content-Transfer-Encoding is binary, 8bit "
                   "or 7bit, not: \"base64\"");
}

TEST(headers_have_a_limit)
{
    struct problem why = {""};
    struct seen seen = {.refuses = STATUS_OK};
    struct buf body;

    for (size_t more = 0; more < 2; more++) {
        buf_init(&body, SIZE_MAX);
        BUF_ADD(&body, "--b\r\nContent-Location: ");
        for (size_t n = 18 + 2 + 2; n < MULTIPART_HEADERS_MAX + more; n++)
            BUF_ADD(&body, "x");
        BUF_ADD(&body, "\r\n\r\n\r\n--b--");
        assert_int_equal(
            read_pieces(&seen, RELATED "b", buf_slice(&body), 7, 1000, &why),
            more ? STATUS_TOO_LARGE : STATUS_OK);
        buf_fini(&body);
        buf_fini(&seen.text);
    }
    assert_string_equal(why.text, "part 1, byte 16389: its headers have more "
                                  "than 16384 bytes");
}

/* Content-Type */

static void
assert_type(const char *text, const char *boundary, const char *root,
            const char *start)
{
    struct multipart_type type;
    struct problem why = {""};

    assert_true(multipart_is(slice_of(text)));
    if (multipart_read_type(slice_of(text), &type, &why))
        fail_msg("%s", why.text);
    assert_string_equal(type.boundary, boundary);
    assert_string_equal(type.type, root);
    assert_string_equal(type.start, start);
}

TEST(the_boundary_is_read_quoted_or_not)
{
    assert_type("multipart/related; boundary=b", "b", "", "");
    assert_type("Multipart/Related ;\tBOUNDARY = \"a b'()+_,-./:=?\" ; x=y",
                "a b'()+_,-./:=?", "", "");
    assert_type("multipart/related;boundary=\"a\\b\";", "ab", "", "");
    assert_type("multipart/related; boundary====_1/2:3==", "===_1/2:3==", "",
                "");
    assert_type("multipart/related; type=\"application/xml\"; "
                "start=\"<a;\\\"=b>\"; start-info=x; boundary=b",
                "b", "application/xml", "a;\"=b");
    assert_type("multipart/related; start=a@b; boundary=b", "b", "", "a@b");
}

static void
assert_no_type(const char *text, enum status rc, const char *expected)
{
    struct multipart_type type;
    struct problem why = {""};

    assert_int_equal(multipart_read_type(slice_of(text), &type, &why), rc);
    assert_string_equal(why.text, expected);
}

TEST(a_content_type_that_cannot_be_read_says_why)
{
    char text[600];

    assert_no_type("multipart/mixed; boundary=b", STATUS_UNSUPPORTED,
                   "changes with their content are multipart/related, not "
                   "\"multipart/mixed\"");
    assert_no_type("multipart/related", STATUS_MALFORMED,
                   "Content-Type: multipart/related needs a boundary");
    assert_no_type("multipart/related; boundary", STATUS_MALFORMED,
                   "Content-Type: a parameter is NAME=VALUE, not \"boundary\"");
    assert_no_type("multipart/related; a b=c", STATUS_MALFORMED,
                   "Content-Type: a parameter is NAME=VALUE, not \"a b\"");
    assert_no_type("multipart/related; boundary=a; boundary=b",
                   STATUS_MALFORMED,
                   "Content-Type: \"boundary\" is there twice");
    assert_no_type("multipart/related; boundary=\"a ", STATUS_MALFORMED,
                   "Content-Type: the value of \"boundary\" is none, or has "
                   "more than 255 bytes");
    assert_no_type("multipart/related; boundary=\"a\\", STATUS_MALFORMED,
                   "Content-Type: the value of \"boundary\" is none, or has "
                   "more than 255 bytes");
    assert_no_type("multipart/related; boundary=\"a\"b", STATUS_MALFORMED,
                   "Content-Type: the value of \"boundary\" is none, or has "
                   "more than 255 bytes");
    assert_no_type("multipart/related; boundary=a\"b", STATUS_MALFORMED,
                   "Content-Type: the value of \"boundary\" is none, or has "
                   "more than 255 bytes");
    assert_no_type("multipart/related; boundary=\"a \"", STATUS_MALFORMED,
                   "Content-Type: boundary: not 1 to 70 letters, digits, "
                   "spaces within and '()+_,-./:=?: \"a \"");
    assert_no_type("multipart/related; boundary=a#b", STATUS_MALFORMED,
                   "Content-Type: boundary: not 1 to 70 letters, digits, "
                   "spaces within and '()+_,-./:=?: \"a#b\"");
    snprintf(text, sizeof(text), "multipart/related; boundary=%071d", 1);
    assert_no_type(text, STATUS_MALFORMED,
                   "Content-Type: boundary: not 1 to 70 letters, digits, "
                   "spaces within and '()+_,-./:=?: "
                   "\"000000000000000000000000000000000000000000000000000000000"
                   "00000000000001\"");
    snprintf(text, sizeof(text), "multipart/related; type=%0256d", 1);
    assert_no_type(text, STATUS_MALFORMED,
                   "Content-Type: the value of \"type\" is none, or has more "
                   "than 255 bytes");
    assert_false(multipart_is(SLICE("application/xml")));
    assert_false(multipart_is(SLICE("multipart")));
}
