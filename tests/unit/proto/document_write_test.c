#include "proto/resourcesync/document_write.h"

#include "tests/test.h"

static const struct digest digest = {{0xab}};

#define DIGEST                                \
    "td:digest=\"sha-256:ab00000000000000000" \
    "000000000000000000000000000000000000000000000\""

static int
set_buf(void **state)
{
    static struct buf b;

    buf_init(&b, DOCUMENT_FRAME_MAX);
    *state = &b;
    return 0;
}

static int
clear_buf(void **state)
{
    buf_fini(*state);
    return 0;
}

/* Asserts that `b` holds exactly `text`, and clears it. */
static void
assert_holds(struct buf *b, const char *text)
{
    assert_false(b->failed);
    buf_add(b, "", 1);
    assert_string_equal(b->data, text);
    buf_clear(b);
}

/* The same for a document: `text` is what follows the tag of the root
 * `root`. */
static void
assert_document(struct buf *b, const char *root, const char *text)
{
    struct buf whole;

    buf_init(&whole, DOCUMENT_FRAME_MAX);
    buf_add_format(&whole,
                   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<%s"
                   " xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\""
                   " xmlns:rs=\"http://www.openarchives.org/rs/terms/\""
                   " xmlns:td=\"urn:tidings:1\">\n%s",
                   root, text);
    BUF_ADD(&whole, "\0");
    assert_holds(b, whole.data);
    buf_fini(&whole);
}

/* A head without times. */
static struct document_head
head_of(enum document_root root, enum capability capability)
{
    return (struct document_head){
        .root = root,
        .capability = capability,
    };
}

FIXTURE(set_buf, clear_buf);

/* */
TEST(writes_a_header_with_links_before_the_md)
{
    const struct document_link links[] = {
        {"up", SLICE("http://example.com/c?a&b"), NULL},
        {"index", SLICE("")}, /* has no href: there is none */
        {"prev", SLICE("http://example.com/1"), &digest},
    };
    const struct coverage coverage = {
        .epoch = "0123456789abcdef",
        .after = 6,
        .last = UINT64_MAX,
        .has_digest = true,
        .digest = digest,
        .now_us = DATETIME_NONE,
    };
    struct document_head head = head_of(DOCUMENT_URLSET, CAP_CHANGELIST);

    head.links = links;
    head.n_links = N_ELEMENTS(links);
    head.from_us = 1;
    head.until_us = 2;
    head.coverage = &coverage;
    document_header(*state, &head);
    document_footer(*state, DOCUMENT_URLSET);
    assert_document(
        *state, "urlset",
        "<rs:ln rel=\"up\" href=\"http://example.com/c?a&amp;b\"/>\n"
        "<rs:ln rel=\"prev\" href=\"http://example.com/1\" " DIGEST "/>\n"
        "<rs:md capability=\"changelist\" from=\"1970-01-01T00:00:00.000001Z\""
        " until=\"1970-01-01T00:00:00.000002Z\" td:epoch=\"0123456789abcdef\""
        " td:after=\"6\" td:last=\"18446744073709551615\" " DIGEST "/>\n"
        "</urlset>\n");
}

TEST(tells_the_clock_in_a_heartbeat)
{
    const struct coverage coverage = {.now_us = 1, .heartbeat_us = 20500000};
    struct document_head head =
        head_of(DOCUMENT_URLSET, CAP_CHANGE_NOTIFICATION);

    head.coverage = &coverage;
    document_header(*state, &head);
    assert_document(*state, "urlset",
                    "<rs:md capability=\"change-notification\" td:after=\"0\""
                    " td:last=\"0\" td:now=\"1970-01-01T00:00:00.000001Z\""
                    " td:heartbeat=\"20.5\"/>\n");
}

/* */
TEST(writes_entries_that_name_documents)
{
    const struct document_head head =
        head_of(DOCUMENT_SITEMAPINDEX, CAP_CHANGELIST);
    struct document_entry entry = {
        .loc = SLICE("http://example.com/1"),
        .from_us = 1,
        .until_us = DATETIME_NONE,
    };

    document_header(*state, &head);
    document_entry(*state, DOCUMENT_SITEMAPINDEX, &entry);
    document_footer(*state, DOCUMENT_SITEMAPINDEX);
    assert_document(*state, "sitemapindex",
                    "<rs:md capability=\"changelist\"/>\n"
                    "<sitemap><loc>http://example.com/1</loc><rs:md"
                    " from=\"1970-01-01T00:00:00.000001Z\"/></sitemap>\n"
                    "</sitemapindex>\n");

    entry.from_us = 0;
    entry.at_us = DATETIME_NONE;
    document_entry(*state, DOCUMENT_URLSET, &entry);
    entry.has_capability = 1;
    entry.capability = CAP_CAPABILITYLIST;
    document_entry(*state, DOCUMENT_URLSET, &entry);
    assert_holds(*state, "<url><loc>http://example.com/1</loc></url>\n"
                         "<url><loc>http://example.com/1</loc><rs:md"
                         " capability=\"capabilitylist\"/></url>\n");
}

