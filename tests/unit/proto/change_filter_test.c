#include "proto/resourcesync/change_filter.h"

#include <stdio.h>
#include <string.h>

#include "proto/buf.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/fragment.h"
#include "tests/test.h"

static struct filter
read_filter(const char *query)
{
    struct problem why = {""};
    struct filter f;

    if (filter_read(&f, slice_of(query), &why))
        fail_msg("%s: %s", query, why.text);
    return f;
}

static void
assert_text(const char *query, const char *text)
{
    struct filter f = read_filter(query);
    struct slice is = filter_text(&f);

    if (!slice_is(is, text))
        fail_msg("%s became %.*s", query, SLICE_ARG(is));
}

/* design.md section 4: filters are normalised, so that equal ones are one. */
TEST(has_one_text_for_all_spellings)
{
    static const struct {
        const char *query, *text;
    } rows[] = {
        {"", ""},
        {"after=7&wait=30&tags=x&Change=created", ""},
        {"change=deleted", "change=deleted"},
        {"data=no", "data=no"},
        {"data=no&tag=a&data=no", "tag=a&data=no"},
        {"tag=b&change=updated&tag=a&change=created",
         "change=created&change=updated&tag=a&tag=b"},
        {"tag=a&tag=a&tag=a", "tag=a"},
        {"tag=a&tag=A", "tag=A&tag=a"},
        {"change=deleted&change=updated&change=created", ""},
        {"type=Text/CSV&type=text/csv", "type=text/csv"},
        {"type=image/png&type=image/*&type=text/csv&type=image/%26x",
         "type=image/*&type=text/csv"},
        {"type=a/b&type=*/*", "type=*/*"},
        {"prefix=http://a/bc&prefix=http://a/b&prefix=http://a/c",
         "prefix=http://a/b&prefix=http://a/c"},
        {"prefix=http%3A%2F%2Fa%2f%3fq%3D1", "prefix=http://a/?q=1"},
        {"prefix=a%26b%25%23%22%3C%2B", "prefix=a%26b%25%23%22%3C%2B"},
        {"prefix=\xc3\xa4", "prefix=%C3%A4"},
        /* From a server that made a space of "+", and from one that did not. */
        {"type=image/svg+xml", "type=image/svg%2Bxml"},
        {"type=image/svg%20xml", "type=image/svg%2Bxml"},
        {"&&tag=a&", "tag=a"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_text(rows[i].query, rows[i].text);
        assert_text(rows[i].text, rows[i].text);
    }
}

/* Hostile input gets a sentence that names the parameter. */
TEST(refuses_what_is_no_filter_and_names_it)
{
    static const struct {
        const char *query, *why;
    } rows[] = {
        {"change=", "change: not created, updated or deleted: \"\""},
        {"change", "change: not created, updated or deleted: \"\""},
        {"change=Created", "change: not created, updated or deleted: "
                           "\"Created\""},
        {"tag=a&change=moved", "change: not created, updated or deleted: "
                               "\"moved\""},
        {"prefix=", "prefix: empty, or with white space, a control character "
                    "or invalid UTF-8: \"\""},
        {"prefix=%0a", "prefix: empty, or with white space, a control "
                       "character or invalid UTF-8: \"?\""},
        {"prefix=%ff", "prefix: empty, or with white space, a control "
                       "character or invalid UTF-8: \"?\""},
        {"prefix=%C2%85", "prefix: empty, or with white space, a control "
                          "character or invalid UTF-8: \"?\""},
        {"prefix=%zz", "prefix: a bad escape in the query: \"%zz\""},
        {"data=yes", "data: only \"no\" is known: \"yes\""},
        {"data", "data: only \"no\" is known: \"\""},
        {"tag=%0", "tag: a bad escape in the query: \"%0\""},
        {"tag=%00", "tag: a bad escape in the query: \"%00\""},
        {"tag=", "tag: not 1 to 128 bytes of UTF-8 without white space and "
                 "control characters: \"\""},
        {"type=text", "type: not TYPE/SUBTYPE, TYPE/* or */*, without "
                      "parameters: \"text\""},
        {"type=text/html;charset=utf-8",
         "type: not TYPE/SUBTYPE, TYPE/* or */*, without parameters: "
         "\"text/html;charset=utf-8\""},
        {"type=*/png", "type: not TYPE/SUBTYPE, TYPE/* or */*, without "
                       "parameters: \"*/png\""},
        {"type=image/p*", "type: not TYPE/SUBTYPE, TYPE/* or */*, without "
                          "parameters: \"image/p*\""},
        {"type=image/**", "type: not TYPE/SUBTYPE, TYPE/* or */*, without "
                          "parameters: \"image/**\""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct problem why = {""};
        struct filter f;

        assert_int_equal(filter_read(&f, slice_of(rows[i].query), &why),
                         STATUS_MALFORMED);
        assert_string_equal(why.text, rows[i].why);
    }
}

/* Design section 5, rule 5: bounded in values and bytes. */
TEST(has_limits)
{
    struct problem why = {""};
    char query[8192] = "";
    struct filter f;
    int n = 0;

    for (int i = 0; i < FILTER_VALUES_MAX; i++)
        n += sprintf(query + n, "tag=t%d&tag=t0&", i);
    assert_int_equal(filter_read(&f, slice_of(query), &why), STATUS_OK);
    assert_int_equal(f.n[FILTER_TAG], FILTER_VALUES_MAX);
    strcpy(query + n, "tag=more");
    assert_int_equal(filter_read(&f, slice_of(query), &why), STATUS_MALFORMED);
    assert_string_equal(why.text, "tag: more than 32 values");

    /* Of all filters together, as they stand in the text. */
    n = sprintf(query, "tag=%s&prefix=", "a");
    memset(query + n, 'x', FILTER_TEXT_MAX - 6 - 8);
    query[n + FILTER_TEXT_MAX - 6 - 8] = '\0';
    assert_int_equal(filter_read(&f, slice_of(query), &why), STATUS_OK);
    strcat(query, "x");
    assert_int_equal(filter_read(&f, slice_of(query), &why), STATUS_MALFORMED);
    assert_string_equal(
        why.text, "prefix: more than 1024 bytes of filters, percent-encoded");
    memset(query + n, '"', FILTER_TEXT_MAX / 3);
    strcpy(query + n + FILTER_TEXT_MAX / 3, "");
    assert_int_equal(filter_read(&f, slice_of(query), &why), STATUS_MALFORMED);
    memset(query + n, 'x', 7000);
    strcpy(query + n + 7000, "");
    assert_int_equal(filter_read(&f, slice_of(query), &why), STATUS_MALFORMED);
    memset(query, 'x', 129);
    memcpy(query, "tag=", 4);
    strcpy(query + 4 + TAG_MAX, "x");
    assert_int_equal(filter_read(&f, slice_of(query), &why), STATUS_MALFORMED);
}

/* The longest text that escaping can produce. */
TEST(holds_the_largest_escaped_value)
{
    char value[FILTER_TEXT_MAX];
    struct problem why = {""};
    struct filter f = {0};

    memset(value, '"', sizeof(value));
    assert_int_equal(
        filter_add(&f, SLICE("prefix"),
                   (struct slice){value, (FILTER_TEXT_MAX - 8) / 3}, &why),
        STATUS_OK);
    assert_int_equal(filter_seal(&f, &why), STATUS_OK);
    assert_int_equal(f.values[FILTER_PREFIX][0].escaped_size,
                     (FILTER_TEXT_MAX - 8) / 3 * 6);
    assert_true(f.text_size <= FILTER_TEXT_MAX);
    assert_int_equal(filter_add(&f, SLICE("lang"), SLICE("de"), &why),
                     STATUS_MALFORMED);
    assert_string_equal(
        why.text, "lang: no filter; change, prefix, type, tag and data are");
}

/* A stamped fragment. */
struct stamped {
    char bytes[4096];
    struct slice slice;
    uint32_t stamp;
};

static void
stamp(struct stamped *to, const struct change *change)
{
    struct fragment f;
    struct buf out;

    buf_init(&out, sizeof(to->bytes));
    assert_int_equal(fragment_write(&out, change, &f, NULL), STATUS_OK);
    to->slice =
        (struct slice){to->bytes, fragment_stamp(to->bytes, out.data, &f,
                                                 INT64_C(1775067000000000), 7)};
    to->stamp = f.hole;
    buf_fini(&out);
}

static bool
passes(const char *query, const struct change *change)
{
    struct filter f = read_filter(query);
    struct stamped s;

    stamp(&s, change);
    return filter_passes(&f, s.slice, s.stamp);
}

/* Design section 4: repeated values are alternatives, different names must all
 * hold.: tags. */
TEST(lets_through_what_it_names)
{
    static const struct attribute foreign[] = {{.ns = SLICE("urn:x"),
                                                .prefix = SLICE("x"),
                                                .name = SLICE("type"),
                                                .value = SLICE("font/woff")}};
    const struct link link = {.rel = SLICE("describedby"),
                              .href = SLICE("http://example.com/m"),
                              .type = SLICE("video/mp4"),
                              .modified_us = DATETIME_NONE,
                              .length = LENGTH_NONE};

    static const struct {
        const char *query;
        bool passes;
    } rows[] = {
        {"", true},
        {"data=no", true},
        {"data=no&tag=e", false},
        {"change=updated", true},
        {"change=created", false},
        {"change=created&change=updated", true},
        {"prefix=http://example.com/a", true},
        {"prefix=http://example.com/a?b=1%262", true},
        {"prefix=http://example.com/a?b=1%262%22", true},
        {"prefix=http://example.com/a?b=1%26amp;", false},
        {"prefix=http://example.com/a?b=1%262%22%3Cc", true},
        {"prefix=http://example.com/a?b=1%262%22%3Ccd", false},
        {"prefix=HTTP://example.com/a", false},
        {"prefix=http://example.org/&prefix=http://example.com/", true},
        {"prefix=/a", false},
        {"type=text/html", true},
        {"type=TEXT/HTML", true},
        {"type=text/*", true},
        {"type=*/*", true},
        {"type=text/htm", false},
        {"type=text/htmlx", false},
        {"type=font/woff", false}, /* a foreign attribute's */
        {"type=video/mp4", false}, /* a link's */
        {"type=image/*&type=text/html", true},
        {"tag=a", true},
        {"tag=b%26c", true},
        {"tag=b", false},
        {"tag=B%26c", false},
        {"tag=b%26amp;c", false},
        {"tag=d", true},
        {"tag=x&tag=d", true},
        {"change=updated&prefix=http://example.com/&type=text/html&tag=d",
         true},
        {"change=deleted&prefix=http://example.com/&type=text/html&tag=d",
         false},
        {"change=updated&prefix=http://example.net/&type=text/html&tag=d",
         false},
        {"change=updated&prefix=http://example.com/&type=text/csv&tag=d",
         false},
        {"change=updated&prefix=http://example.com/&type=text/html&tag=e",
         false},
    };
    struct change c;

    change_init(&c);
    c.loc = SLICE("http://example.com/a?b=1&2\"<c");
    c.kind = CHANGE_UPDATED;
    c.datetime_us = INT64_C(1775060000000000); /* the source's own, kept too */
    c.type = SLICE("Text/HTML; charset=\"utf-8\"");
    c.tags = SLICE("a b&c d");
    c.attributes = foreign;
    c.n_attributes = 1;
    c.links = &link;
    c.n_links = 1;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (passes(rows[i].query, &c) != rows[i].passes)
            fail_msg("%s", rows[i].query);
}

/* A change without type and tag passes no filter that wants one. */
TEST(lets_nothing_through_that_does_not_tell)
{
    struct change c;

    change_init(&c);
    c.loc = SLICE("http://example.com/a");
    c.kind = CHANGE_DELETED;
    assert_true(passes("change=deleted", &c));
    assert_true(passes("prefix=http://example.com/a", &c));
    assert_false(passes("prefix=http://example.com/a/", &c));
    assert_false(passes("type=*/*", &c));
    assert_false(passes("tag=a", &c));
    c.kind = CHANGE_CREATED;
    assert_true(passes("change=created", &c));
    c.type = SLICE("application/a&b");
    assert_true(passes("type=application/a%26b", &c));
    assert_false(passes("type=application/a", &c));
    assert_false(passes("type=application/a%26amp", &c));
    assert_true(passes("type=application/*", &c));
}

/* The value of a parameter that is no filter: a time, with its "+". */
TEST(finds_parameters)
{
    struct problem why = {""};
    struct slice value;
    char room[64];
    bool is_there;

    assert_int_equal(filter_parameter(SLICE("a=1&since=x%2By%20z&since=2"),
                                      "since", room, &value, &is_there, &why),
                     STATUS_OK);
    assert_true(is_there);
    assert_true(slice_is(value, "x+y+z"));
    assert_int_equal(filter_parameter(SLICE("sinc=1&sincee=2"), "since", room,
                                      &value, &is_there, &why),
                     STATUS_OK);
    assert_false(is_there);
    assert_int_equal(filter_parameter(SLICE("since=%x"), "since", room, &value,
                                      &is_there, &why),
                     STATUS_MALFORMED);
    assert_string_equal(why.text, "since: a bad escape in the query: \"%x\"");
}
