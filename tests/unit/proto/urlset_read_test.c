#include "tests/test.h"
#include "tests/unit/proto/reading.h"

#define URL(inside) \
    XML_HEAD "<url><loc>http://example.com/a</loc>" inside "</url></urlset>"
#define MD(attributes) URL("<rs:md change='updated' " attributes "/>")

static void
assert_bad(const char *document, const char *sentence)
{
    assert_refused(XML, document, STATUS_INVALID, sentence);
}

static void
assert_malformed(const char *document, const char *sentence)
{
    assert_refused(XML, document, STATUS_MALFORMED, sentence);
}

/* Of urn:tidings:1 only the tags are the source's to say (design section 4). */
TEST(drops_what_is_the_brokers_to_say)
{
    assert_reads(XML,
                 MD("td:seq='bad' td:datetime='bad' td:tags=' b&#10; a ' "
                    "td:zzz='1' xml:lang='en'"),
                 "updated [http://example.com/a] tags=[b a]"
                 " {http://www.w3.org/XML/1998/namespace}lang=[en]\n");
}

/* Words of the event may stand anywhere among the elements of an entry. */
TEST(refuses_words_that_are_none)
{
    static char document[2000], title[CHANGE_TITLE_MAX + 2];

    assert_bad(URL("<rs:md change='updated'/><td:title>a</td:title>"
                   "<td:title>b</td:title>"),
               "more than one title");
    assert_bad(URL("<rs:md change='updated'/><td:title x:a='1'>a</td:title>"),
               "title: attribute \"x:a\" is not allowed");
    assert_bad(URL("<rs:md change='updated'/><td:title><x:b/></td:title>"),
               "the element b may not stand here");
    assert_bad(URL("<rs:md change='updated'/><td:data>{\"a\":}</td:data>"),
               "data: not JSON: no value where one must be");
    assert_bad(URL("<rs:md change='updated'/><td:data>1 2</td:data>"), NULL);
    assert_bad(URL("<rs:md change='updated'/><td:data>\"\\u0001\"</td:data>"),
               "data: a character that XML cannot carry: \"?\"");
    assert_bad(URL("<rs:md change='updated'/>"
                   "<td:data>[[[[[[[[[[[[[0]]]]]]]]]]]]]</td:data>"),
               "data: nested deeper than 12");
    memset(title, 'a', CHANGE_TITLE_MAX + 1);
    snprintf(document, sizeof(document),
             URL("<rs:md change='updated'/><td:title> %s </td:title>"), title);
    assert_bad(document, "title: 501 bytes, more than 500");
}

/* an attribute's value arrives as it was meant. */
TEST(decodes_references_in_attributes)
{
    assert_reads(XML, MD("x:a='&amp;&lt;&#38;&quot;&#xe5;&#10;'"),
                 "updated [http://example.com/a]"
                 " {http://example.org/x}a=[&<&\"\xc3\xa5\n]\n");
}

/* */
TEST(refuses_what_stands_in_the_wrong_place)
{
    assert_bad(MD("path='/a'"),
               "rs:md: attribute \"path\" is not for a change");
    assert_bad(MD("capability='changelist'"), NULL);
    assert_bad(MD("rs:hash='a'"),
               "rs:md: attribute \"rs:hash\" must not have a prefix");
    assert_bad(URL("<priority>0.5</priority><priority>0.5</priority>"),
               "more than one priority");
    assert_bad(URL("<name>x</name>"), "the element name may not stand here");
    assert_bad(URL("<rs:zz/>"), "the element rs:zz may not stand here");
    assert_bad(URL("<a xmlns=''/>"), NULL);
    assert_bad(XML_HEAD "<url xmlns=''><loc>http://example.com/a</loc>"
                        "<rs:md change='created'/></url></urlset>",
               "the element url may not stand here");
    assert_bad(XML_HEAD "<url><loc xmlns=''>http://example.com/a</loc>"
                        "<rs:md change='created'/></url></urlset>",
               "the element loc may not stand here");
    assert_bad(URL("text<rs:md change='updated'/>"),
               "text between elements: \"text\"");
    assert_bad(URL("<rs:md change='updated'><rs:ln/></rs:md>"), NULL);
    assert_bad(URL("<lastmod x:a='1'>2026</lastmod>"),
               "lastmod: attribute \"x:a\" is not allowed");
    assert_bad(URL("<lastmod><x:a/>2026</lastmod>"), NULL);
    assert_bad(XML_HEAD "text</urlset>", NULL);
    assert_bad(XML_HEAD "<loc>http://example.com/a</loc></urlset>", NULL);
    assert_bad(XML_HEAD "<rs:ln rel='up'/></urlset>", "rs:ln: no href");
    assert_bad(URL("<rs:md change='updated'/></url>"
                   "<rs:ln rel='up' href='http://example.com/'/><url>"),
               "rs:ln of the document after its first entry");
    assert_bad("<urlset xmlns='" NS_SITEMAP "'><url>"
               "<loc>http://example.com/a</loc></url></urlset>",
               "no rs:md with a capability before the first entry");
    assert_bad("<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS
               "'><rs:md/></urlset>",
               "rs:md: no capability");
}

