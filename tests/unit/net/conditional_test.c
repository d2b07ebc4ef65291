#include "broker/net/conditional.h"

#include <stdio.h>

#include "proto/datetime.h"
#include "tests/test.h"

#define BEFORE "Sun, 06 Nov 1994 08:49:36 GMT"
#define MADE   "Sun, 06 Nov 1994 08:49:37 GMT"
#define LATER  "Sun, 06 Nov 1994 08:49:38 GMT"

#define A    "\"a\""
#define GZIP "\"a-gzip\""
#define B    "\"b\""

/* A document with everything: the closed list whose file is there. */
static const struct validators closed = {A, GZIP, 784111777, 1000};

/* A document without a gzip and without a date: an open list. */
static const struct validators open = {A, NULL, DATETIME_NONE, 1000};

/* A request's headers, NULL: not sent; and the outcome. */
struct row {
    struct {
        const char *accept_encoding, *if_match, *if_unmodified_since,
            *if_none_match, *if_modified_since, *if_range, *range;
        bool is_head;
    } sent;

    unsigned status;
    bool is_gzip;
    uint64_t first, size;
};

static struct slice
slice_or_none(const char *text)
{
    return text ? slice_of(text) : (struct slice){NULL, 0};
}

static void
check(const struct row *rows, size_t n, const struct validators *v)
{
    for (size_t i = 0; i < n; i++) {
        const struct row *r = &rows[i];
        const struct conditions c = {
            .is_get = !r->sent.is_head,
            .accept_encoding = slice_or_none(r->sent.accept_encoding),
            .if_match = slice_or_none(r->sent.if_match),
            .if_unmodified_since = slice_or_none(r->sent.if_unmodified_since),
            .if_none_match = slice_or_none(r->sent.if_none_match),
            .if_modified_since = slice_or_none(r->sent.if_modified_since),
            .if_range = slice_or_none(r->sent.if_range),
            .range = slice_or_none(r->sent.range),
        };
        struct verdict is = conditional_judge(&c, v);

        if (is.status != r->status || is.is_gzip != r->is_gzip ||
            is.first != r->first || is.size != r->size)
            fail_msg("row %zu: %u %s %llu+%llu", i, is.status,
                     is.is_gzip ? "gzip" : "identity",
                     (unsigned long long)is.first, (unsigned long long)is.size);
    }
}

#define CHECK(rows, v) check(rows, sizeof(rows) / sizeof((rows)[0]), v)

#define WHOLE         200
#define PACKED        200, true
#define PART(from, n) 206, false, from, n
#define NOT_MODIFIED  304
#define FAILED        412
#define OUTSIDE       416

/* RFC 9110 section 12.5.3 */
TEST(negotiates_the_content_coding)
{
    static const struct row rows[] = {
        {{NULL}, WHOLE},
        {{""}, WHOLE},
        {{"identity"}, WHOLE},
        {{"gzip"}, PACKED},
        {{"x-gzip"}, PACKED},
        {{"GZip"}, PACKED},
        {{"deflate, gzip, br, zstd"}, PACKED},
        {{"deflate, br"}, WHOLE},
        {{"*"}, PACKED},
        {{"gzip;q=0"}, WHOLE},
        {{"gzip;q=0.000"}, WHOLE},
        {{"gzip ; q=0.001"}, PACKED},
        {{"gzip;q=0, *"}, WHOLE},
        {{"*;q=0, gzip;q=0.5"}, PACKED},
        {{"identity;q=0, gzip"}, PACKED},
        {{"identity;q=0"}, 406},
        {{"identity; Q=0"}, 406},
        {{"*;q=0"}, 406},
        {{"*;q=0, identity"}, WHOLE},
        {{"identity;q=0, deflate"}, 406},
        {{"identity;q=0, *"}, PACKED},
        {{"gzip;q=0.5, identity"}, WHOLE},
        {{"gzip;q=0.5, identity;q=0.4"}, PACKED},
        {{"gzip;q=0.5, identity;q=0.5"}, PACKED},
        {{"gzip;q=1.0, identity; q=0.5, *;q=0"}, PACKED},
        {{"gzip;q=2"}, WHOLE}, /* not a weight: it says nothing */
        {{"gzip;q=1.001"}, WHOLE},
        {{"gzip;q=0.1234"}, WHOLE},
        {{"gzip;q="}, WHOLE},
        {{"gzip;q=x, identity"}, WHOLE},
        {{"gzip;level=9"}, PACKED},
        {{",, gzip ,"}, PACKED},
        {{"gzipped"}, WHOLE},
        {{";q=0"}, WHOLE},
    };
    static const struct row without[] = {
        {{"gzip"}, WHOLE},
        {{"gzip, identity;q=0"}, 406},
        {{"gzip, *;q=0"}, 406},
        {{"identity;q=0.001"}, WHOLE},
    };

    CHECK(rows, &closed);
    CHECK(without, &open);
}

