/*
 * document_test.c - documents as sources serve them: right, odd, damaged.
 */
#include "client/source/document.h"

#include <stdlib.h>

#include "tests/support/examples.h"
#include "tests/support/gzip.h"
#include "tests/test.h"
#include "tests/unit/source/told.h"

#define BASE "http://example.com/a/list.xml"
#define OPEN                                                         \
    "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" " \
    "xmlns:rs=\"http://www.openarchives.org/rs/terms/\" "            \
    "xmlns:td=\"urn:tidings:1\">"
#define CLOSE "</urlset>"

/* The document reads the same in pieces of any size, packed or not. */
static enum status
read_all_ways(struct told *told, struct slice document)
{
    static const size_t steps[] = {1, 7, 4096};
    enum status rc = told_read(told, BASE, document, SIZE_MAX);
    struct buf packed;

    buf_init(&packed, SIZE_MAX);
    gzip_add(&packed, document);
    for (size_t i = 0; i < (document.size > 0 ? 6 : 3); i++) {
        struct told other;

        assert_int_equal(told_read(&other, BASE,
                                   i < 3 ? document : buf_slice(&packed),
                                   steps[i % 3]),
                         rc);
        if (!rc)
            assert_string_equal(other.text.data, told->text.data);
        told_fini(&other);
    }
    buf_fini(&packed);
    return rc;
}

static size_t
count(struct slice document, const char *word)
{
    size_t n = 0;
    const char *p = document.data;

    while ((p = memmem(p, document.size - (size_t)(p - document.data), word,
                       strlen(word)))) {
        n++;
        p++;
    }
    return n;
}

static void
reads_whole(const char *name, struct slice document)
{
    struct told told;

    if (read_all_ways(&told, document))
        fail_msg("%s: %s", name, told.why.text);
    if (!told.head.has_capability)
        fail_msg("%s has no capability", name);
    /* a loc of a list is of http or https. */
    if (list_report_n(&told.head.report, LIST_LEFT_OUT) !=
        !strcmp(name, "odd/short-loc.xml"))
        fail_msg("%s: an entry is left out", name);
    /* Prefixed elements are counted by the test of that file. */
    if (!strstr(name, "/other-prefixes.xml"))
        assert_int_equal(told.head.n_entries +
                             list_report_n(&told.head.report, LIST_LEFT_OUT),
                         count(document, "<url>") +
                             count(document, "<sitemap>"));
    told_fini(&told);
}

/* valid documents are read, entry by entry.
 */
TEST(every_example_is_read_whole)
{
    examples_each(".", reads_whole);
}

TEST(every_odd_example_is_read_whole)
{
    examples_each("odd", reads_whole);
}

/* No XML, a DOCTYPE, another root, the limits of the parser. */
static const char *const refused[] = {
    "xxe.xml",
    "xxe-parameter.xml",
    "external-dtd.xml",
    "billion-laughs.xml",
    "quadratic-blowup.xml",
    "wrong-sitemap-namespace.xml",
    "duplicate-attribute.xml",
    "truncated.xml",
    "invalid-utf8.xml",
    "overlong-utf8.xml",
    "control-character.xml",
    "not-xml.xml",
    "empty.xml",
    "trailing-garbage.xml",
    "deep-nesting.xml",
};

static void
reads_as_far_as_it_is_safe(const char *name, struct slice document)
{
    struct told told;
    enum status rc = read_all_ways(&told, document);
    bool is_bad = false;

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        is_bad |= !strcmp(name + strlen("bad/"), refused[i]);
    if (rc != (is_bad ? STATUS_MALFORMED : STATUS_OK))
        fail_msg("%s: %d, %s", name, (int)rc, told.why.text);
    if (is_bad)
        assert_true(told.why.text[0] != '\0');
    told_fini(&told);
}

/* */
TEST(what_is_bad_is_refused_or_read_without_what_is_bad)
{
    examples_each("bad", reads_as_far_as_it_is_safe);
}

static void
reads_as(const char *document, const char *expected)
{
    struct told told;
    enum status rc = read_all_ways(&told, slice_of(document));

    if (rc)
        fail_msg("%s", told.why.text);
    assert_string_equal(told.text.data, expected);
    told_fini(&told);
}

static void
example_reads_as(const char *name, const char *expected)
{
    struct slice document = examples_load(name);
    struct told told;

    assert_int_equal(read_all_ways(&told, document), 0);
    assert_string_equal(told.text.data, expected);
    told_fini(&told);
    free((char *)document.data);
}

/* */
TEST(an_index_tells_the_interval_of_each_part)
{
    example_reads_as(
        "change-list-index.xml",
        "link up http://example.com/gauges/capabilitylist.xml\n"
        "link archives http://example.com/gauges/changelist-archive.xml\n"
        "entry http://example.com/gauges/changelist-000003.xml "
        "from=2026-04-01T18:00:00Z until=2026-04-02T00:00:00Z\n"
        "entry http://example.com/gauges/changelist-000004.xml "
        "from=2026-04-02T00:00:00Z\n"
        "index changelist from=2026-04-01T18:00:00Z n=2\n");
}

