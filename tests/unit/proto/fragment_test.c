/*
 * fragment_test.c - an entry is written, stamped, and read back without
 * parsing.
 */
#include "proto/resourcesync/fragment.h"

#include <stdlib.h>

#include "proto/resourcesync/entry_builder.h"
#include "tests/support/stamped.h"
#include "tests/test.h"

static void
assert_stamped(const struct change *change, const char *expected)
{
    char *text = stamped_text(change, STAMPED_US, 7);

    assert_string_equal(text, expected);
    free(text);
}

/* the byte form that every list and message holds. */
TEST(writes_the_parts_of_an_entry_in_order)
{
    struct change change = stamped_sample();
    struct attribute attribute = {SLICE("http://example.org/x"), SLICE("x"),
                                  SLICE("id"), SLICE("\"4\"\t7\r\n")};
    struct link link = {
        .rel = SLICE("duplicate"),
        .href = SLICE("http://example.org/a&b"),
        .hash = SLICE("md5:d41d8cd98f00b204e9800998ecf8427e"),
        .type = SLICE("text/csv"),
        .encoding = SLICE("gzip"),
        .modified_us = STAMPED_US,
        .length = 0,
        .pri = 3,
        .attributes = &attribute,
        .n_attributes = 1,
    };

    change.datetime_us = INT64_C(1772323200000000);
    change.lastmod_us = STAMPED_US - 125000;
    change.changefreq = SLICE("daily");
    change.priority = SLICE("0.5");
    change.hash = SLICE("md5:d41d8cd98f00b204e9800998ecf8427e");
    change.length = 3;
    change.type = SLICE("text/csv; a=\"b\"");
    change.encoding = SLICE("br");
    change.tags = SLICE("b a");
    change.attributes = &attribute;
    change.n_attributes = 1;
    change.links = &link;
    change.n_links = 1;

    assert_stamped(
        &change,
        "<url><loc>http://example.com/a?b=1&amp;c=&lt;2&gt;</loc>"
        "<lastmod>2026-04-01T18:10:00Z</lastmod>"
        "<changefreq>daily</changefreq><priority>0.5</priority>"
        "<rs:md change=\"created\" datetime=\"2026-04-01T18:10:00.125000Z\""
        " td:seq=\"7\" td:datetime=\"2026-03-01T00:00:00Z\""
        " hash=\"md5:d41d8cd98f00b204e9800998ecf8427e\" length=\"3\""
        " type=\"text/csv; a=&quot;b&quot;\" encoding=\"br\" td:tags=\"b a\""
        " xmlns:x=\"http://example.org/x\""
        " x:id=\"&quot;4&quot;&#9;7&#13;&#10;\"/>"
        "<rs:ln rel=\"duplicate\" href=\"http://example.org/a&amp;b\""
        " modified=\"2026-04-01T18:10:00.125Z\" pri=\"3\""
        " hash=\"md5:d41d8cd98f00b204e9800998ecf8427e\" length=\"0\""
        " type=\"text/csv\" encoding=\"gzip\""
        " xmlns:x=\"http://example.org/x\""
        " x:id=\"&quot;4&quot;&#9;7&#13;&#10;\"/></url>\n");
}

/* Design section 1: td:datetime only where the event time is another. */
TEST(tells_the_sources_time_where_it_differs)
{
    struct change change = stamped_sample();

    change.loc = SLICE("http://example.com/a");
    assert_stamped(&change,
                   "<url><loc>http://example.com/a</loc><rs:md"
                   " change=\"created\""
                   " datetime=\"2026-04-01T18:10:00.125000Z\" td:seq=\"7\"/>"
                   "</url>\n");
    change.datetime_us = STAMPED_US;
    assert_stamped(&change,
                   "<url><loc>http://example.com/a</loc><rs:md"
                   " change=\"created\""
                   " datetime=\"2026-04-01T18:10:00.125000Z\" td:seq=\"7\"/>"
                   "</url>\n");
}

static struct attribute
attribute(const char *ns, const char *prefix, const char *name)
{
    return (struct attribute){slice_of(ns), slice_of(prefix), slice_of(name),
                              SLICE("v")};
}

