#include "proto/document.h"

#include "tests/test.h"
#include "tests/unit/proto/reading.h"

#define ROOT(name)                                           \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<" name     \
    " xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"" \
    " xmlns:rs=\"http://www.openarchives.org/rs/terms/\""    \
    " xmlns:td=\"urn:tidings:1\">\n"

static void
assert_holds(struct buf *b, const char *text)
{
    assert_false(b->failed);
    buf_add(b, "", 1);
    assert_string_equal(b->data, text);
    buf_clear(b);
}

/* */
TEST(writes_a_header_with_links_before_the_md)
{
    struct digest digest = {{0xab}};
    struct document_link links[] = {
        {"up", SLICE("http://example.com/c?a&b"), NULL},
        {"prev", SLICE("http://example.com/1"), &digest},
    };
    struct coverage coverage = {
        .epoch = "0123456789abcdef",
        .after = 6,
        .last = UINT64_MAX,
        .has_digest = true,
        .digest = digest,
        .now_us = DATETIME_NONE,
    };
    struct document_head head = {
        .root = DOCUMENT_URLSET,
        .capability = CAP_CHANGELIST,
        .links = links,
        .n_links = 2,
        .from_us = 0,
        .until_us = 1,
        .coverage = &coverage,
    };
    struct buf b;

    buf_init(&b, DOCUMENT_FRAME_MAX);
    document_header(&b, &head);
    document_footer(&b, DOCUMENT_URLSET);
    assert_holds(
        &b, ROOT("urlset") "<rs:ln rel=\"up\" "
                           "href=\"http://example.com/c?a&amp;b\"/>\n"
                           "<rs:ln rel=\"prev\" href=\"http://example.com/1\" "
                           "td:digest=\"sha-256:"
                           "ab0000000000000000000000000000000000000000000000000"
                           "0000000000000\"/>\n"
                           "<rs:md capability=\"changelist\" "
                           "from=\"1970-01-01T00:00:00.000000Z\""
                           " until=\"1970-01-01T00:00:00.000001Z\" "
                           "td:epoch=\"0123456789abcdef\""
                           " td:after=\"6\" td:last=\"18446744073709551615\" "
                           "td:digest=\"sha-256:"
                           "ab0000000000000000000000000000000000000000000000000"
                           "0000000000000\"/>\n"
                           "</urlset>\n");
    buf_fini(&b);
}

TEST(tells_the_clock_in_a_heartbeat)
{
    struct coverage coverage = {
        .now_us = 0,
        .heartbeat_us = 20500000,
    };
    struct document_head head = {
        .root = DOCUMENT_URLSET,
        .capability = CAP_CHANGE_NOTIFICATION,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
        .coverage = &coverage,
    };
    struct buf b;

    buf_init(&b, DOCUMENT_FRAME_MAX);
    document_header(&b, &head);
    assert_holds(
        &b,
        ROOT(
            "urlset") "<rs:md capability=\"change-notification\" td:after=\"0\""
                      " td:last=\"0\" td:now=\"1970-01-01T00:00:00.000000Z\""
                      " td:heartbeat=\"20.5\"/>\n");
    buf_fini(&b);
}

/* */
TEST(writes_entries_that_name_documents)
{
    struct document_head head = {
        .root = DOCUMENT_SITEMAPINDEX,
        .capability = CAP_CHANGELIST,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
    };
    struct document_entry entry = {
        .loc = SLICE("http://example.com/1"),
        .from_us = 0,
        .until_us = DATETIME_NONE,
    };
    struct buf b;

    buf_init(&b, DOCUMENT_FRAME_MAX);
    document_header(&b, &head);
    document_entry(&b, DOCUMENT_SITEMAPINDEX, &entry);
    document_footer(&b, DOCUMENT_SITEMAPINDEX);
    assert_holds(
        &b,
        ROOT("sitemapindex") "<rs:md capability=\"changelist\"/>\n"
                             "<sitemap><loc>http://example.com/1</loc><rs:md"
                             " from=\"1970-01-01T00:00:00.000000Z\"/></"
                             "sitemap>\n"
                             "</sitemapindex>\n");

    entry.from_us = DATETIME_NONE;
    document_entry(&b, DOCUMENT_URLSET, &entry);
    entry.has_capability = 1;
    entry.capability = CAP_CAPABILITYLIST;
    document_entry(&b, DOCUMENT_URLSET, &entry);
    assert_holds(&b, "<url><loc>http://example.com/1</loc></url>\n"
                     "<url><loc>http://example.com/1</loc><rs:md"
                     " capability=\"capabilitylist\"/></url>\n");
    buf_fini(&b);
}

