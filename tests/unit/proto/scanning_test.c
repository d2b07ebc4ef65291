#include "proto/resourcesync/xml.h"
#include "tests/test.h"
#include "tests/unit/proto/reading.h"

/* Reads it with a scanner and by the library alone. The readings say the same;
 * in pieces, a refusal may have another reason. */
static void
check_scanner(const char *type, struct slice document, size_t step)
{
    struct reading scanned, plain;

    xml_scan_switch(true);
    scanned = read_steps(type, INPUT_POST, document, step);
    xml_scan_switch(false);
    plain = read_all(type, document);
    xml_scan_switch(true);
    if (!scanned.rc != !plain.rc)
        fail_msg("%.*s in pieces of %zu: %s, but %s", SLICE_ARG(document), step,
                 scanned.why.text, plain.why.text);
    if (!plain.rc)
        assert_string_equal(scanned.text.data, plain.text.data);
    if (step >= document.size) {
        assert_int_equal(scanned.rc, plain.rc);
        assert_string_equal(scanned.why.text, plain.why.text);
        assert_int_equal(scanned.why.entry, plain.why.entry);
        assert_int_equal(scanned.why.line, plain.why.line);
    }
    reading_fini(&scanned);
    reading_fini(&plain);
}

#define HEAD                                                  \
    "<urlset xmlns=\"" NS_SITEMAP "\" xmlns:rs=\"" NS_RS "\"" \
    " xmlns:td=\"" NS_TIDINGS "\">"                           \
    "<rs:md capability=\"changelist\"/>\n"
#define E(content) "<url>" content "</url>"
#define LOC        "<loc>http://example.com/a</loc>"
#define MD(more)   "<rs:md change=\"created\"" more "/>"

TEST(scanners_of_xml_say_what_libxml2_does)
{
    static const char *const entries[] = {
        E(LOC MD("")),
        E("\n" LOC " \t" MD(" length=\"1\"\n") "\n") "\n" E(LOC MD("")),
        E(LOC MD("") MD("")),
        E(LOC LOC MD("")),
        E(LOC),
        E(MD("")),
        E("<loc/>" MD("")),
        E("<loc></loc>" MD("")),
        E("<loc> http://example.com/\xc3\xa9&amp;b </loc>" MD("")),
        E("<loc>http://example.com/\xc3</loc>" MD("")),
        E("<loc>http://example.com/&b;</loc>" MD("")),
        E("<loc>http://example.com/]]></loc>" MD("")),
        E("<loc>http://example.com/<b/></loc>" MD("")),
        E("<loc>http://example.com/</lok>" MD("")),
        E("<loc a=\"b\">http://example.com/</loc>" MD("")),
        E(LOC MD(" type='text/xml'")),
        E(LOC MD(" type=\"text/xml\"hash=\"\"")),
        E(LOC MD(" type=\"a/b\" type=\"a/b\"")),
        E(LOC MD(" type=\"a/b&quot;\"")),
        E(LOC MD(" type=\"a/b<\"")),
        E(LOC MD(" type=\"\"")),
        E(LOC MD(" rel=\"up\"")),
        E(LOC MD(" lastmod=\"2026\"")),
        E(LOC MD(" td:tags=\"a\"")),
        E(LOC MD(" capability=\"a\"")),
        E(LOC MD("") "<rs:ln rel=\"up\" href=\"u:v\" pri=\"1\"/>"),
        E(LOC MD("") "<rs:ln rel=\"up\" change=\"created\"/>"),
        E(LOC MD("") "<lastmod>2026</lastmod><priority>1.0</priority>"),
        E(LOC MD("") "<lastmod>2026-13</lastmod>"),
        E(LOC MD("") "<td:title> a&amp;\"b ]</td:title><td:summary>s"
                     "</td:summary><td:author>\xc3\xa5</td:author>"
                     "<td:data>{\"a\": [1]}</td:data>"),
        E("<td:data>{\"a\":\"&lt;]]&gt;\"}</td:data>" LOC MD("")),
        E(LOC MD("") "<td:data>{</td:data>"),
        E(LOC MD("") "<td:title>]]></td:title>"),
        E(LOC MD("") "<td:title>a</td:title><td:title>a</td:title>"),
        E(LOC MD("") "<td:other>a</td:other>"),
        E(LOC MD("") "<td:title a=\"b\">a</td:title>"),
        E(LOC MD("") "<td:titles>a</td:titles>"),
        E(LOC MD("") "<!-- --><changefreq>daily</changefreq>") E(LOC MD("")),
        E(LOC MD("") "text"),
        E(LOC MD("") "<rs:md>"),
        E(LOC "<rs:md change=\"created\"></rs:md>"),
        "<url >" LOC MD("") "</url>",
        E(LOC MD("")) "\n" E(LOC MD("")) "<rs:ln/>",
        E(LOC MD("")) "<url>",
        E(LOC MD("")) "</url>",
        E(LOC MD("")) "x",
    };
    char document[1024];

    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
        for (size_t step = 1; step < 1000; step += step < 20 ? 1 : 97) {
            snprintf(document, sizeof(document), HEAD "%s\n</urlset>",
                     entries[i]);
            check_scanner(XML, slice_of(document), step);
        }
}

/* An entry that is longer than what a scanner holds goes to the library. */
TEST(scanners_leave_long_entries_that_come_in_pieces)
{
    static char filler[4300];
    struct buf xml;

    memset(filler, 'x', sizeof(filler));
    buf_init(&xml, 1 << 20);
    for (size_t size = 3900; size < sizeof(filler); size += 13) {
        buf_clear(&xml);
        BUF_ADD(&xml, HEAD E(LOC MD("")) "<url>" LOC "<rs:md change=\"created\""
                                         " encoding=\"");
        buf_add(&xml, filler, size);
        BUF_ADD(&xml, "\"/></url>" E(LOC MD("")) "</urlset>");
        for (size_t step = 100; step <= 9000; step *= 3)
            check_scanner(XML, buf_slice(&xml), step);
    }
    buf_fini(&xml);
}