/* the element is well-formed with any wished prefixes. */
TEST(gives_every_foreign_namespace_a_prefix_of_its_own)
{
    struct change change = stamped_sample();
    struct attribute attributes[] = {
        attribute("urn:1", "y", "a"),   attribute("urn:2", "y", "a"),
        attribute("urn:3", "", "a"),    attribute("urn:4", "rs", "a"),
        attribute("urn:5", "td", "a"),  attribute("urn:6", "xmlns", "a"),
        attribute("urn:7", "ns1", "a"), attribute("urn:1", "q", "b"),
        attribute(NS_XML, "z", "lang"), attribute("urn:8", "a b", "a"),
        attribute("urn:9", "xml", "a"), attribute("urn:10", "ns9", "a"),
    };

    change.loc = SLICE("http://example.com/a");
    change.attributes = attributes;
    change.n_attributes = sizeof(attributes) / sizeof(attributes[0]);
    assert_stamped(
        &change,
        "<url><loc>http://example.com/a</loc><rs:md change=\"created\""
        " datetime=\"2026-04-01T18:10:00.125000Z\" td:seq=\"7\""
        " xmlns:y=\"urn:1\" y:a=\"v\" xmlns:ns1=\"urn:2\" ns1:a=\"v\""
        " xmlns:ns2=\"urn:3\" ns2:a=\"v\" xmlns:ns3=\"urn:4\" ns3:a=\"v\""
        " xmlns:ns4=\"urn:5\" ns4:a=\"v\" xmlns:ns5=\"urn:6\" ns5:a=\"v\""
        " xmlns:ns6=\"urn:7\" ns6:a=\"v\" y:b=\"v\" xml:lang=\"v\""
        " xmlns:ns7=\"urn:8\" ns7:a=\"v\" xmlns:ns8=\"urn:9\" ns8:a=\"v\""
        " xmlns:ns9=\"urn:10\" ns9:a=\"v\"/></url>\n");
}

/* A generated prefix may already be in use by somebody. */
TEST(makes_up_no_prefix_that_is_taken)
{
    struct change change = stamped_sample();
    struct attribute attributes[] = {
        attribute("urn:1", "ns1", "a"),
        attribute("urn:2", "ns2", "a"),
        attribute("urn:3", "", "a"),
    };

    change.loc = SLICE("http://example.com/a");
    change.attributes = attributes;
    change.n_attributes = 3;
    assert_stamped(
        &change,
        "<url><loc>http://example.com/a</loc><rs:md change=\"created\""
        " datetime=\"2026-04-01T18:10:00.125000Z\" td:seq=\"7\""
        " xmlns:ns1=\"urn:1\" ns1:a=\"v\" xmlns:ns2=\"urn:2\" ns2:a=\"v\""
        " xmlns:ns3=\"urn:3\" ns3:a=\"v\"/></url>\n");
}

TEST(is_read_back_without_parsing)
{
    struct change change = stamped_sample();
    struct fragment_view view;
    struct slice text;
    char *bytes;

    change.kind = CHANGE_DELETED;
    change.lastmod_us = 0;
    change.datetime_us = 1;
    bytes = stamped_text(&change, STAMPED_US, UINT64_MAX);
    text = slice_of(bytes);

    assert_int_equal(fragment_view(text, &view), 0);
    assert_true(slice_is(view.loc, "http://example.com/a?b=1&amp;c=&lt;2&gt;"));
    assert_int_equal(view.kind, CHANGE_DELETED);
    assert_true(view.seq == UINT64_MAX);
    assert_true(view.us == STAMPED_US);
    assert_int_equal(view.size, text.size);
    assert_memory_equal(bytes + view.stamp, " datetime=\"", 11);
    assert_true(fragment_time(bytes, view.stamp) == STAMPED_US);
    free(bytes);
}