/* */
TEST(a_manifest_tells_paths_of_entries_and_patches)
{
    struct slice document = examples_load("change-dump-manifest.xml");
    struct told told;

    assert_int_equal(read_all_ways(&told, document), 0);
    assert_non_null(strstr(told.text.data, " path=/changes/0003.csv\n"));
    assert_non_null(strstr(told.text.data, " path=/patches/0003.diff"));
    assert_non_null(strstr(told.text.data,
                           "deleted http://example.com/gauges/r/pier.csv "
                           "datetime=2026-04-01T23:05:00.125Z\n"));
    assert_int_equal(told.head.capability, CAP_CHANGEDUMP_MANIFEST);
    told_fini(&told);
    free((char *)document.data);
}

/* references and CDATA; comments and white space around the value.
 */
TEST(odd_texts_are_what_is_meant)
{
    example_reads_as("odd/cdata-and-references.xml",
                     "updated http://example.com/q?a=1&b=2 "
                     "datetime=2026-04-05T10:00:00Z\n"
                     "updated http://example.com/r/%C3%A5 "
                     "datetime=2026-04-05T10:00:01Z\n"
                     "list change-notification from=2026-04-05T09:00:00Z "
                     "until=2026-04-05T11:00:00Z n=2\n"
                     "mended: 1 URLs (\"http://example.com/r/\xc3\xa5\", line "
                     "9)\n");
    example_reads_as("odd/white-space.xml",
                     "updated http://example.com/gauges/r/haven.csv "
                     "datetime=2026-04-05T10:00:00Z "
                     "lastmod=2026-04-05T09:59:00Z\n"
                     "list change-notification from=2026-04-05T09:00:00Z "
                     "until=2026-04-05T11:00:00Z n=1\n");
}

TEST(a_plain_sitemap_is_a_list_without_a_capability)
{
    reads_as("<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>"
             "<url><loc>http://example.com/a/1</loc>"
             "<lastmod>2026-04</lastmod><priority>0.5</priority></url>"
             "<url><loc>http://example.com/a/2</loc></url></urlset>",
             "entry http://example.com/a/1 lastmod=2026-04-01 priority=0.5\n"
             "entry http://example.com/a/2\n"
             "list - n=2\n");
    reads_as("<sitemapindex><sitemap><loc>http://example.com/a/1</loc>"
             "</sitemap></sitemapindex>",
             "entry http://example.com/a/1\n"
             "index - n=1\n"
             "mended: 1 with another namespace (line 1)\n");
}

TEST(relative_urls_are_of_the_document)
{
    reads_as(OPEN "<rs:ln rel=\"up\" href=\"../capabilitylist.xml\"/>"
                  "<url><loc>r/1.txt</loc>"
                  "<rs:ln rel=\"duplicate\" href=\"//mirror.example/1\"/></url>"
                  "<url><loc>/r/2.txt</loc></url>"
                  "<url><loc>http://example.com/r/../3.txt</loc></url>" CLOSE,
             "link up http://example.com/capabilitylist.xml\n"
             "entry http://example.com/a/r/1.txt\n"
             "   duplicate http://mirror.example/1\n"
             "entry http://example.com/r/2.txt\n"
             "entry http://example.com/r/../3.txt\n"
             "list - n=3\n"
             "mended: 4 URLs (\"../capabilitylist.xml\", line 1)\n");
}

TEST(blanks_in_urls_are_escaped_and_broken_lines_joined)
{
    reads_as(OPEN "<url><loc> http://example.com/two words\n</loc></url>"
                  "<url><loc>http://example.com/a/\n   b</loc></url>" CLOSE,
             "entry http://example.com/two%20words\n"
             "entry http://example.com/a/b\n"
             "list - n=2\n"
             "mended: 2 URLs (\"http://example.com/two words\", line 2)\n");
}

TEST(an_entry_without_a_loc_is_counted_and_left_out)
{
    reads_as(OPEN "<url><rs:md change=\"updated\"/></url><url><loc/></url>"
                  "<url><loc>http://example.com/1</loc></url>"
                  "<url><loc>http://</loc></url>" CLOSE,
             "entry http://example.com/1\n"
             "list - n=1\n"
             "left out: 2 without a loc (line 1), 1 with a loc that is no URL "
             "of http or https (\"http://\", line 1)\n");
}

TEST(values_that_cannot_be_read_are_missing)
{
    reads_as(OPEN "<rs:md capability=\"other\" from=\"yesterday\"/>"
                  "<rs:ln rel=\"up\"/>"
                  "<url><loc>http://example.com/1</loc><lastmod>x</lastmod>"
                  "<rs:md datetime=\"2026-02-30\" "
                  "hash=\"sha-512:12 md5:0123456789abcdef0123456789abcdef\" "
                  "length=\"-1\" type=\"text\" path=\"/\" td:seq=\"-1\"/>"
                  "<rs:ln rel=\"duplicate\"/>"
                  "<rs:ln rel=\"duplicate\" href=\"http://m.example/1\" "
                  "pri=\"0\" length=\"many\"/></url>" CLOSE,
             "entry http://example.com/1 "
             "hash=md5:0123456789abcdef0123456789abcdef\n"
             "   duplicate http://m.example/1\n"
             "list - n=1\n"
             "mended: 3 times (\"yesterday\", line 1), 1 words (\"other\", "
             "line 1), 5 attributes that do not belong there (\"sha-512:12 "
             "md5:0123456789abcdef0123456789abcdef\", line 1)\n");
}