TEST(keeps_a_frame_within_its_limit)
{
    static char href[700];
    struct document_link links[5];
    const struct coverage coverage = {
        .epoch = "0123456789abcdef",
        .after = UINT64_MAX,
        .last = UINT64_MAX,
        .has_digest = true,
        .now_us = 1,
        .heartbeat_us = INT64_MAX,
    };
    const struct document_head head = {
        .root = DOCUMENT_SITEMAPINDEX,
        .capability = CAP_FRAMEWORK_NOTIFICATION,
        .links = links,
        .n_links = 5,
        .coverage = &coverage,
    };
    struct buf *b = *state;

    memset(href, 'a', sizeof(href));
    for (size_t i = 0; i < 5; i++)
        links[i] = (struct document_link){
            "describedby", {href, sizeof(href)}, &digest};
    document_header(b, &head);
    document_footer(b, DOCUMENT_SITEMAPINDEX);
    assert_false(b->failed);
}

/* */
TEST(escapes_what_would_be_markup)
{
    xml_escape(*state, SLICE("a&<>\"'\t\r\n\xc3\xa5"));
    xml_escape(*state, (struct slice){NULL, 0});
    assert_holds(*state, "a&amp;&lt;&gt;&quot;'&#9;&#13;&#10;\xc3\xa5");
}

TEST(reads_back_what_was_escaped)
{
    static const char text[] = "http://a/?b&c=<d>&amp;e;&\"'\t\r\n&";
    struct buf escaped;

    buf_init(&escaped, 1000);
    xml_escape(&escaped, SLICE(text));
    xml_unescape(*state, buf_slice(&escaped));
    assert_holds(*state, text);
    xml_unescape(*state, SLICE("a&nbsp;&am"));
    assert_holds(*state, "a&nbsp;&am");
    xml_unescape(*state, (struct slice){NULL, 0});
    buf_fini(&escaped);
}

/* a package's attributes, and the place of its
 * manifest. */
TEST(tells_what_a_package_is)
{
    struct document_bytes bytes = {.type = "application/zip", .length = 12};
    const struct document_link contents[] = {
        {"contents", SLICE("http://example.com/1-manifest.xml"), NULL,
         "application/xml"}};
    const struct document_entry entry = {
        .loc = SLICE("http://example.com/1.zip"),
        .from_us = 1,
        .until_us = DATETIME_NONE,
        .at_us = 1000000,
        .completed_us = 2000000,
        .bytes = &bytes,
        .links = contents,
        .n_links = 1,
    };

    digest_sha256(&bytes.sha256, SLICE("abc"));
    document_entry(*state, DOCUMENT_URLSET, &entry);
    assert_holds(*state, "<url><loc>http://example.com/1.zip</loc><rs:md"
                         " at=\"1970-01-01T00:00:01.000000Z\""
                         " completed=\"1970-01-01T00:00:02.000000Z\""
                         " from=\"1970-01-01T00:00:00.000001Z\" hash=\"sha-256:"
                         "ba7816bf8f01cfea414140de5dae2223"
                         "b00361a396177a9cb410ff61f20015ad\" length=\"12\""
                         " type=\"application/zip\"/><rs:ln rel=\"contents\""
                         " href=\"http://example.com/1-manifest.xml\""
                         " type=\"application/xml\"/></url>\n");
}

/* a link may state the type of its target, an entry where
 * it is described; a missing fact is not written. */
TEST(links_tell_types_and_entries_where_they_are_described)
{
    const struct document_link link = {
        .rel = "urn:tidings:1:memory",
        .href = SLICE("http://example.com/m"),
        .type = "application/json",
    };
    struct document_head head = head_of(DOCUMENT_URLSET, CAP_DESCRIPTION);
    const struct document_link about[] = {
        {"describedby", SLICE("http://example.com/about?a&b")}};
    const struct document_entry entry = {
        .loc = SLICE("http://example.com/c"),
        .has_capability = 1,
        .capability = CAP_CAPABILITYLIST,
        .links = about,
        .n_links = 1,
    };

    head.links = &link;
    head.n_links = 1;
    document_header(*state, &head);
    document_entry(*state, DOCUMENT_URLSET, &entry);
    document_footer(*state, DOCUMENT_URLSET);
    assert_document(
        *state, "urlset",
        "<rs:ln rel=\"urn:tidings:1:memory\" href=\"http://example.com/m\""
        " type=\"application/json\"/>\n"
        "<rs:md capability=\"description\"/>\n"
        "<url><loc>http://example.com/c</loc>"
        "<rs:md capability=\"capabilitylist\"/>"
        "<rs:ln rel=\"describedby\""
        " href=\"http://example.com/about?a&amp;b\"/></url>\n</urlset>\n");
}