/* hash and length of the bytes. */
TEST(tells_of_the_bytes_without_parsing)
{
    struct change change = stamped_sample();
    struct fragment_view view;
    struct slice hash;
    uint64_t length;
    char *text = stamped_text(&change, STAMPED_US, 7);

    assert_int_equal(fragment_view(slice_of(text), &view), STATUS_OK);
    fragment_bytes(slice_of(text), view.stamp, &hash, &length);
    assert_int_equal(hash.size, 0);
    assert_true(length == LENGTH_NONE);
    free(text);

    change.hash = SLICE("md5:d41d8cd98f00b204e9800998ecf8427e sha-1:b");
    change.length = 0;
    change.type = SLICE("text/plain; hash=\"a\" length=\"7\"");
    text = stamped_text(&change, STAMPED_US, 7);
    assert_int_equal(fragment_view(slice_of(text), &view), STATUS_OK);
    fragment_bytes(slice_of(text), view.stamp, &hash, &length);
    assert_true(slice_equal(hash, change.hash));
    assert_int_equal(length, 0);
    free(text);
}

TEST(sees_where_a_fragment_ends)
{
    struct change change = stamped_sample();
    char *one = stamped_text(&change, STAMPED_US, 1);
    size_t size = strlen(one);
    struct fragment_view view;
    struct buf two;

    buf_init(&two, 10000);
    buf_add(&two, one, size);
    buf_add(&two, one, size);
    assert_int_equal(fragment_view(buf_slice(&two), &view), 0);
    assert_int_equal(view.size, size);
    buf_fini(&two);
    free(one);
}

/* again.h compares fragment_read with the XML parser, for every entry of
 * roundtrip_test and of the fuzz targets of the readers. These are fragments
 * that it refuses. */
TEST(refuses_to_read_what_was_not_stamped)
{
#define LINE(md, rest)                                                    \
    "<url><loc>http://h/a</loc><rs:md change=\"created\""                 \
    " datetime=\"2026-04-01T18:10:00.125000Z\" td:seq=\"7\"" md "/>" rest \
    "</url>\n"

    static const struct {
        const char *text;
        enum status rc;
    } rows[] = {
        {LINE("", ""), STATUS_OK},
        {LINE(" xmlns:a=\"urn:a\" a:b=\"1\" a:c=\"2\"", ""), STATUS_OK},
        {LINE("", "<rs:ln rel=\"via\" href=\"u\"/>"), STATUS_OK},
        {LINE(" a:b=\"1\"", ""), STATUS_MALFORMED}, /* not declared */
        {LINE(" xmlns:a=\"urn:a\" a:b=\"1\"", "<rs:ln a:b=\"1\"/>"),
         STATUS_MALFORMED}, /* not on this element */
        {LINE(" odd=\"1\"", ""), STATUS_MALFORMED},
        {LINE(" length=\"-1\"", ""), STATUS_MALFORMED},
        {LINE("", "<rs:ln rel=\"via\" pri=\"0\"/>"), STATUS_MALFORMED},
        {LINE("", "<rs:ln rel=\"via\" modified=\"now\"/>"), STATUS_MALFORMED},
        {LINE("", "<odd/>"), STATUS_MALFORMED},
        {LINE("", "<td:title>a</td:title><td:data>[]</td:data>"), STATUS_OK},
        {LINE("", "<td:data>[]</td:data><td:title>a</td:title>"),
         STATUS_MALFORMED},
        {LINE("", "<td:data>[&#10;]</td:data>"), STATUS_MALFORMED},
        {LINE("", "<td:title>a</td:title><td:title>b</td:title>"),
         STATUS_MALFORMED},
        /* what a later version may have written is passed over */
        {LINE(" td:odd=\"1\"",
              "<td:odd/><rs:ln rel=\"via\" href=\"u\" td:odd=\"\"/>"
              "<td:title>a</td:title><td:odd>a</td:odd>"
              "<td:odd td:a=\"b\"><td:title>b</td:title></td:odd>"
              "<td:data>[]</td:data><td:odd td:a=\"b\"/>"),
         STATUS_OK},
        {LINE("", "<td:odd>a"), STATUS_MALFORMED},
        {LINE("", "<td:odd>a</td:od>"), STATUS_MALFORMED},
        {LINE("", "") "\n", STATUS_MALFORMED},
        {"<url><loc>u</loc><rs:md change=\"created\"/></url>\n",
         STATUS_MALFORMED}, /* not stamped */
        {"<url><loc>u</loc><rs:md td:seq=\"7\"/></url>\n", STATUS_MALFORMED},
        {"<url><rs:md change=\"created\" td:seq=\"7\"/></url>\n",
         STATUS_MALFORMED},
    };

#undef LINE
    struct entry entry;

    entry_init(&entry);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (fragment_read(&entry, slice_of(rows[i].text)) != rows[i].rc)
            fail_msg("%s", rows[i].text);
    entry_fini(&entry);
}