/* */
TEST(times_are_read_as_they_were_meant)
{
    reads_as(OPEN "<rs:md capability=\"changelist\" from=\"2026\"/>"
                  "<url><loc>http://example.com/1</loc>"
                  "<rs:md datetime=\"2026-04-05T10:00:00+02:00\"/></url>"
                  "<url><loc>http://example.com/2</loc>"
                  "<rs:md datetime=\"2026-04-05T10:00:00.5+0200\"/></url>"
                  "<url><loc>http://example.com/3</loc>"
                  "<rs:md datetime=\"2026-04-05T10:00:00\"/></url>"
                  "<url><loc>http://example.com/4</loc>"
                  "<rs:md datetime=\"2026-04-05 10:00:00.25\"/></url>"
                  "<url><loc>http://example.com/5</loc>"
                  "<lastmod>2026-04-05t10:00:00z</lastmod></url>" CLOSE,
             "entry http://example.com/1 datetime=2026-04-05T08:00:00Z\n"
             "entry http://example.com/2 datetime=2026-04-05T08:00:00.5Z\n"
             "entry http://example.com/3 datetime=2026-04-05T10:00:00Z\n"
             "entry http://example.com/4 datetime=2026-04-05T10:00:00.25Z\n"
             "entry http://example.com/5 lastmod=2026-04-05T10:00:00Z\n"
             "list changelist from=2026-01-01T00:00:00Z n=5\n"
             "mended: 5 times (\"2026\", line 1)\n");
}

/* our own facts stand in attributes of our namespace. */
TEST(lists_of_tidings_tell_seqs)
{
    reads_as(OPEN
             "<rs:md capability=\"changelist\" td:epoch=\"0123456789abcdef\" "
             "td:after=\"6\" td:last=\"7\"/>"
             "<rs:ln rel=\"prev\" href=\"1.xml\" td:digest=\"sha-256:"
             "d3fd405e062d29ab5a55fc0891fb3b36d5db9bc77ff088b33d1021c8bc106b7e"
             "\"/>"
             "<url><loc>http://example.com/1</loc><rs:md change=\"deleted\" "
             "td:seq=\"7\" td:tags=\"a b\" length=\"4\" x:y=\"z\" "
             "xmlns:x=\"urn:x\"/></url>" CLOSE,
             "link prev http://example.com/a/1.xml digest\n"
             "deleted http://example.com/1 seq=7 tags=a b foreign=1\n"
             "list changelist epoch=0123456789abcdef after=6 last=7 n=1\n"
             "mended: 1 URLs (\"1.xml\", line 1)\n");
}

/* R-006 is for writers: a reader takes its elements in any order. */
TEST(the_order_of_elements_does_not_matter)
{
    reads_as(OPEN "<url><rs:md rs:change=\"created\"/><x xmlns=\"urn:x\"><y/>"
                  "</x><loc>http://example.com/<b>1</b></loc></url>"
                  "<rs:md capability=\"changelist\"/>" CLOSE,
             "created http://example.com/\n"
             "list changelist n=1\n"
             "mended: 1 attributes that do not belong there (\"change\", line "
             "1)\n");
}

static enum status
stop(const struct document_entry *entry, const struct document_head *head,
     void *user)
{
    (void)entry;
    (void)head;
    ++*(int *)user;
    return STATUS_INVALID;
}

TEST(a_function_ends_the_reading_with_its_own_status)
{
    static const struct document_events events = {NULL, stop};
    static const char text[] =
        OPEN "<url><loc>http://example.com/1</loc></url>"
             "<url><loc>http://example.com/2</loc></url>" CLOSE;
    int n = 0;
    struct document *d = document_new(BASE, &events, &n);
    struct problem why = {""};

    assert_int_equal(document_feed(d, slice_of(text), &why), STATUS_INVALID);
    assert_int_equal(document_feed(d, slice_of(text), &why), STATUS_INVALID);
    assert_int_equal(document_end(d, &why), STATUS_INVALID);
    assert_int_equal(n, 1);
    document_free(d);
}

TEST(a_refusal_says_where_it_is)
{
    struct told told;

    assert_int_equal(
        told_read(&told, BASE, SLICE("<urlset>\n<url>\n<loc></url>"), 5),
        STATUS_MALFORMED);
    assert_int_equal(told.why.line, 3);
    assert_non_null(strstr(told.why.text, "not well-formed"));
    told_fini(&told);
}