/* Of any kind: so there are no entities, and none that reads a file or asks a
 * server. */
TEST(refuses_every_doctype_and_entity)
{
    static const char *const doctypes[] = {
        "<!DOCTYPE urlset>",
        "<!DOCTYPE urlset SYSTEM 'http://example.com/a.dtd'>",
        "<!DOCTYPE urlset [<!ENTITY a 'b'>]>",
        "<!DOCTYPE urlset [<!ENTITY a SYSTEM 'file:///etc/passwd'>]>",
        "<!DOCTYPE urlset [<!ENTITY % a SYSTEM 'http://example.com/'> %a;]>",
    };
    char text[500];

    for (size_t i = 0; i < sizeof(doctypes) / sizeof(doctypes[0]); i++) {
        snprintf(text, sizeof(text), "%s%s", doctypes[i],
                 URL("<rs:md change='updated'/>"));
        assert_malformed(text, "a DOCTYPE is not allowed");
    }
    assert_malformed(URL("<lastmod>&a;</lastmod>"), NULL);
}

TEST(refuses_bad_values_with_a_sentence)
{
    assert_bad(
        MD("length='9223372036854775808'"),
        "length: not a number of bytes, such as 1024: \"9223372036854775808\"");
    assert_bad(MD("length='+1'"), NULL);
    assert_bad(MD("type=''"),
               "type: empty; it is a string, such as \"text/html\"");
    assert_bad(MD("hash=' '"),
               "hash: empty; such as md5:d41d8cd98f00b204e9800998ecf8427e");
    assert_bad(URL("<rs:md/>"), "no change: created, updated or deleted?");
    assert_bad(URL(""), NULL);
    assert_bad(URL("<rs:md change='gone'/>"),
               "change: not created, updated or deleted: \"gone\"");
    assert_bad(
        URL("<changefreq>often</changefreq>"
            "<rs:md change='created'/>"),
        "changefreq: not always, hourly, daily, weekly, monthly, yearly or "
        "never: \"often\"");
    assert_bad(URL("<changefreq/><rs:md change='created'/>"),
               "changefreq: empty; it is a string, such as \"daily\"");
    assert_bad(XML_HEAD "</urlset>", "no entries");
    assert_malformed("", NULL);
    assert_reads(XML, MD("length='9223372036854775807'"),
                 "updated [http://example.com/a] length=9223372036854775807\n");
}

/* */
TEST(refuses_what_is_not_utf_8)
{
    static const char utf16[] = "\xfe\xff\0<\0u\0r\0l";

    for (size_t step = 1; step < sizeof(utf16); step++) {
        struct reading reading = read_steps(
            XML, INPUT_POST, (struct slice){utf16, sizeof(utf16) - 1}, step);

        assert_int_equal(reading.rc, STATUS_MALFORMED);
        reading_fini(&reading);
    }
    assert_malformed("<?xml version='1.0' encoding='iso-8859-1'?><a/>",
                     "the encoding is not UTF-8: \"iso-8859-1\"");
    assert_malformed("<?xml version='1.0' encoding='utf-16'?><a/>", NULL);
    assert_malformed("<?xml version='1.0' encoding='shift_jis'?>\x81\xff",
                     NULL);
    assert_malformed("<?xml version='1.0' encoding='us-ascii'?>\xc3\xa5", NULL);
    assert_reads(XML,
                 "<?xml version='1.0' encoding='us-ascii'?>" MD("length='1'"),
                 "updated [http://example.com/a] length=1\n");
}