/* A fragment that was cut or overwritten gives no view and no change, and no
 * reader looks beyond its bytes. */
TEST(does_not_take_anything_else_for_a_fragment)
{
    struct attribute attributes[] = {attribute("urn:1", "y", "a"),
                                     attribute("urn:1", "y", "b"),
                                     attribute(NS_XML, "xml", "lang")};
    struct link link = {
        .rel = SLICE("duplicate"),
        .href = SLICE("http://example.org/a&b"),
        .modified_us = STAMPED_US,
        .pri = 3,
        .attributes = attributes,
        .n_attributes = 3,
    };
    struct change change = stamped_sample();
    char *whole;
    size_t size;
    struct fragment_view view;
    struct entry entry;

    entry_init(&entry);
    change.datetime_us = 1;
    change.lastmod_us = 2;
    change.length = 1;
    change.links = &link;
    change.n_links = 1;
    whole = stamped_text(&change, STAMPED_US, 12);
    size = strlen(whole);
    for (size_t n = 0; n < size; n++) {
        char *part = malloc(n + 1);

        assert_non_null(part);
        memcpy(part, whole, n);
        assert_int_equal(fragment_view((struct slice){part, n}, &view),
                         STATUS_MALFORMED);
        assert_int_equal(fragment_read(&entry, (struct slice){part, n}),
                         STATUS_MALFORMED);
        part[n] = '\n';
        if (n + 1 < size)
            assert_int_equal(fragment_view((struct slice){part, n + 1}, &view),
                             STATUS_MALFORMED);
        free(part);
    }
    for (size_t n = 0; n < size; n++) {
        char *copy = malloc(size);

        assert_non_null(copy);
        memcpy(copy, whole, size);
        for (const char *c = "\n\"<&=:"; *c; c++) {
            copy[n] = *c;
            (void)!fragment_view((struct slice){copy, size}, &view);
            (void)!fragment_read(&entry, (struct slice){copy, size});
        }
        free(copy);
    }
    assert_int_equal(fragment_view((struct slice){NULL, 0}, &view),
                     STATUS_MALFORMED);
    assert_int_equal(fragment_view(SLICE("<url><loc></url>\n"), &view),
                     STATUS_MALFORMED);
    entry_fini(&entry);
    free(whole);
}

TEST(refuses_an_entry_that_is_too_long)
{
    static char value[FRAGMENT_MAX];
    struct change change = stamped_sample();
    struct attribute a = attribute("urn:1", "y", "a");
    struct problem why = {""};
    struct fragment f;
    struct buf b;

    memset(value, '&', sizeof(value));
    a.value = (struct slice){value, sizeof(value) / 5};
    change.attributes = &a;
    change.n_attributes = 1;
    buf_init(&b, 4 * FRAGMENT_MAX);
    BUF_ADD(&b, "x");

    assert_int_equal(fragment_write(&b, &change, &f, &why), STATUS_INVALID);
    assert_true(why.text[0]);
    assert_int_equal(b.size, 1);

    a.value.size -= 80;
    assert_int_equal(fragment_write(&b, &change, &f, &why), 0);
    assert_true(f.size + FRAGMENT_STAMP_MAX <= FRAGMENT_MAX);
    buf_fini(&b);
}

TEST(leaves_a_full_buffer_as_it_was)
{
    struct change change = stamped_sample();
    struct fragment f;
    struct buf b;

    buf_init(&b, 200);
    assert_int_equal(fragment_write(&b, &change, &f, NULL), 0);
    assert_int_equal(fragment_write(&b, &change, &f, NULL), 0);
    assert_int_equal(fragment_write(&b, &change, &f, NULL), STATUS_BUSY);
    assert_int_equal(b.size, 2 * f.size);
    assert_false(b.failed);
    buf_fini(&b);
}
