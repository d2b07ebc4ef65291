#include "proto/http/multipart.h"

#include <inttypes.h>
#include <stdio.h>

#include "tests/test.h"

#define RELATED "multipart/related; boundary="

/* The parts that were handed over: "NUMBER@OFFSET type location id[body]" of
 * each, "|" behind it. */
struct seen {
    struct buf text;
    bool is_open;
    enum status refuses; /* the answer of `begin` to the second part */
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

/* The body is refused with the same words, wherever it is cut. */
static void
assert_refused(struct slice body, enum status rc, const char *expected)
{
    for (size_t first = 1; first <= body.size; first++) {
        struct problem why = {""};
        struct seen seen = {.refuses = STATUS_OK};

        if (read_pieces(&seen, RELATED "b", body, first, SIZE_MAX, &why) !=
                rc ||
            strcmp(why.text, expected) != 0)
            fail_msg("%s, not %s", why.text, expected);
        buf_fini(&seen.text);
    }
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

#define EARLY  "the body ends before its last delimiter: \"--b\""
#define BEHIND "behind a boundary stands what does not end its line: "
#define NONE   "this is no header: "

TEST(what_is_malformed_is_refused_with_part_and_byte)
{
    static const struct {
        const char *body, *where, *sentence;
    } rows[] = {
        /* the body is cut off, or has no part */
        {"--b\r\n\r\nx", "part 1, byte 8", EARLY},
        {"--b\r\n\r\nx\r\n--b", "part 1, byte 13", EARLY},
        {"--b\r\n\r\nx\r\n--b-", "part 1, byte 14", EARLY},
        {"--b\r\nA: b\r\n", "part 1, byte 11", EARLY},
        {"--a\r\n\r\nx\r\n--a--", "byte 15",
         "there is no line with the delimiter: \"--b\""},
        {"--b\n\nx\n--b--\n", "part 1, byte 3", BEHIND "\"?\""},
        {"--b--\r\n", "byte 7", "the body has no part"},
        /* the reader guesses nothing behind a boundary */
        {"--bc\r\n\r\nx\r\n--b--", "part 1, byte 3", BEHIND "\"c\""},
        {"--b\r\n\r\nx\r\n--b--c", "part 1, byte 15", BEHIND "\"c\""},
        {"--b\r\n\r\nx\r\n--b-\r\n", "part 1, byte 14", BEHIND "\"?\""},
        {"--b \rx", "part 1, byte 5", BEHIND "\"x\""},
        /* headers that are none */
        {"--b\r\nno header\r\n\r\nx\r\n--b--", "part 1, byte 18",
         NONE "\"no header\""},
        {"--b\r\nA : b\r\n\r\nx\r\n--b--", "part 1, byte 14", NONE "\"A : b\""},
        {"--b\r\n A: b\r\n\r\nx\r\n--b--", "part 1, byte 14", NONE "\" A: b\""},
        {"--b\r\nA: \x01\r\n\r\nx\r\n--b--", "part 1, byte 13",
         NONE "\"A: ?\""},
        {"--b\r\nA: b\rc\r\n\r\nx\r\n--b--", "part 1, byte 15",
         NONE "\"A: b?c\""},
        {"--b\r\nA: b\n\r\n\r\nx\r\n--b--", "part 1, byte 10",
         "a line of its headers does not end with CR LF"},
        {"--b\r\n\r\nx\r\n--b\r\nContent-ID: a\r\ncontent-id: b\r\n\r\nx\r\n"
         "--b--",
         "part 2, byte 47", "this header is there twice: \"content-id\""},
    };

    char text[300];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(text, sizeof(text), "%s: %s", rows[i].where, rows[i].sentence);
        assert_refused(slice_of(rows[i].body), STATUS_MALFORMED, text);
    }
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

TEST(the_boundary_is_read_quoted_or_not)
{
    static const struct {
        const char *text, *boundary, *root, *start;
    } rows[] = {
        {"multipart/related; boundary=b", "b", "", ""},
        {"Multipart/Related ;\tBOUNDARY = \"a b'()+_,-./:=?\" ; x=y",
         "a b'()+_,-./:=?", "", ""},
        {"multipart/related;boundary=\"a\\b\";", "ab", "", ""},
        {"multipart/related; boundary====_1/2:3==", "===_1/2:3==", "", ""},
        {"multipart/related; type=\"application/xml\"; "
         "start=\"<a;\\\"=b>\"; start-info=x; boundary=b",
         "b", "application/xml", "a;\"=b"},
        {"multipart/related; start=a@b; boundary=b", "b", "", "a@b"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice text = slice_of(rows[i].text);
        struct multipart_type type;
        struct problem why = {""};

        if (multipart_read_type(text, &type, &why) ||
            strcmp(type.boundary, rows[i].boundary) != 0 ||
            strcmp(type.type, rows[i].root) != 0 ||
            strcmp(type.start, rows[i].start) != 0)
            fail_msg("%s: %s", rows[i].text, why.text);
    }
}

#define NO_VALUE(name) \
    "the value of \"" name "\" is none, or has more than 255 bytes"
#define NO_BOUNDARY                                                      \
    "boundary: not 1 to 70 letters, digits, spaces within and '()+_,-./" \
    ":=?: "

TEST(a_content_type_that_cannot_be_read_says_why)
{
    char long_boundary[200], long_type[400];
    const char *const rows[][2] = {
        {"", "multipart/related needs a boundary"},
        {"; boundary", "a parameter is NAME=VALUE, not \"boundary\""},
        {"; a b=c", "a parameter is NAME=VALUE, not \"a b\""},
        {"; boundary=a; boundary=b", "\"boundary\" is there twice"},
        {"; boundary=\"a ", NO_VALUE("boundary")},
        {"; boundary=\"a\\", NO_VALUE("boundary")},
        {"; boundary=\"a\"b", NO_VALUE("boundary")},
        {"; boundary=a\"b", NO_VALUE("boundary")},
        {"; boundary=\"a \"", NO_BOUNDARY "\"a \""},
        {"; boundary=a#b", NO_BOUNDARY "\"a#b\""},
        {long_boundary,
         NO_BOUNDARY "\"000000000000000000000000000000000000000000000000000000"
                     "00000000000000001\""},
        {long_type, NO_VALUE("type")},
    };
    struct multipart_type type;
    struct problem why = {""};

    snprintf(long_boundary, sizeof(long_boundary), "; boundary=%071d", 1);
    snprintf(long_type, sizeof(long_type), "; type=%0256d", 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[600], expected[300];

        snprintf(text, sizeof(text), "multipart/related%s", rows[i][0]);
        snprintf(expected, sizeof(expected), "Content-Type: %s", rows[i][1]);
        if (multipart_read_type(slice_of(text), &type, &why) !=
                STATUS_MALFORMED ||
            strcmp(why.text, expected) != 0)
            fail_msg("%s: %s", text, why.text);
    }
    assert_int_equal(
        multipart_read_type(SLICE("multipart/mixed; boundary=b"), &type, &why),
        STATUS_UNSUPPORTED);
    assert_string_equal(why.text,
                        "changes with their content are multipart/related, not "
                        "\"multipart/mixed\"");
}