/* RFC 9110 sections 13.1.2 and 8.8.3.2: the weak comparison. */
TEST(an_etag_that_is_known_need_not_be_answered)
{
    static const struct row rows[] = {
        {{.if_none_match = A}, NOT_MODIFIED},
        {{.if_none_match = "W/" A}, NOT_MODIFIED},
        {{.if_none_match = "*"}, NOT_MODIFIED},
        {{.if_none_match = B}, WHOLE},
        {{.if_none_match = B ", " A}, NOT_MODIFIED},
        {{.if_none_match = B "," A "," B}, NOT_MODIFIED},
        {{.if_none_match = " ,, " B " , W/" A " ,"}, NOT_MODIFIED},
        {{.if_none_match = "\"x,y\", " A}, NOT_MODIFIED},
        {{.if_none_match = "\"*\""}, WHOLE},
        {{.if_none_match = "a"}, WHOLE},
        {{.if_none_match = "\"a"}, WHOLE},
        {{.if_none_match = "\"A\""}, WHOLE},
        {{.if_none_match = "w/" A}, WHOLE},
        {{.if_none_match = "\""}, WHOLE},
        {{.if_none_match = "W/"}, WHOLE},
        {{.if_none_match = GZIP}, WHOLE}, /* of another representation */
        {{.if_none_match = GZIP, .accept_encoding = "gzip"}, 304, true},
        /* A response without encoding that was cached before there was a gzip
         * is still good. */
        {{.if_none_match = A, .accept_encoding = "gzip"}, NOT_MODIFIED},
        {{.if_none_match = A ", " GZIP, .accept_encoding = "gzip"}, 304, true},
        {{.if_none_match = A, .accept_encoding = "gzip, identity;q=0"}, PACKED},
        {{.if_none_match = B, .accept_encoding = "gzip"}, PACKED},
        {{.if_none_match = A, .is_head = true}, NOT_MODIFIED},
        {{.if_none_match = A, .accept_encoding = "identity;q=0"}, 406},
    };

    CHECK(rows, &closed);
}

/* RFC 9110 section 13.1.3 */
TEST(a_copy_that_is_no_older_need_not_be_answered)
{
    static const struct row rows[] = {
        {{.if_modified_since = BEFORE}, WHOLE},
        {{.if_modified_since = MADE}, NOT_MODIFIED},
        {{.if_modified_since = LATER}, NOT_MODIFIED},
        {{.if_modified_since = "yesterday"}, WHOLE},
        {{.if_modified_since = MADE, .accept_encoding = "gzip"}, 304, true},
        /* An ETag says more: the date is not looked at beside it. */
        {{.if_modified_since = LATER, .if_none_match = B}, WHOLE},
        {{.if_modified_since = BEFORE, .if_none_match = A}, NOT_MODIFIED},
    };
    static const struct row without[] = {
        {{.if_modified_since = LATER}, WHOLE},
        {{.if_unmodified_since = BEFORE}, WHOLE},
    };

    CHECK(rows, &closed);
    CHECK(without, &open);
}

/* RFC 9110 sections 13.1.1, 13.1.4 and 13.2.2: the preconditions that must hold
 * come first. */
TEST(refuses_where_a_precondition_fails)
{
    static const struct row rows[] = {
        {{.if_match = A}, WHOLE},
        {{.if_match = "*"}, WHOLE},
        {{.if_match = B ", " A}, WHOLE},
        {{.if_match = GZIP}, WHOLE}, /* it is one of the current ones */
        {{.if_match = B}, FAILED},
        {{.if_match = "W/" A}, FAILED}, /* the strong comparison */
        {{.if_match = B, .if_none_match = A}, FAILED},
        {{.if_match = B, .range = "bytes=0-9"}, FAILED},
        {{.if_match = A, .if_none_match = A}, NOT_MODIFIED},
        {{.if_unmodified_since = BEFORE}, FAILED},
        {{.if_unmodified_since = MADE}, WHOLE},
        {{.if_unmodified_since = LATER}, WHOLE},
        {{.if_unmodified_since = "never"}, WHOLE},
        {{.if_unmodified_since = BEFORE, .if_match = A}, WHOLE},
        {{.if_unmodified_since = BEFORE, .accept_encoding = "gzip"}, 412, true},
    };

    CHECK(rows, &closed);
}