/* right in every other way, with and without a byte order mark. */
TEST(refuses_a_whole_document_in_utf_16)
{
    static const char document[] = MD("length='1'");
    char bytes[2 * sizeof(document)] = "\xff\xfe";

    for (size_t i = 0; i < sizeof(document) - 1; i++) {
        bytes[2 + 2 * i] = document[i];
        bytes[3 + 2 * i] = '\0';
    }
    for (size_t start = 0; start <= 2; start += 2) {
        struct reading reading = read_all(
            XML, (struct slice){bytes + start, sizeof(bytes) - 2 - start});

        assert_int_equal(reading.rc, STATUS_MALFORMED);
        assert_string_equal(reading.why.text, "the encoding is not UTF-8");
        reading_fini(&reading);
    }
}

/* foreign elements are skipped, but not without end. */
TEST(limits_how_deep_elements_nest)
{
    for (int deep = 0; deep < 2; deep++) {
        struct reading reading;
        struct buf b;

        /* urlset is the first of 32. */
        buf_init(&b, 100000);
        buf_add_text(&b, XML_HEAD);
        for (int i = 0; i < 31 + deep; i++)
            BUF_ADD(&b, "<x:a>");
        for (int i = 0; i < 31 + deep; i++)
            BUF_ADD(&b, "</x:a>");
        for (int i = 0; i < 100; i++)
            BUF_ADD(&b, "<x:b><x:c/></x:b>");
        BUF_ADD(&b, "<url><loc>http://example.com/a</loc>"
                    "<rs:md change='updated'/></url></urlset>");
        reading = read_all(XML, buf_slice(&b));
        assert_string_equal(reading.why.text,
                            deep ? "elements nest deeper than 32" : "");
        reading_fini(&reading);
        buf_fini(&b);
    }
}

/* */
TEST(takes_errors_of_namespaces_for_malformed)
{
    assert_malformed(MD("zz:a='1'"), NULL);
    assert_malformed(URL("<zz:a/><rs:md change='created'/>"), NULL);
    assert_malformed(MD("x:a='1' xmlns:y='http://example.org/x' y:a='1'"),
                     NULL);
}

/* the answer says which entry and where. */
TEST(says_which_entry_and_line_is_wrong)
{
    static const char document[] =
        XML_HEAD "\n<url><loc>http://example.com/a</loc>"
                 "<rs:md change='created'/></url>\n"
                 "<url>\n<loc>/b</loc>\n<rs:md change='created'/></url>\n"
                 "</urlset>";
    struct problem why = assert_refused(
        XML, document, STATUS_INVALID,
        "loc: not an absolute URI, such as http://example.com/a: \"/b\"");

    assert_int_equal(why.entry, 2);
    assert_int_equal(why.line, 5);
}

/* */
TEST(refuses_times_outside_the_interval)
{
    static const char head[] =
        "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS "'>"
        "<rs:md capability='changelist' from='2026-01-01T00:00:00Z' "
        "until='2026-01-02T00:00:00Z'/><url><loc>http://example.com/a</loc>"
        "<rs:md change='created' datetime='%s'/></url></urlset>";
    char document[1024];

    snprintf(document, sizeof(document), head, "2025-12-31T23:59:59.999999Z");
    assert_bad(document, "datetime: before the document's from");
    snprintf(document, sizeof(document), head, "2026-01-02T00:00:00.000001Z");
    assert_bad(document, "datetime: after the document's until");
    snprintf(document, sizeof(document), head, "2026-01-02T00:00:00Z");
    assert_reads(XML, document,
                 "created [http://example.com/a]"
                 " datetime=[2026-01-02T00:00:00Z]\n");
    snprintf(document, sizeof(document), head, "2026-01-01T00:00:00Z");
    assert_reads(XML, document,
                 "created [http://example.com/a]"
                 " datetime=[2026-01-01T00:00:00Z]\n");
}

/* */
TEST(refuses_an_interval_that_ends_before_it_begins)
{
    assert_bad("<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS
               "'><rs:md capability='changelist' "
               "from='2026-01-02T00:00:00Z' until='2026-01-01T00:00:00Z'/>"
               "</urlset>",
               "until: before from");
}