TEST(keeps_a_frame_within_its_limit)
{
    static char href[700];
    struct digest digest = {{1}};
    struct document_link links[5];
    struct coverage coverage = {
        .epoch = "0123456789abcdef",
        .after = UINT64_MAX,
        .last = UINT64_MAX,
        .has_digest = true,
        .now_us = 0,
        .heartbeat_us = INT64_MAX,
    };
    struct document_head head = {
        .root = DOCUMENT_SITEMAPINDEX,
        .capability = CAP_FRAMEWORK_NOTIFICATION,
        .links = links,
        .n_links = 5,
        .from_us = 0,
        .until_us = 0,
        .coverage = &coverage,
    };
    struct buf b;

    memset(href, 'a', sizeof(href));
    for (size_t i = 0; i < 5; i++)
        links[i] = (struct document_link){
            "describedby", {href, sizeof(href)}, &digest};
    buf_init(&b, DOCUMENT_FRAME_MAX);
    document_header(&b, &head);
    document_footer(&b, DOCUMENT_SITEMAPINDEX);
    assert_false(b.failed);
    buf_fini(&b);
}

/* */
TEST(escapes_what_would_be_markup)
{
    struct buf b;

    buf_init(&b, 1000);
    xml_escape(&b, SLICE("a&<>\"'\t\r\n\xc3\xa5"));
    xml_escape(&b, (struct slice){NULL, 0});
    assert_holds(&b, "a&amp;&lt;&gt;&quot;'&#9;&#13;&#10;\xc3\xa5");
    buf_fini(&b);
}

TEST(reads_back_what_was_escaped)
{
    static const char text[] = "http://a/?b&c=<d>&amp;e;&\"'\t\r\n&";
    struct buf escaped, b;

    buf_init(&escaped, 1000);
    buf_init(&b, 1000);
    xml_escape(&escaped, SLICE(text));
    xml_unescape(&b, buf_slice(&escaped));
    assert_holds(&b, text);
    xml_unescape(&b, SLICE("a&nbsp;&am"));
    assert_holds(&b, "a&nbsp;&am");
    xml_unescape(&b, (struct slice){NULL, 0});
    buf_fini(&escaped);
    buf_fini(&b);
}

/* what a package is, where its manifest is. */
TEST(tells_what_a_package_is)
{
    struct document_bytes bytes = {.type = "application/zip", .length = 12};
    const struct document_link contents[] = {
        {"contents", SLICE("http://example.com/1-manifest.xml"), NULL,
         "application/xml"}};
    const struct document_entry entry = {
        .loc = SLICE("http://example.com/1.zip"),
        .from_us = 0,
        .until_us = DATETIME_NONE,
        .at_us = 1000000,
        .completed_us = 2000000,
        .bytes = &bytes,
        .links = contents,
        .n_links = 1,
    };
    struct buf b;

    digest_sha256(&bytes.sha256, SLICE("abc"));
    buf_init(&b, DOCUMENT_FRAME_MAX);
    document_entry(&b, DOCUMENT_URLSET, &entry);
    assert_holds(&b, "<url><loc>http://example.com/1.zip</loc><rs:md"
                     " at=\"1970-01-01T00:00:01.000000Z\""
                     " completed=\"1970-01-01T00:00:02.000000Z\""
                     " from=\"1970-01-01T00:00:00.000000Z\" hash=\"sha-256:"
                     "ba7816bf8f01cfea414140de5dae2223"
                     "b00361a396177a9cb410ff61f20015ad\" length=\"12\""
                     " type=\"application/zip\"/><rs:ln rel=\"contents\""
                     " href=\"http://example.com/1-manifest.xml\""
                     " type=\"application/xml\"/></url>\n");
    buf_fini(&b);
}

/* a link may tell the type of what is there, an entry
 * where it is described; what is not there is not written. */
TEST(links_tell_types_and_entries_where_they_are_described)
{
    const struct document_link link = {
        .rel = "urn:tidings:1:memory",
        .href = SLICE("http://example.com/m"),
        .type = "application/json",
    };
    const struct document_head head = {
        .root = DOCUMENT_URLSET,
        .capability = CAP_DESCRIPTION,
        .links = &link,
        .n_links = 1,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
    };
    const struct document_link about[] = {
        {"describedby", SLICE("http://example.com/about?a&b")}};
    const struct document_entry entry = {
        .loc = SLICE("http://example.com/c"),
        .has_capability = 1,
        .capability = CAP_CAPABILITYLIST,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
        .links = about,
        .n_links = 1,
    };
    struct buf b;

    buf_init(&b, DOCUMENT_FRAME_MAX);
    document_header(&b, &head);
    document_entry(&b, DOCUMENT_URLSET, &entry);
    document_footer(&b, DOCUMENT_URLSET);
    assert_holds(&b,
                 ROOT("urlset") "<rs:ln rel=\"urn:tidings:1:memory\" "
                                "href=\"http://example.com/m\" "
                                "type=\"application/json\"/>\n"
                                "<rs:md capability=\"description\"/>\n"
                                "<url><loc>http://example.com/c</loc>"
                                "<rs:md capability=\"capabilitylist\"/>"
                                "<rs:ln rel=\"describedby\" "
                                "href=\"http://example.com/about?a&amp;b\"/>"
                                "</url>\n</urlset>\n");
    buf_fini(&b);
}
