/*
 * The documents of tests/spec/examples: what must be refused, what must be
 * accepted, and how it must come out.
 */
#include <dirent.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/proto/reading.h"

/* Calls `check` for each XML file of a folder of the examples. */
static void
for_each_file(const char *folder, void (*check)(const char *name))
{
    char path[512];
    DIR *dir;
    size_t n = 0;

    snprintf(path, sizeof(path), "%s/examples/%s", SPEC_DIR, folder);
    dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *d = readdir(dir); d; d = readdir(dir)) {
        char name[512];

        if (!strstr(d->d_name, ".xml"))
            continue;
        snprintf(name, sizeof(name), "%s/%s", folder, d->d_name);
        check(name);
        n++;
    }
    closedir(dir);
    assert_true(n > 10);
}

static void
check_refused(const char *name)
{
    static const size_t steps[] = {1, 3, 100, SIZE_MAX / 2};
    struct slice bytes = load(name);

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct reading reading = read_steps(XML, READER_POST, bytes, steps[i]);

        if (reading.rc != STATUS_MALFORMED && reading.rc != STATUS_INVALID)
            fail_msg("%s in steps of %zu: status %d", name, steps[i],
                     reading.rc);
        if (!reading.why.text[0])
            fail_msg("%s: no reason", name);
        reading_fini(&reading);
    }
    free((char *)bytes.data);
}

/* R-294, and all that the table in bad/README.md names. */
TEST(refuses_what_must_be_refused)
{
    for_each_file("bad", check_refused);
}

static void
check_accepted(const char *name)
{
    static const size_t steps[] = {1, 3, 100};
    struct slice bytes = load(name);
    struct reading whole = read_all(XML, bytes);

    if (whole.rc)
        fail_msg("%s: %s (entry %d, line %d)", name, whole.why.text,
                 (int)whole.why.entry, (int)whole.why.line);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct reading part = read_steps(XML, READER_POST, bytes, steps[i]);

        assert_string_equal(part.why.text, "");
        assert_string_equal(part.text.data, whole.text.data);
        reading_fini(&part);
    }
    reading_fini(&whole);
    free((char *)bytes.data);
}

/* */
TEST(accepts_what_is_odd_but_right)
{
    for_each_file("odd", check_accepted);
}

/* */
TEST(accepts_change_lists_and_notifications)
{
    static const char *const names[] = {
        "change-list-closed.xml",  "change-list-open.xml",
        "change-notification.xml", "relations.xml",
        "foreign-and-escaped.xml",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        check_accepted(names[i]);
}

static void
check_truncated(const char *name)
{
    struct slice bytes = load(name);
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
    free((char *)bytes.data);
}

/* */
TEST(never_accepts_a_part_of_a_document)
{
    for_each_file("odd", check_truncated);
}

static void
assert_file_reads(const char *name, const char *text)
{
    struct slice bytes = load(name);
    struct reading reading = read_all(XML, bytes);

    assert_string_equal(reading.why.text, "");
    assert_string_equal(reading.text.data, text);
    reading_fini(&reading);
    free((char *)bytes.data);
}

/* The values that odd/README.md asks for. */
TEST(does_not_change_what_is_odd)
{
    static const char same[] = "updated [http://example.com/gauges/r/haven.csv]"
                               " datetime=[2026-04-05T10:00:00Z]";
    char text[512];

    snprintf(text, sizeof(text), "%s\n", same);
    assert_file_reads("odd/byte-order-mark.xml", text);
    assert_file_reads("odd/no-declaration.xml", text);
    assert_file_reads("odd/other-prefixes.xml", text);
    assert_file_reads("odd/comments.xml", text);
    assert_file_reads("odd/old-capability.xml", text);
    assert_file_reads("odd/foreign-elements.xml", text);
    assert_file_reads(
        "odd/quotes-and-order.xml",
        "created [http://example.com/gauges/r/haven.csv]"
        " datetime=[2026-04-05T10:00:00Z] length=12 type=[text/csv]\n");
    assert_file_reads("odd/cdata-and-references.xml",
                      "updated [http://example.com/q?a=1&b=2]"
                      " datetime=[2026-04-05T10:00:00Z]\n"
                      "updated [http://example.com/r/\xc3\xa5]"
                      " datetime=[2026-04-05T10:00:01Z]\n");
    snprintf(text, sizeof(text), "%s lastmod=[2026-04-05T09:59:00Z]\n", same);
    assert_file_reads("odd/white-space.xml", text);
    snprintf(text, sizeof(text), "%s lastmod=[2026-04-05T08:30:00Z]\n", same);
    assert_file_reads("odd/offset-time.xml", text);
    snprintf(text, sizeof(text), "%s lastmod=[2000-02-29T23:59:59Z]\n", same);
    assert_file_reads("odd/old-lastmod.xml", text);
    snprintf(text, sizeof(text),
             "%s hash=[sha-256:abababababababababababababababab"
             "abababababababababababababababab]\n",
             same);
    assert_file_reads("odd/sha256-spelling.xml", text);
    snprintf(text, sizeof(text),
             "%s hash=[md5:ABABABABABABABABABABABABABABABAB"
             " sha-1:cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd"
             " sha-256:EFEFEFEFEFEFEFEFEFEFEFEFEFEFEFEF"
             "EFEFEFEFEFEFEFEFEFEFEFEFEFEFEFEF]\n",
             same);
    assert_file_reads("odd/several-hashes.xml", text);
    snprintf(text, sizeof(text),
             "%s type=[application/ld+json; profile=\"http://example.org/p\";"
             " charset=utf-8]\n",
             same);
    assert_file_reads("odd/type-parameters.xml", text);
    assert_file_reads("odd/fractions.xml",
                      "created [http://example.com/f/1-gauge]"
                      " datetime=[2026-04-05T10:00:00.123456Z]\n"
                      "created [http://example.com/f/2-gauge]"
                      " datetime=[2026-04-05T10:00:00.123456Z]\n"
                      "created [http://example.com/f/3-gauge]"
                      " datetime=[2026-04-05T10:00:00.123456Z]\n");
    assert_file_reads("odd/same-resource.xml",
                      "created [http://example.com/gauges/r/haven.csv]"
                      " datetime=[2026-04-05T10:00:00Z]\n"
                      "updated [http://example.com/gauges/r/haven.csv]"
                      " datetime=[2026-04-05T10:00:01Z]\n"
                      "updated [http://example.com/gauges/r/haven.csv]"
                      " datetime=[2026-04-05T10:00:02Z]\n"
                      "deleted [http://example.com/gauges/r/haven.csv]"
                      " datetime=[2026-04-05T10:00:03Z]\n"
                      "created [http://example.com/gauges/r/haven.csv]"
                      " datetime=[2026-04-05T10:00:04Z]\n");
    assert_file_reads("odd/deleted-unknown.xml",
                      "deleted [http://example.com/gauges/r/never-seen.csv]"
                      " datetime=[2026-04-05T10:00:00Z]\n");
    assert_file_reads("odd/short-loc.xml",
                      "updated [urn:tide:abc]"
                      " datetime=[2026-04-05T10:00:00Z]\n");
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