/* Members of our own documents that sources do not write. */
TEST(reads_coverage_and_stamps_of_a_message)
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
    struct reading reading = read_steps(XML, INPUT_MESSAGE, SLICE(document), 1);

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

TEST(refuses_coverage_that_is_none)
{
    static const char *const bad[] = {
        "td:epoch='0123456789ABCDEF'",
        "td:epoch='0'",
        "td:after='-1'",
        "td:last='x'",
        "td:digest='md5:'",
        "td:now='2026'",
        "td:heartbeat='1s'",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char document[1024];
        struct reading reading;

        snprintf(document, sizeof(document),
                 "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS
                 "' xmlns:td='" NS_TIDINGS
                 "'><rs:md capability='changelist' %s/></urlset>",
                 bad[i]);
        reading = read_steps(XML, INPUT_MESSAGE, slice_of(document), 1000);
        if (reading.rc != STATUS_INVALID)
            fail_msg("accepted %s", bad[i]);
        reading_fini(&reading);
    }
}

/* */
TEST(reads_a_list_without_entries_as_a_message_only)
{
    struct slice bytes = examples_load("change-list-empty.xml");
    struct reading post = read_all(XML, bytes);
    struct reading message = read_steps(XML, INPUT_MESSAGE, bytes, bytes.size);

    assert_int_equal(post.rc, STATUS_INVALID);
    assert_int_equal(message.rc, STATUS_OK);
    assert_int_equal(message.n, 0);
    assert_int_equal(message.capability, CAP_CHANGELIST);
    reading_fini(&post);
    reading_fini(&message);
    free((char *)bytes.data);
}

/* "]]>" in text is not well-formed, wherever the bytes are cut (found by
 * fuzz/urlset_read: the parser takes long text as it comes). */
TEST(refuses_the_end_of_a_cdata_section_in_text)
{
    static const char *const texts[] = {"]]>", "]]]>", "]]>]]", "a]]]]]]>"};
    static const char *const good[] = {
        "]]&gt;",         "]>", "]]", "]]]", "]&#93;>", "<![CDATA[]]]>",
        "]<![CDATA[]>]]>"};
    struct buf b;

    buf_init(&b, 1 << 20);
    for (size_t i = 0;
         i < sizeof(texts) / sizeof(texts[0]) + sizeof(good) / sizeof(good[0]);
         i++) {
        bool is_good = i >= sizeof(texts) / sizeof(texts[0]);
        const char *text =
            is_good ? good[i - sizeof(texts) / sizeof(texts[0])] : texts[i];

        buf_clear(&b);
        buf_add_text(&b, XML_HEAD "<url><loc>http://example.com/");
        for (int n = 0; n < 600; n++)
            BUF_ADD(&b, "a");
        buf_add_text(&b, text);
        for (int n = 0; n < 20; n++)
            BUF_ADD(&b, "a");
        BUF_ADD(&b, "</loc><rs:md change='created'/></url></urlset>");
        for (size_t step = 1; step <= b.size; step++) {
            struct reading reading =
                read_steps(XML, INPUT_POST, buf_slice(&b), step);

            if (reading.rc != (is_good ? STATUS_OK : STATUS_MALFORMED))
                fail_msg("\"%s\" in steps of %d: %d %s", text, (int)step,
                         (int)reading.rc, reading.why.text);
            reading_fini(&reading);
        }
    }
    buf_fini(&b);
}

/* The problem distinguishes an empty or cut body from one with text behind its
 * end. */
TEST(says_that_a_document_ends_too_early)
{
    static const char *const early[] = {
        "",
        " \n",
        "\xef\xbb\xbf",
        "<",
        "<!-- nothing -->",
        "<?xml version='1.0'?>",
        XML_HEAD,
        XML_HEAD "<url><loc>http://example.com/a",
    };

    for (size_t i = 0; i < sizeof(early) / sizeof(early[0]); i++)
        assert_malformed(early[i],
                         "not well-formed: it ends before its root does");
    assert_malformed(XML_HEAD "</urlset><a/>",
                     "not well-formed: Extra content at the end of the "
                     "document");
}
