#include <dirent.h>
#include <string.h>

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
static void
refuses_what_must_be_refused(void **state)
{
    (void)state;
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
static void
accepts_what_is_odd_but_right(void **state)
{
    (void)state;
    for_each_file("odd", check_accepted);
}

/* */
static void
accepts_change_lists_and_notifications(void **state)
{
    static const char *const names[] = {
        "change-list-closed.xml",  "change-list-open.xml",
        "change-notification.xml", "relations.xml",
        "foreign-and-escaped.xml",
    };

    (void)state;
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
static void
never_accepts_a_part_of_a_document(void **state)
{
    (void)state;
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
static void
does_not_change_what_is_odd(void **state)
{
    static const char same[] = "updated [http://example.com/gauges/r/haven.csv]"
                               " datetime=[2026-04-05T10:00:00Z]";
    char text[512];

    (void)state;
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
static void
keeps_links_and_foreign_attributes_in_order(void **state)
{
    (void)state;
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

#define URL(inside) \
    XML_HEAD "<url><loc>http://example.com/a</loc>" inside "</url></urlset>"
#define MD(attributes) URL("<rs:md change='updated' " attributes "/>")

/* Of urn:tidings:1 only the tags are the source's to say (design section 4). */
static void
drops_what_is_the_brokers_to_say(void **state)
{
    (void)state;
    assert_reads(XML,
                 MD("td:seq='bad' td:datetime='bad' td:tags=' b&#10; a ' "
                    "td:zzz='1' xml:lang='en'"),
                 "updated [http://example.com/a] tags=[b a]"
                 " {http://www.w3.org/XML/1998/namespace}lang=[en]\n");
}

/* an attribute's value arrives as it was meant. */
static void
decodes_references_in_attributes(void **state)
{
    (void)state;
    assert_reads(XML, MD("x:a='&amp;&lt;&#38;&quot;&#xe5;&#10;'"),
                 "updated [http://example.com/a]"
                 " {http://example.org/x}a=[&<&\"\xc3\xa5\n]\n");
}

/* */
static void
refuses_what_stands_in_the_wrong_place(void **state)
{
    (void)state;
    assert_refused(XML, MD("path='/a'"), STATUS_INVALID,
                   "rs:md: attribute \"path\" is not for a change");
    assert_refused(XML, MD("capability='changelist'"), STATUS_INVALID, NULL);
    assert_refused(XML, MD("rs:hash='a'"), STATUS_INVALID,
                   "rs:md: attribute \"rs:hash\" must not have a prefix");
    assert_refused(XML, URL("<priority>0.5</priority><priority>0.5</priority>"),
                   STATUS_INVALID, "more than one priority");
    assert_refused(XML, URL("<name>x</name>"), STATUS_INVALID,
                   "the element name may not stand here");
    assert_refused(XML, URL("<rs:zz/>"), STATUS_INVALID,
                   "the element rs:zz may not stand here");
    assert_refused(XML, URL("<a xmlns=''/>"), STATUS_INVALID, NULL);
    assert_refused(XML, URL("text<rs:md change='updated'/>"), STATUS_INVALID,
                   "text between elements: \"text\"");
    assert_refused(XML, URL("<rs:md change='updated'><rs:ln/></rs:md>"),
                   STATUS_INVALID, NULL);
    assert_refused(XML, URL("<lastmod x:a='1'>2026</lastmod>"), STATUS_INVALID,
                   "lastmod: attribute \"x:a\" is not allowed");
    assert_refused(XML, URL("<lastmod><x:a/>2026</lastmod>"), STATUS_INVALID,
                   NULL);
    assert_refused(XML, XML_HEAD "text</urlset>", STATUS_INVALID, NULL);
    assert_refused(XML, XML_HEAD "<loc>http://example.com/a</loc></urlset>",
                   STATUS_INVALID, NULL);
    assert_refused(XML, XML_HEAD "<rs:ln rel='up'/></urlset>", STATUS_INVALID,
                   "rs:ln: no href");
    assert_refused(XML,
                   URL("<rs:md change='updated'/></url>"
                       "<rs:ln rel='up' href='http://example.com/'/><url>"),
                   STATUS_INVALID,
                   "rs:ln of the document after its first entry");
    assert_refused(XML,
                   "<urlset xmlns='" NS_SITEMAP "'><url>"
                   "<loc>http://example.com/a</loc></url></urlset>",
                   STATUS_INVALID,
                   "no rs:md with a capability before the first entry");
    assert_refused(XML,
                   "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS
                   "'><rs:md/></urlset>",
                   STATUS_INVALID, "rs:md: no capability");
}

static void
refuses_bad_values_with_a_sentence(void **state)
{
    (void)state;
    assert_refused(XML, MD("length='9223372036854775808'"), STATUS_INVALID,
                   "length: not a number of bytes: \"9223372036854775808\"");
    assert_refused(XML, MD("length='+1'"), STATUS_INVALID, NULL);
    assert_refused(XML, MD("type=''"), STATUS_INVALID, "type: empty");
    assert_refused(XML, MD("hash=' '"), STATUS_INVALID, "hash: empty");
    assert_refused(XML, URL("<rs:md/>"), STATUS_INVALID,
                   "no change: created, updated or deleted?");
    assert_refused(XML, URL(""), STATUS_INVALID, NULL);
    assert_refused(XML, URL("<rs:md change='gone'/>"), STATUS_INVALID,
                   "change: not created, updated or deleted: \"gone\"");
    assert_refused(XML,
                   URL("<changefreq>often</changefreq>"
                       "<rs:md change='created'/>"),
                   STATUS_INVALID, "changefreq: unknown: \"often\"");
    assert_refused(XML, URL("<changefreq/><rs:md change='created'/>"),
                   STATUS_INVALID, "changefreq: empty");
    assert_refused(XML, XML_HEAD "</urlset>", STATUS_INVALID, "no entries");
    assert_refused(XML, "", STATUS_MALFORMED, NULL);
    assert_reads(XML, MD("length='9223372036854775807'"),
                 "updated [http://example.com/a] length=9223372036854775807\n");
}

/* */
static void
refuses_what_is_not_utf_8(void **state)
{
    static const char utf16[] = "\xfe\xff\0<\0u\0r\0l";

    (void)state;
    for (size_t step = 1; step < sizeof(utf16); step++) {
        struct reading reading = read_steps(
            XML, READER_POST, (struct slice){utf16, sizeof(utf16) - 1}, step);

        assert_int_equal(reading.rc, STATUS_MALFORMED);
        reading_fini(&reading);
    }
    assert_refused(XML, "<?xml version='1.0' encoding='iso-8859-1'?><a/>",
                   STATUS_MALFORMED,
                   "the encoding is not UTF-8: \"iso-8859-1\"");
    assert_refused(XML, "<?xml version='1.0' encoding='utf-16'?><a/>",
                   STATUS_MALFORMED, NULL);
    assert_refused(XML, "<?xml version='1.0' encoding='shift_jis'?>\x81\xff",
                   STATUS_MALFORMED, NULL);
    assert_refused(XML, "<?xml version='1.0' encoding='us-ascii'?>\xc3\xa5",
                   STATUS_MALFORMED, NULL);
    assert_reads(XML,
                 "<?xml version='1.0' encoding='us-ascii'?>" MD("length='1'"),
                 "updated [http://example.com/a] length=1\n");
}

/* */
static void
takes_errors_of_namespaces_for_malformed(void **state)
{
    (void)state;
    assert_refused(XML, MD("zz:a='1'"), STATUS_MALFORMED, NULL);
    assert_refused(XML, URL("<zz:a/><rs:md change='created'/>"),
                   STATUS_MALFORMED, NULL);
    assert_refused(XML, MD("x:a='1' xmlns:y='http://example.org/x' y:a='1'"),
                   STATUS_MALFORMED, NULL);
}

/* the answer says which entry and where. */
static void
says_which_entry_and_line_is_wrong(void **state)
{
    static const char document[] =
        XML_HEAD "\n<url><loc>http://example.com/a</loc>"
                 "<rs:md change='created'/></url>\n"
                 "<url>\n<loc>/b</loc>\n<rs:md change='created'/></url>\n"
                 "</urlset>";
    struct reading reading = read_all(XML, SLICE(document));

    (void)state;
    assert_int_equal(reading.rc, STATUS_INVALID);
    assert_string_equal(reading.why.text, "loc: not an absolute URI: \"/b\"");
    assert_int_equal(reading.why.entry, 2);
    assert_int_equal(reading.why.line, 5);
    reading_fini(&reading);
}

/* */
static void
refuses_times_outside_the_interval(void **state)
{
    static const char head[] =
        "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS "'>"
        "<rs:md capability='changelist' from='2026-01-01T00:00:00Z' "
        "until='2026-01-02T00:00:00Z'/><url><loc>http://example.com/a</loc>"
        "<rs:md change='created' datetime='%s'/></url></urlset>";
    char document[1024];

    (void)state;
    snprintf(document, sizeof(document), head, "2025-12-31T23:59:59.999999Z");
    assert_refused(XML, document, STATUS_INVALID,
                   "datetime: before the document's from");
    snprintf(document, sizeof(document), head, "2026-01-02T00:00:00.000001Z");
    assert_refused(XML, document, STATUS_INVALID,
                   "datetime: after the document's until");
    snprintf(document, sizeof(document), head, "2026-01-01T00:00:00Z");
    assert_reads(XML, document,
                 "created [http://example.com/a]"
                 " datetime=[2026-01-01T00:00:00Z]\n");
}

/* What our own documents say beyond a source's. */
static void
reads_coverage_and_stamps_of_a_message(void **state)
{
    static const char document[] =
        "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS
        "' xmlns:td='" NS_TIDINGS
        "'><rs:ln rel='prev' href='http://example.com/1' "
        "td:digest='x'/>"
        "<rs:md capability='change-notification' from='2026-01-01T00:00:00Z' "
        "until='2026-01-02T00:00:00Z' td:epoch='0123456789abcdef' "
        "td:after='6' td:last='7' td:digest='sha-256:"
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855' "
        "td:now='2026-01-03T00:00:00Z' td:heartbeat='0.25'/>"
        "<url><loc>http://example.com/a</loc><rs:md change='created' "
        "datetime='2026-01-01T12:00:00Z' td:seq='7' "
        "td:datetime='2025-01-01T00:00:00Z'/></url></urlset>";
    struct reading reading =
        read_steps(XML, READER_MESSAGE, SLICE(document), 1);

    (void)state;
    assert_string_equal(reading.why.text, "");
    assert_string_equal(reading.text.data,
                        "created [http://example.com/a]"
                        " datetime=[2026-01-01T12:00:00Z]"
                        " source=[2025-01-01T00:00:00Z] seq=7\n");
    assert_int_equal(reading.capability, CAP_CHANGE_NOTIFICATION);
    assert_string_equal(reading.coverage.epoch, "0123456789abcdef");
    assert_int_equal(reading.coverage.after, 6);
    assert_int_equal(reading.coverage.last, 7);
    assert_true(reading.coverage.has_digest);
    assert_int_equal(reading.coverage.digest.bytes[0], 0xe3);
    assert_int_equal(reading.coverage.heartbeat_us, 250000);
    assert_true(reading.coverage.now_us > reading.coverage.until_us);
    reading_fini(&reading);
}

/* */
static void
reads_a_list_without_entries_as_a_message_only(void **state)
{
    struct slice bytes = load("change-list-empty.xml");
    struct reading post = read_all(XML, bytes);
    struct reading message = read_steps(XML, READER_MESSAGE, bytes, bytes.size);

    (void)state;
    assert_int_equal(post.rc, STATUS_INVALID);
    assert_int_equal(message.rc, STATUS_OK);
    assert_int_equal(message.n, 0);
    assert_int_equal(message.capability, CAP_CHANGELIST);
    reading_fini(&post);
    reading_fini(&message);
    free((char *)bytes.data);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_must_be_refused),
        cmocka_unit_test(accepts_what_is_odd_but_right),
        cmocka_unit_test(accepts_change_lists_and_notifications),
        cmocka_unit_test(never_accepts_a_part_of_a_document),
        cmocka_unit_test(does_not_change_what_is_odd),
        cmocka_unit_test(keeps_links_and_foreign_attributes_in_order),
        cmocka_unit_test(drops_what_is_the_brokers_to_say),
        cmocka_unit_test(decodes_references_in_attributes),
        cmocka_unit_test(refuses_what_stands_in_the_wrong_place),
        cmocka_unit_test(refuses_bad_values_with_a_sentence),
        cmocka_unit_test(refuses_what_is_not_utf_8),
        cmocka_unit_test(takes_errors_of_namespaces_for_malformed),
        cmocka_unit_test(says_which_entry_and_line_is_wrong),
        cmocka_unit_test(refuses_times_outside_the_interval),
        cmocka_unit_test(reads_coverage_and_stamps_of_a_message),
        cmocka_unit_test(reads_a_list_without_entries_as_a_message_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