/* RFC 9110 section 14 */
TEST(gives_the_range_that_is_asked_for)
{
    static const struct row rows[] = {
        {{.range = "bytes=0-0"}, PART(0, 1)},
        {{.range = "bytes=0-99"}, PART(0, 100)},
        {{.range = "bytes=100-199"}, PART(100, 100)},
        {{.range = "bytes=0-"}, PART(0, 1000)},
        {{.range = "bytes=999-"}, PART(999, 1)},
        {{.range = "bytes=990-5000"}, PART(990, 10)},
        {{.range = "bytes=990-99999999999999999999999"}, PART(990, 10)},
        {{.range = "bytes=-1"}, PART(999, 1)},
        {{.range = "bytes=-1000"}, PART(0, 1000)},
        {{.range = "bytes=-5000"}, PART(0, 1000)},
        {{.range = "Bytes = 1 - 2"}, PART(1, 2)},
        {{.range = "bytes=1000-"}, OUTSIDE},
        {{.range = "bytes=1000-1001"}, OUTSIDE},
        {{.range = "bytes=99999999999999999999999-"}, OUTSIDE},
        {{.range = "bytes=-0"}, OUTSIDE},
        /* Several ranges, or a range that nobody understands: the whole
         * body. */
        {{.range = "bytes=0-1,5-6"}, WHOLE},
        {{.range = "bytes=0-1,"}, WHOLE},
        {{.range = "bytes=2-1"}, WHOLE},
        {{.range = "bytes="}, WHOLE},
        {{.range = "bytes=-"}, WHOLE},
        {{.range = "bytes=a-b"}, WHOLE},
        {{.range = "bytes=1"}, WHOLE},
        {{.range = "bytes=--1"}, WHOLE},
        {{.range = "bytes=+1-2"}, WHOLE},
        {{.range = "bytes=1-2-3"}, WHOLE},
        {{.range = "bytes 0-1"}, WHOLE},
        {{.range = "0-1"}, WHOLE},
        {{.range = "entries=0-1"}, WHOLE},
        {{.range = "bytes=0-1", .is_head = true}, WHOLE},
        /* A part is always of identity. */
        {{.range = "bytes=0-1", .accept_encoding = "gzip"}, PART(0, 2)},
        {{.range = "bytes=5000-", .accept_encoding = "gzip"}, OUTSIDE},
        {{.range = "bytes=0-1,3-4", .accept_encoding = "gzip"}, PACKED},
        {{.range = "bytes=0-1", .accept_encoding = "gzip, identity;q=0"},
         PACKED},
        {{.range = "bytes=0-1", .if_none_match = A}, NOT_MODIFIED},
    };

    CHECK(rows, &closed);
}

/* RFC 9110 section 13.1.5: the rest of a changed document would not fit.
 */
TEST(gives_a_range_of_what_the_client_knows_only)
{
    static const struct row rows[] = {
        {{.range = "bytes=0-1", .if_range = A}, PART(0, 2)},
        {{.range = "bytes=0-1", .if_range = B}, WHOLE},
        {{.range = "bytes=0-1", .if_range = "W/" A}, WHOLE},
        {{.range = "bytes=0-1", .if_range = GZIP}, WHOLE},
        {{.range = "bytes=0-1", .if_range = MADE}, PART(0, 2)},
        {{.range = "bytes=0-1", .if_range = BEFORE}, WHOLE},
        {{.range = "bytes=0-1", .if_range = LATER}, WHOLE},
        {{.range = "bytes=0-1", .if_range = "a"}, WHOLE},
        {{.if_range = B}, WHOLE},
        {{.range = "bytes=5000-", .if_range = B}, WHOLE},
        {{.range = "bytes=5000-", .if_range = A}, OUTSIDE},
    };
    static const struct row without[] = {
        {{.range = "bytes=0-1", .if_range = A}, PART(0, 2)},
        {{.range = "bytes=0-1", .if_range = MADE}, WHOLE},
    };
    /* "W" begins a weak ETag, and a Wednesday. */
    static const struct validators midweek = {A, GZIP, 784370977, 1000};
    static const struct row dates[] = {
        {{.range = "bytes=0-1", .if_range = "Wed, 09 Nov 1994 08:49:37 GMT"},
         PART(0, 2)},
        {{.range = "bytes=0-1",
          .if_range = "Wednesday, 09-Nov-94 08:49:37 GMT"},
         PART(0, 2)},
        {{.range = "bytes=0-1", .if_range = "W/" A}, WHOLE},
    };

    CHECK(rows, &closed);
    CHECK(without, &open);
    CHECK(dates, &midweek);
}