TEST(gzip_may_be_several_members_but_nothing_else)
{
    static const char half[] = OPEN "<url><loc>http://example.com/1</loc>";
    struct buf packed;
    struct told told;

    buf_init(&packed, SIZE_MAX);
    gzip_add(&packed, SLICE(half));
    gzip_add(&packed, SLICE("</url>" CLOSE));
    for (size_t step = 1; step < 80; step++) {
        assert_int_equal(told_read(&told, BASE, buf_slice(&packed), step), 0);
        assert_int_equal(told.head.n_entries, 1);
        told_fini(&told);
    }

    assert_int_equal(
        told_read(&told, BASE, (struct slice){packed.data, packed.size - 1}, 9),
        STATUS_MALFORMED);
    assert_string_equal(told.why.text, "not gzip: it ends before its end");
    told_fini(&told);

    BUF_ADD(&packed, "\0");
    assert_int_equal(told_read(&told, BASE, buf_slice(&packed), 9),
                     STATUS_MALFORMED);
    told_fini(&told);

    packed.data[packed.size / 2] ^= 0x55;
    assert_int_equal(told_read(&told, BASE, buf_slice(&packed), 9),
                     STATUS_MALFORMED);
    told_fini(&told);
    buf_fini(&packed);
}

/* The limit counts the unpacked bytes of a document that is packed a thousand
 * to one, not the packed ones; a plain document has a limit, too. */
TEST(a_bomb_ends_at_the_limit)
{
    static const struct document_events none = {NULL, NULL};
    const size_t max = 1024 * 1024, more = max - strlen(OPEN);

    for (unsigned i = 0; i < 4; i++) {
        bool is_packed = i & 1, is_too_long = i & 2;
        struct document *d = document_new_moved(BASE, BASE, max, &none, NULL);
        struct problem why = {.text = ""};
        struct buf bytes;
        enum status rc;

        assert_non_null(d);
        buf_init(&bytes, SIZE_MAX);
        if (is_packed) {
            gzip_add(&bytes, SLICE(OPEN));
            gzip_add_bomb(&bytes, ' ', more + is_too_long);
            assert_true(bytes.size < 8 * 1024);
        } else {
            BUF_ADD(&bytes, OPEN);
            for (size_t n = 0; n < more + is_too_long; n++)
                BUF_ADD(&bytes, " ");
        }
        rc = document_feed(d, buf_slice(&bytes), &why);
        assert_int_equal(rc, is_too_long ? STATUS_TOO_LARGE : STATUS_OK);
        assert_string_equal(
            why.text, !is_too_long ? ""
                      : is_packed  ? "more than 1048576 bytes when inflated"
                                   : "more than 1048576 bytes");
        document_free(d);
        buf_fini(&bytes);
    }
}

TEST(a_loc_without_an_end_takes_no_memory)
{
    struct buf packed;
    struct told told;

    buf_init(&packed, SIZE_MAX);
    gzip_add(&packed, SLICE(OPEN "<url><loc>http://example.com/"));
    /* More than libxml2 takes for one text: it hands the text over in pieces.
     */
    gzip_add_bomb(&packed, 'a', 12 * 1024 * 1024);
    gzip_add(&packed, SLICE("</loc></url>" CLOSE));
    assert_int_equal(told_read(&told, BASE, buf_slice(&packed), 4096), 0);
    assert_int_equal(list_report_n(&told.head.report, LIST_LEFT_OUT), 1);
    told_fini(&told);
    buf_fini(&packed);
}

/* the Sitemaps of a robots.txt, as its authors write them; other
 * lines do not matter. */
