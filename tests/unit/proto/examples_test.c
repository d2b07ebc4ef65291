/*
 * The documents of tests/spec/examples: some must be refused, some accepted,
 * with the expected text.
 */
#include <string.h>

#include "tests/test.h"
#include "tests/unit/proto/reading.h"

static void
check_refused(const char *name, struct slice bytes)
{
    static const size_t steps[] = {1, 3, 100, SIZE_MAX / 2};

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct reading reading = read_steps(XML, INPUT_POST, bytes, steps[i]);

        if (reading.rc != STATUS_MALFORMED && reading.rc != STATUS_INVALID)
            fail_msg("%s in steps of %zu: status %d", name, steps[i],
                     reading.rc);
        if (!reading.why.text[0])
            fail_msg("%s: no reason", name);
        reading_fini(&reading);
    }
}

/* R-294, and all that the table in bad/README.md names. */
TEST(refuses_what_must_be_refused)
{
    examples_each("bad", check_refused);
}

static void
check_accepted(const char *name, struct slice bytes)
{
    static const size_t steps[] = {1, 3, 100};
    struct reading whole = read_all(XML, bytes);

    if (whole.rc)
        fail_msg("%s: %s (entry %d, line %d)", name, whole.why.text,
                 (int)whole.why.entry, (int)whole.why.line);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct reading part = read_steps(XML, INPUT_POST, bytes, steps[i]);

        assert_string_equal(part.why.text, "");
        assert_string_equal(part.text.data, whole.text.data);
        reading_fini(&part);
    }
    reading_fini(&whole);
}

/* */
TEST(accepts_what_is_odd_but_right)
{
    examples_each("odd", check_accepted);
}

/* */
TEST(accepts_change_lists_and_notifications)
{
    static const char *const names[] = {
        "change-list-closed.xml",  "change-list-open.xml",
        "change-notification.xml", "relations.xml",
        "foreign-and-escaped.xml",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct slice bytes = examples_load(names[i]);

        check_accepted(names[i], bytes);
        free((char *)bytes.data);
    }
}

static void
check_truncated(const char *name, struct slice bytes)
{
    const char *end = bytes.data + bytes.size;

    while (end[-1] != '>')
        end--;
    for (size_t size = 0; bytes.data + size < end; size++) {
        struct reading reading =
            read_all(XML, (struct slice){bytes.data, size});

        if (!reading.rc)
            fail_msg("%s: accepted after %zu bytes", name, size);
        reading_fini(&reading);
    }
}

/* */
TEST(never_accepts_a_part_of_a_document)
{
    examples_each("odd", check_truncated);
}

static void
assert_file_reads(const char *name, const char *text)
{
    struct slice bytes = examples_load(name);
    struct reading reading = read_all(XML, bytes);

    if (reading.rc || strcmp(reading.text.data, text) != 0)
        fail_msg("%s: %s%s", name, reading.why.text, reading.text.data);
    reading_fini(&reading);
    free((char *)bytes.data);
}

#define HAVEN "[http://example.com/gauges/r/haven.csv]"
#define AT    " datetime=[2026-04-05T10:00:0"
#define SAME  "updated " HAVEN AT "0Z]"

/* The values that odd/README.md asks for. */
TEST(does_not_change_what_is_odd)
{
    static const char *const rows[][2] = {
        {"byte-order-mark", SAME "\n"},
        {"no-declaration", SAME "\n"},
        {"other-prefixes", SAME "\n"},
        {"comments", SAME "\n"},
        {"old-capability", SAME "\n"},
        {"foreign-elements", SAME "\n"},
        {"quotes-and-order",
         "created " HAVEN AT "0Z] length=12 type=[text/csv]\n"},
        {"cdata-and-references",
         "updated [http://example.com/q?a=1&b=2]" AT "0Z]\n"
         "updated [http://example.com/r/\xc3\xa5]" AT "1Z]\n"},
        {"white-space", SAME " lastmod=[2026-04-05T09:59:00Z]\n"},
        {"offset-time", SAME " lastmod=[2026-04-05T08:30:00Z]\n"},
        {"old-lastmod", SAME " lastmod=[2000-02-29T23:59:59Z]\n"},
        {"sha256-spelling",
         SAME " hash=[sha-256:abababababababababababababababab"
              "abababababababababababababababab]\n"},
        {"several-hashes",
         SAME " hash=[md5:ABABABABABABABABABABABABABABABAB"
              " sha-1:cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd"
              " sha-256:EFEFEFEFEFEFEFEFEFEFEFEFEFEFEFEF"
              "EFEFEFEFEFEFEFEFEFEFEFEFEFEFEFEF]\n"},
        {"type-parameters",
         SAME " type=[application/ld+json; profile=\"http://example.org/p\";"
              " charset=utf-8]\n"},
        {"fractions", "created [http://example.com/f/1-gauge]" AT "0.123456Z]\n"
                      "created [http://example.com/f/2-gauge]" AT "0.123456Z]\n"
                      "created "
                      "[http://example.com/f/3-gauge]" AT "0.123456Z]\n"},
        {"same-resource", "created " HAVEN AT "0Z]\nupdated " HAVEN AT "1Z]\n"
                          "updated " HAVEN AT "2Z]\ndeleted " HAVEN AT "3Z]\n"
                          "created " HAVEN AT "4Z]\n"},
        {"deleted-unknown",
         "deleted [http://example.com/gauges/r/never-seen.csv]" AT "0Z]\n"},
        {"short-loc", "updated [urn:tide:abc]" AT "0Z]\n"},
    };
    char name[100];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(name, sizeof(name), "odd/%s.xml", rows[i][0]);
        assert_file_reads(name, rows[i][1]);
    }
}

/* */
TEST(keeps_links_and_foreign_attributes_in_order)
{
    assert_file_reads(
        "odd/links.xml",
        "updated [http://example.com/gauges/r/haven.csv]"
        " datetime=[2026-04-05T10:00:00Z]"
        " {http://example.org/terms/}b=[2] {http://example.org/terms/}a=[1]\n"
        "  via [http://example.com/l/0]\n"
        "  duplicate [http://example.com/l/1] pri=2\n"
        "  duplicate [http://example.com/l/2] pri=1\n"
        "  alternate [http://example.com/l/3] type=[text/html]\n"
        "  canonical [http://example.com/l/4]\n"
        "  describedby [http://example.com/l/5]\n"
        "  memento [http://example.com/l/6] modified=[2026-04-05T09:59:00Z]\n"
        "  timegate [http://example.com/l/7]\n"
        "  timemap [http://example.com/l/8] type=[application/link-format]\n"
        "  collection [http://example.com/l/9]\n"
        "  profile [http://example.com/l/10]\n"
        "  http://example.org/rel/z [http://example.com/l/11]"
        " {http://example.org/terms/}c=[3]\n"
        "  http://www.openarchives.org/rs/terms/patch"
        " [http://example.com/l/12] length=3 type=[text/x-diff]\n");
}