TEST(a_robots_txt_is_an_index_of_its_sitemaps)
{
    static const struct {
        const char *body;
        const char *told; /* NULL: no such document */
    } rows[] = {
        {"User-agent: *\nDisallow: /\nSitemap: http://e.org/1.xml\n",
         "entry http://e.org/1.xml\n"},
        {"\xEF\xBB\xBFSITEMAP:http://e.org/1.xml\r\n\r\n"
         "  sitemap :http://e.org/2.xml\rsitemap:\t/3.xml  # ours",
         "entry http://e.org/1.xml\nentry http://e.org/2.xml\n"
         "entry http://example.com/3.xml\n"},
        {"# Sitemap: http://e.org/1.xml\nSitemap:\nSitemap\n", NULL},
        {"<!DOCTYPE html><p>Sitemap: none", NULL},
        {"", NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t step = 1; step < 100; step += 98) {
            struct told told;
            enum status rc = told_read(&told, "http://example.com/robots.txt",
                                       slice_of(rows[i].body), step);

            assert_int_equal(rc, rows[i].told ? STATUS_OK : STATUS_MALFORMED);
            if (rows[i].told) {
                BUF_ADD(&told.text, "\0");
                if (!strstr(told.text.data, rows[i].told))
                    fail_msg("%s", told.text.data);
                assert_true(told.head.is_index);
            }
            told_fini(&told);
        }
}

/* Shapes in which other programs send lists (R-403, R-404, R-405, R-406, R-407,
 * R-417), with the entries and the report that the reader makes of each. */
#define SITEMAP "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>"
#define RS      " xmlns:rs='http://www.openarchives.org/rs/terms/'"
#define LIST    "<urlset xmlns='" NS_SITEMAP "'" RS "><rs:md capability="
#define ONE     "<url><loc>http://e.org/1</loc></url>"
#define TOLD    "entry http://e.org/1\nlist - n=1\n"
#define CHANGE(word)                                                        \
    LIST "'changelist'/><url><loc>http://e.org/1</loc><rs:md change='" word \
         "' datetime='2026-01-02T03:04:05Z'/></url></urlset>"
#define CHANGED(word)                                           \
    word " http://e.org/1 datetime=2026-01-02T03:04:05Z\nlist " \
         "changelist n=1\n"
#define TIME(text)                                         \
    SITEMAP "<url><loc>http://e.org/1</loc><lastmod>" text \
            "</lastmod></url></urlset>"
#define DATED(time, text)                                 \
    "entry http://e.org/1 lastmod=" time "\nlist - n=1\n" \
    "mended: 1 times (\"" text "\", line 1)\n"
#define LOC(text) SITEMAP "<url><loc>" text "</loc></url></urlset>"
#define NAMED(url, text)          \
    "entry " url "\nlist - n=1\n" \
    "mended: 1 URLs (\"" text "\", line 1)\n"
#define SPELT(ns)                                                          \
    {                                                                      \
        "<urlset xmlns='" ns "'>" ONE "</urlset>",                         \
            TOLD "mended: 1 with another namespace (\"" ns "\", line 1)\n" \
    }

static const struct shape {
    const char *document;
    const char *told; /* rows, head, report; or the reason of a refusal */
} shapes[] = {
    {SITEMAP ONE "</urlset>", TOLD},
    /* What stands before the declaration, and encodings */
    {"\n<?xml version='1.0'?>" SITEMAP ONE "</urlset>",
     TOLD "mended: 1 with white space at the begin (line 2)\n"},
    {"\xEF\xBB\xBF\r\n \xEF\xBB\xBF<?xml version='1.0'?>\n" SITEMAP
     "<url><loc>x y</loc></url></urlset>",
     "entry http://example.com/a/x%20y\nlist - n=1\n"
     "mended: 1 with white space at the begin (line 2), "
     "1 URLs (\"x y\", line 3)\n"},
    {"<?xml version='1.0' encoding='iso-8859-1'?>\n" LOC("http://e.org/\xE9"),
     "entry http://e.org/%C3%A9\nlist - n=1\n"
     "mended: 1 in another encoding (\"iso-8859-1\", line 2), "
     "1 URLs (\"http://e.org/\xC3\xA9\", line 2)\n"},
    {"<?xml version=\"1.0\" encoding = \"windows-1251\"?>" LOC(
         "http://e.org/\xE9"),
     "entry http://e.org/%D0%B9\nlist - n=1\n"
     "mended: 1 in another encoding (\"windows-1251\", line 1), "
     "1 URLs (\"http://e.org/\xD0\xB9\", line 1)\n"},
    {"<?xml version='1.0' encoding='UTF-16'?>" SITEMAP ONE "</urlset>",
     TOLD "mended: 1 in another encoding (\"UTF-16\", line 1)\n"},
    {"<?xml version='1.0' encoding='US-ASCII'?>" SITEMAP ONE "</urlset>",
     TOLD "mended: 1 in another encoding (\"US-ASCII\", line 1)\n"},
    {"<?xml version='1.0' encoding='x-nonsense'?>" SITEMAP ONE "</urlset>",
     "nobody here reads the encoding: \"x-nonsense\""},
    {"", "it is empty"},
    /* Namespaces */
    SPELT("https://www.sitemaps.org/schemas/sitemap/0.9"),
    SPELT("http://www.sitemaps.org/schemas/sitemap/0.9/"),
    SPELT("http://sitemaps.org/schemas/sitemap/0.90"),
    SPELT("http://www.google.com/schemas/sitemap/0.84"),
    SPELT("https://www.google.com/schemas/sitemap/0.84"),
    {"<urlset>" ONE "</urlset>",
     TOLD "mended: 1 with another namespace (line 1)\n"},
    {"<urlset xmlns='http://e.org/ns'>" ONE "</urlset>",
     "no urlset and no sitemapindex, but the root: \"urlset\""},
    {"<urlset xmlns='" NS_SITEMAP
     "' xmlns:rs='https://www.openarchives.org/rs/terms'>"
     "<rs:md capability='resourcelist'/>" ONE "</urlset>",
     "entry http://e.org/1\nlist resourcelist n=1\nmended: 1 with another "
     "namespace (\"https://www.openarchives.org/rs/terms\", line 1)\n"},
    /* */
    {"<urlset xmlns='" NS_SITEMAP
     "' xmlns:rs='http://www.openarchives.org/rs/'>"
     "<rs:md capability='changelist'/>" ONE "</urlset>",
     "the namespace \"http://www.openarchives.org/rs/\" is of a draft of "
     "ResourceSync of 2012, which is no longer read; now it is "
     "http://www.openarchives.org/rs/terms/"},
    {"<urlset xmlns='" NS_SITEMAP "' xmlns:rs='http://resourcesync.org/ns/'>"
     "<url><loc>http://e.org/1</loc><lastmod rs:type='created'>2026"
     "</lastmod></url></urlset>",
     "the namespace \"http://resourcesync.org/ns/\" is of a draft of "
     "ResourceSync of 2012, which is no longer read; now it is "
     "http://www.openarchives.org/rs/terms/"},
    {SITEMAP "<x:y xmlns:x='http://www.resourcesync.org/change/0.1'/></urlset>",
     "the namespace \"http://www.resourcesync.org/change/0.1\" is of a draft "
     "of ResourceSync of 2012, which is no longer read; now it is "
     "http://www.openarchives.org/rs/terms/"},
    /* loc */
    {LOC("/x"), NAMED("http://example.com/x", "/x")},
    {LOC("x?y#z"), NAMED("http://example.com/a/x?y#z", "x?y#z")},
    {LOC("//e.org/x"), NAMED("http://e.org/x", "//e.org/x")},
    {LOC("http://e.org/\xC3\xA9?q=\xE2\x82\xAC"),
     NAMED("http://e.org/%C3%A9?q=%E2%82%AC",
           "http://e.org/\xC3\xA9?q=\xE2\x82\xAC")},
    {LOC("http://e.org/%C3%A9%zz|"),
     NAMED("http://e.org/%C3%A9%25zz%7C", "http://e.org/%C3%A9%zz|")},
    {LOC("http:///x"), "list - n=0\nleft out: 1 with a loc that is no URL of "
                       "http or https (\"http:///x\", line 1)\n"},
    {LOC("ftp://e.org/x"), "list - n=0\nleft out: 1 with a loc that is no URL "
                           "of http or https (\"ftp://e.org/x\", line 1)\n"},
    {LOC("http://\xC3\xA9.org/x"),
     "list - n=0\nleft out: 1 with a loc that is no URL of http or https "
     "(\"http://\xC3\xA9.org/x\", line 1)\n"},
    {LOC("mailto:a@e.org"),
     "list - n=0\nleft out: 1 with a loc that is no URL of "
     "http or https (\"mailto:a@e.org\", line 1)\n"},
    /* */
    {"<sitemapindex xmlns='" NS_SITEMAP "'>\n<url>\n<loc>http://e.org/p</loc>"
     "</url><sitemap><loc>http://e.org/1</loc></sitemap></sitemapindex>",
     "entry http://e.org/1\nindex - n=1\nleft out: 1 that do not belong into "
     "such a document (\"http://e.org/p\", line 2)\n"},
    {SITEMAP ONE "<sitemap><loc>http://e.org/p</loc></sitemap></urlset>",
     TOLD "left out: 1 that do not belong into such a document "
          "(\"http://e.org/p\", line 1)\n"},

/* */
#define UNKNOWN(n, name) \
    TOLD "left out: " n " in unknown elements (\"" name "\", line 1)\n"
    {SITEMAP ONE "<URL><LOC>http://e.org/2</LOC></URL></urlset>",
     UNKNOWN("1", "URL")},
    {SITEMAP ONE "<record><at>http://e.org/2</at></record></urlset>",
     UNKNOWN("1", "record")},
    {SITEMAP ONE "<item><link>http://e.org/2</link></item></urlset>",
     UNKNOWN("1", "item")},
    {SITEMAP ONE "<x:rows xmlns:x='x:'>" ONE ONE "</x:rows></urlset>",
     UNKNOWN("2", "rows")},
    {SITEMAP ONE "<x:url xmlns:x='x:'><x:at>http://e.org/2</x:at></x:url>"
                 "</urlset>",
     UNKNOWN("1", "url")},
    {SITEMAP ONE
     "<x:note xmlns:x='x:'><x:at>http://e.org/2</x:at></x:note>"
     "<x:link xmlns:x='http://www.w3.org/2005/Atom' href='/y'/></urlset>",
     TOLD},
    {"<rss><channel><title>t</title><image><url>http://e.org/i</url></image>"
     "<item><link>http://e.org/1</link></item><ITEM><link>http://e.org/2"
     "</link></ITEM></channel></rss>",
     TOLD "left out: 1 in unknown elements (\"ITEM\", line 1)\n"},
    /* */
    {LIST
     "'resourcelist'/><url><loc>http://e.org/1</loc><rs:md "
     "datetime='2026-01-02T03:04:05Z'/></url><url><loc>http://e.org/2</loc>"
     "<lastmod>2026</lastmod><rs:md datetime='2026-01-02T03:04:05Z' "
     "change='updated'/></url></urlset>",
     "entry http://e.org/1 lastmod=2026-01-02T03:04:05Z\n"
     "entry http://e.org/2 lastmod=2026-01-01\nlist resourcelist n=2\n"
     "mended: 3 attributes that do not belong there "
     "(\"datetime=2026-01-02T03:04:05Z\", line 1)\n"},
    /* Words of an event: read where there are events, and none of them longer
     * than a broker takes. */
    {LIST "'resourcelist'/><url><loc>http://e.org/1</loc><t:title "
          "xmlns:t='" NS_TIDINGS "'>a</t:title></url></urlset>",
     "entry http://e.org/1\nlist resourcelist n=1\n"
     "mended: 1 attributes that do not belong there (\"title\", line 1)\n"},
    {"<urlset xmlns=\"" NS_SITEMAP "\" xmlns:td=\"" NS_TIDINGS "\"><url>"
     "<loc>http://e.org/1</loc><td:data>1</td:data></url></urlset>",
     TOLD "mended: 1 attributes that do not belong there (\"data\", line 1)\n"},
    {LIST "'changelist'/><url><loc>http://e.org/1</loc><rs:md "
          "change='updated'/><t:data xmlns:t='" NS_TIDINGS "'>{</t:data>"
          "<t:title xmlns:t='" NS_TIDINGS "'> a </t:title></url></urlset>",
     "updated http://e.org/1 title=a\nlist changelist n=1\n"
     "mended: 1 attributes that do not belong there (\"{\", line 1)\n"},
    {LIST "'resourcelist'/><url><loc>http://e.org/1</loc><rs:md "
          "change='deleted'/></url></urlset>",
     "list resourcelist n=0\n"
     "left out: 1 with an unknown change (\"deleted\", line 1)\n"},
    /* */
    {CHANGE("deleted"), CHANGED("deleted")},
    {CHANGE("Deleted"),
     CHANGED("deleted") "mended: 1 words (\"Deleted\", line 1)\n"},
    {CHANGE("DELETE"),
     CHANGED("deleted") "mended: 1 words (\"DELETE\", line 1)\n"},
    {CHANGE("remove"),
     CHANGED("deleted") "mended: 1 words (\"remove\", line 1)\n"},
    {CHANGE("create"),
     CHANGED("created") "mended: 1 words (\"create\", line 1)\n"},
    {CHANGE("update"),
     CHANGED("updated") "mended: 1 words (\"update\", line 1)\n"},
    {CHANGE("moved"), "list changelist n=0\nleft out: 1 with an unknown change "
                      "(\"moved\", line 1)\n"},
    {LIST "'ChangeList'/></urlset>",
     "list changelist n=0\nmended: 1 words (\"ChangeList\", line 1)\n"},
    /* Times and words */
    {TIME("2026-01-08T00:00:00"),
     DATED("2026-01-08T00:00:00Z", "2026-01-08T00:00:00")},
    {TIME("2026-01-08 01:02"),
     DATED("2026-01-08T01:02:00Z", "2026-01-08 01:02")},
    {TIME("2026-01-08 01:02:03 +0100"),
     DATED("2026-01-08T00:02:03Z", "2026-01-08 01:02:03 +0100")},
    {TIME("2026-01-08 01:02:03 UTC"),
     DATED("2026-01-08T01:02:03Z", "2026-01-08 01:02:03 UTC")},
    {TIME("2026-01-08 01:02:03+00"),
     DATED("2026-01-08T01:02:03Z", "2026-01-08 01:02:03+00")},
    {TIME("2026/01/08"), DATED("2026-01-08", "2026/01/08")},
    {TIME("20260108"), DATED("2026-01-08", "20260108")},
    {TIME("Thu, 08 Jan 2026 01:02:03 GMT"),
     DATED("2026-01-08T01:02:03Z", "Thu, 08 Jan 2026 01:02:03 GMT")},
    {TIME("8 January 2026 01:02 -0500"),
     DATED("2026-01-08T06:02:00Z", "8 January 2026 01:02 -0500")},
    {TIME("November 2, 2026"),
     TOLD "mended: 1 times (\"November 2, 2026\", line 1)\n"},
    {TIME("0000-00-00"), TOLD "mended: 1 times (\"0000-00-00\", line 1)\n"},
    {TIME("-0001-11-30T00:00:00+00:00"),
     TOLD "mended: 1 times (\"-0001-11-30T00:00:00+00:00\", line 1)\n"},
    {TIME("2026-13-01"), TOLD "mended: 1 times (\"2026-13-01\", line 1)\n"},
    {TIME(""), TOLD "mended: 1 times (line 1)\n"},
    {SITEMAP "<url><loc>http://e.org/1</loc><changefreq>Daily</changefreq>"
             "<priority>1,0</priority></url></urlset>",
     "entry http://e.org/1 changefreq=daily priority=1.0\nlist - n=1\n"
     "mended: 2 words (\"Daily\", line 1)\n"},
    {SITEMAP "<url><loc>http://e.org/1</loc><changefreq>now</changefreq>"
             "<priority>high</priority></url></urlset>",
     TOLD "mended: 2 words (\"now\", line 1)\n"},
    {SITEMAP
     "<url><loc>http://e.org/1</loc><loc>http://e.org/2</loc></url></urlset>",
     TOLD "mended: 1 attributes that do not belong there (\"http://e.org/2\", "
          "line 1)\n"},
    /* Texts and feeds */
    {"http://e.org/1\r\n\r\n# more\r\nhttps://e.org/2?x=\xC3\xA9\r\nno URL",
     "entry http://e.org/1\nentry https://e.org/2?x=%C3%A9\nlist - n=2\n"
     "mended: 1 URLs (\"https://e.org/2?x=\xC3\xA9\", line 4)\n"
     "left out: 1 with a loc that is no URL of http or https (\"no URL\", "
     "line 5)\n"},
    {"\xEF\xBB\xBFhttp://e.org/1", TOLD},
    {"{\"a\": 1}", "neither XML nor a list of URLs"},
    {"Welcome!\nhttp://e.org/1\n", "neither XML nor a list of URLs"},
    {"<rss version='2.0'><channel><title>t</title><link>http://e.org/</link>"
     "<item><title>a</title><link>\nhttp://e.org/1\n</link>"
     "<pubDate>Mon, 02 Nov 2026 10:00:00 +0100</pubDate></item>"
     "<item><guid>http://e.org/2</guid></item>"
     "<item><guid isPermaLink='false'>http://e.org/3</guid></item>"
     "</channel></rss>",
     "entry http://e.org/1 lastmod=2026-11-02T09:00:00Z\n"
     "entry http://e.org/2\nlist - n=2\nleft out: 1 without a loc (line 3)\n"},
    {"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' "
     "xmlns='http://purl.org/rss/1.0/' "
     "xmlns:dc='http://purl.org/dc/elements/1.1/'>"
     "<channel><link>http://e.org/</link></channel><item><link>http://e.org/1"
     "</link><dc:date>2026-11-02</dc:date></item></rdf:RDF>",
     "entry http://e.org/1 lastmod=2026-11-02\nlist - n=1\n"},
    {"<feed xmlns='http://www.w3.org/2005/Atom' xml:base='http://e.org/f/'>"
     "<id>urn:x</id><link href='x'/><link rel='next' href='2'/>"
     "<entry xml:base='g/'><id>http://e.org/0</id><link rel='self' href='0'/>"
     "<link href='1'/><updated>2026-11-02T10:00:00Z</updated>"
     "<published>2025-11-02T10:00:00Z</published></entry>"
     "<entry><id>http://e.org/2</id><published>2025-11-02T10:00:00Z</published>"
     "</entry></feed>",
     "link next http://e.org/f/2\n"
     "entry http://e.org/f/g/1 lastmod=2026-11-02T10:00:00Z\n"
     "entry http://e.org/2 lastmod=2025-11-02T10:00:00Z\nlist - n=2\n"},
    {"<!DOCTYPE html><p>", "a DOCTYPE is not allowed"},
    {"<html><body/></html>",
     "no urlset and no sitemapindex, but the root: \"html\""},
};

TEST(lists_of_others_are_read_and_what_was_mended_or_left_out_is_told)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct told told;
        enum status rc = read_all_ways(&told, slice_of(shapes[i].document));

        if (strcmp(rc ? told.why.text : told.text.data, shapes[i].told))
            fail_msg("%s\n%s%s", shapes[i].document,
                     rc ? told.why.text : told.text.data, shapes[i].told);
        told_fini(&told);
    }
}

/* UTF-16 with and without a mark. */
TEST(utf_16_is_read)
{
    static const char text[] =
        "<?xml version='1.0' encoding='utf-16'?>\n" SITEMAP ONE "</urlset>";

    for (unsigned way = 0; way < 4; way++) {
        struct buf wide;
        struct told told;

        buf_init(&wide, SIZE_MAX);
        if (way & 1)
            buf_add(&wide, way & 2 ? "\xFF\xFE" : "\xFE\xFF", 2);
        for (size_t i = 0; i < sizeof(text) - 1; i++) {
            const char c[] = {way & 2 ? text[i] : '\0',
                              way & 2 ? '\0' : text[i]};

            buf_add(&wide, c, 2);
        }
        assert_int_equal(read_all_ways(&told, buf_slice(&wide)), 0);
        assert_non_null(
            strstr(told.text.data, TOLD "mended: 1 in another encoding"));
        told_fini(&told);
        buf_fini(&wide);
    }
}

/* the kind of a list is known. */
TEST(a_document_says_of_which_kind_it_is)
{
    static const struct {
        const char *document;
        enum document_kind kind;
    } rows[] = {
        {SITEMAP ONE "</urlset>", DOCUMENT_SITEMAP},
        {LIST "'resourcelist'/></urlset>", DOCUMENT_RESOURCESYNC},
        {"http://e.org/", DOCUMENT_TEXT},
        {"<rss><channel/></rss>", DOCUMENT_RSS},
        {"<feed xmlns='http://www.w3.org/2005/Atom'/>", DOCUMENT_ATOM},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct told told;

        assert_int_equal(
            told_read(&told, BASE, slice_of(rows[i].document), SIZE_MAX), 0);
        assert_string_equal(document_kind_name(told.head.kind),
                            document_kind_name(rows[i].kind));
        told_fini(&told);
    }
}

/* The names of a broker's resources are exact, whatever their scheme. */
TEST(names_in_a_document_of_tidings_stay_as_they_are)
{
    reads_as(OPEN "<rs:md capability=\"changelist\" "
                  "td:epoch=\"0123456789abcdef\"/>"
                  "<url><loc>http://example.com/\xc3\xa5</loc></url>"
                  "<url><loc>urn:tide:abc</loc></url>" CLOSE,
             "entry http://example.com/\xc3\xa5\nentry urn:tide:abc\n"
             "list changelist epoch=0123456789abcdef n=2\n");
}
