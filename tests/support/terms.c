#include "tests/support/terms.h"

#include "proto/resourcesync/vocab.h"

/* The prefix "ours" is that of our own namespace, the others are foreign. */
#define XML_HEAD                                            \
    "<?xml version='1.0' encoding='UTF-8'?>\n"              \
    "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS       \
    "' xmlns:ours='" NS_TIDINGS "' xmlns:x='urn:foreign:x'" \
    " xmlns:y='http://example.org/y?a=1&amp;b=%20#f'"       \
    " xmlns:ns1='urn:foreign:ns1'>\n"                       \
    "<rs:md capability='changelist'/>\n"

#define TRACE "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
#define MD5   "d41d8cd98f00b204e9800998ecf8427e"
#define SHA1  "da39a3ee5e6b4b0d3255bfef95601890afd80709"
#define SHA256 \
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* A link with only rel and href, and one with something more. */
#define LN(rel, href)                                                   \
    .after = "<rs:ln rel='" rel "' href='" href "'/>",                  \
    .json = ",\"links\":[{\"rel\":\"" rel "\",\"href\":\"" href "\"}]", \
    .told = "\n  " rel " [" href "]"

#define LN_TYPE(rel, href, type)                                       \
    .after = "<rs:ln rel='" rel "' type='" type "' href='" href "'/>", \
    .json = ",\"links\":[{\"rel\":\"" rel "\",\"href\":\"" href        \
            "\",\"type\":\"" type "\"}]",                              \
    .told = "\n  " rel " [" href "] type=[" type "]"

#define LASTMOD(given, taken)                 \
    .before = "<lastmod>" given "</lastmod>", \
    .json = ",\"lastmod\":\"" given "\"", .told = " lastmod=[" taken "]"

#define CHANGEFREQ(word)                           \
    .before = "<changefreq>" word "</changefreq>", \
    .json = ",\"changefreq\":\"" word "\"", .told = " changefreq=[" word "]"

#define PRIORITY(number)                         \
    .before = "<priority>" number "</priority>", \
    .json = ",\"priority\":" number, .told = " priority=[" number "]"

#define HASH(xml, json_, told_)                              \
    .md = "hash='" xml "'", .json = ",\"hash\":{" json_ "}", \
    .told = " hash=[" told_ "]"

const struct term terms[] = {
    {.change = "created", .json = "", .told = ""},
    {.change = "updated", .json = "", .told = ""},
    {.change = "deleted", .json = "", .told = ""},

    /* R-012, R-013, R-144: every precision of W3C Datetime. A date stays one,
     * also the first day of a year or a month; a time is complete and in UTC
     * (R-383). */
    {LASTMOD("2000", "2000-01-01")},
    {LASTMOD("2000-02", "2000-02-01")},
    {LASTMOD("2000-02-29", "2000-02-29")},
    {LASTMOD("2000-02-29T23:59Z", "2000-02-29T23:59:00Z")},
    {LASTMOD("2000-02-29T23:59-00:30", "2000-03-01T00:29:00Z")},
    {LASTMOD("2000-02-29T23:59:58Z", "2000-02-29T23:59:58Z")},
    {LASTMOD("2000-03-01T05:29:58+05:30", "2000-02-29T23:59:58Z")},
    {LASTMOD("2000-02-29T23:59:58.5Z", "2000-02-29T23:59:58.5Z")},
    {LASTMOD("2000-02-29T23:59:58.123456Z", "2000-02-29T23:59:58.123456Z")},
    {LASTMOD("2000-02-29T23:59:58.1000000Z", "2000-02-29T23:59:58.1Z")},
    {LASTMOD("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z")},
    {LASTMOD("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z")},

    /* R-021 */
    {CHANGEFREQ("always")},
    {CHANGEFREQ("hourly")},
    {CHANGEFREQ("daily")},
    {CHANGEFREQ("weekly")},
    {CHANGEFREQ("monthly")},
    {CHANGEFREQ("yearly")},
    {CHANGEFREQ("never")},
    {PRIORITY("0.0")},
    {PRIORITY("0.5")},
    {PRIORITY("0.125")},
    {PRIORITY("1.0")},
    {PRIORITY("1")},

    /* R-017 */
    {HASH("md5:" MD5, "\"md5\":\"" MD5 "\"", "md5:" MD5)},
    {HASH("sha-1:" SHA1, "\"sha-1\":\"" SHA1 "\"", "sha-1:" SHA1)},
    {HASH("sha-256:" SHA256, "\"sha-256\":\"" SHA256 "\"", "sha-256:" SHA256)},
    {HASH("sha-256:" SHA256 "\n\tmd5:" MD5 " sha-1:" SHA1,
          "\"sha-256\":\"" SHA256 "\",\"md5\":\"" MD5 "\",\"sha-1\":\"" SHA1
          "\"",
          "sha-256:" SHA256 " md5:" MD5 " sha-1:" SHA1)},
    /* I-04 */
    {HASH("sha256:" SHA256, "\"sha256\":\"" SHA256 "\"", "sha-256:" SHA256)},
    {HASH("sha1:" SHA1, "\"sha1\":\"" SHA1 "\"", "sha-1:" SHA1)},

    /* R-018, R-022, R-023 */
    {.md = "length='0'", .json = ",\"length\":0", .told = " length=0"},
    {.md = "length='9223372036854775807'",
     .json = ",\"length\":9223372036854775807",
     .told = " length=9223372036854775807"},
    {.md = "type='application/vnd.api+json; charset=\"utf-8\"'",
     .json = ",\"type\":\"application/vnd.api+json; charset=\\\"utf-8\\\"\"",
     .told = " type=[application/vnd.api+json; charset=\"utf-8\"]"},
    {.md = "encoding='gzip'",
     .json = ",\"encoding\":\"gzip\"",
     .told = " encoding=[gzip]"},
    {.md = "encoding='br, gzip'",
     .json = ",\"encoding\":\"br, gzip\"",
     .told = " encoding=[br, gzip]"},

    /* R-240, R-241, R-242, R-243, R-244, R-245, R-246, R-247, R-248, R-249,
       R-250, and relations that are not in Z39.99 */
    {LN("duplicate", "http://mirror.example.org/a")},
    {.after = "<rs:ln rel='duplicate' pri='1' href='http://example.org/1'/>"
              "<rs:ln pri='999999' href='http://example.org/2'"
              " rel='duplicate'/>"
              "<rs:ln rel='duplicate' pri='2' href='ftp://example.org/3'/>",
     .json = ",\"links\":[{\"rel\":\"duplicate\",\"pri\":1,\"href\":"
             "\"http://example.org/1\"},{\"pri\":999999,\"href\":"
             "\"http://example.org/2\",\"rel\":\"duplicate\"},{\"rel\":"
             "\"duplicate\",\"href\":\"ftp://example.org/3\",\"pri\":2}]",
     .told = "\n  duplicate [http://example.org/1] pri=1"
             "\n  duplicate [http://example.org/2] pri=999999"
             "\n  duplicate [ftp://example.org/3] pri=2"},
    {LN_TYPE("alternate", "http://example.com/a.pdf", "application/pdf")},
    {LN("canonical", "http://example.com/a")},
    {LN_TYPE("http://www.openarchives.org/rs/terms/patch",
             "http://example.com/a.patch", "application/patch-ops+json")},
    {LN("describedby", "http://example.com/a.xml")},
    {LN("describes", "http://example.com/a")},
    {LN("profile", "http://purl.org/dc/terms/")},
    {.after = "<rs:ln rel='memento' href='http://example.com/v/1'"
              " modified='2013-01-02T18:00:00+01:00'/>",
     .json = ",\"links\":[{\"rel\":\"memento\",\"href\":"
             "\"http://example.com/v/1\",\"modified\":"
             "\"2013-01-02T18:00:00+01:00\"}]",
     .told = "\n  memento [http://example.com/v/1]"
             " modified=[2013-01-02T17:00:00Z]"},
    {LN("timegate", "http://example.com/timegate/a")},
    {LN_TYPE("timemap", "http://example.com/timemap/a",
             "application/link-format")},
    {LN("collection", "http://example.com/aggregation/1")},
    {LN("via", "http://original.example.com/a")},
    {LN("hosts", "urn:isbn:9780201633610")},
    {LN("http://example.com/relation#own", "tag:example.com,2026:a")},
    {.after = "<rs:ln rel='alternate' hash='md5:" MD5 " sha256:" SHA256
              "' length='8876' type='text/html' encoding='gzip' pri='7'"
              " modified='2013-01-02T18:00:00Z' href='http://example.com/b'/>",
     .json = ",\"links\":[{\"rel\":\"alternate\",\"hash\":{\"md5\":\"" MD5
             "\",\"sha256\":\"" SHA256 "\"},\"length\":8876,\"type\":"
             "\"text/html\",\"encoding\":\"gzip\",\"pri\":7,\"modified\":"
             "\"2013-01-02T18:00:00Z\",\"href\":\"http://example.com/b\"}]",
     .told =
         "\n  alternate [http://example.com/b] pri=7"
         " modified=[2013-01-02T18:00:00Z] hash=[md5:" MD5 " sha-256:" SHA256
         "] length=8876 type=[text/html] encoding=[gzip]"},

    /* R-005, R-253: foreign attributes, in order, on both elements */
    {.md = "x:one='1' y:one='2' xml:lang='sv' x:two='' ns1:one='3'",
     .json = ",\"attributes\":[{\"ns\":\"urn:foreign:x\",\"name\":\"one\","
             "\"value\":\"1\"},{\"ns\":\"http://example.org/y?a=1&b=%20#"
             "f\",\"name\":\"one\",\"value\":\"2\"},{\"ns\":\"" NS_XML
             "\",\"name\":\"lang\",\"value\":\"sv\"},{\"ns\":\"urn:foreign:x\","
             "\"name\":\"two\",\"value\":\"\"},{\"ns\":\"urn:foreign:ns1\","
             "\"name\":\"one\",\"value\":\"3\"}]",
     .told = " {urn:foreign:x}one=[1] {http://example.org/y?a=1&b=%20#f"
             "}one=[2] {" NS_XML "}lang=[sv] {urn:foreign:x}two=[]"
             " {urn:foreign:ns1}one=[3]"},
    {.after = "<rs:ln rel='via' href='http://example.com/a' y:b='2' x:a='1'/>"
              "<rs:ln x:\xc3\xa5='\xc3\xa4' rel='via' href='urn:b'/>",
     .json = ",\"links\":[{\"rel\":\"via\",\"href\":\"http://example.com/a\","
             "\"attributes\":[{\"ns\":\"http://example.org/y?a=1&b=%20#f"
             "\",\"name\":\"b\",\"value\":\"2\"},{\"value\":\"1\","
             "\"name\":\"a\",\"ns\":\"urn:foreign:x\"}]},{\"rel\":\"via\","
             "\"href\":\"urn:b\",\"attributes\":[{\"ns\":\"urn:foreign:x\","
             "\"name\":\"\\u00e5\",\"value\":\"\\u00e4\"}]}]",
     .told = "\n  via [http://example.com/a] {http://example.org/y?a=1&b=%20#f"
             "}b=[2] {urn:foreign:x}a=[1]"
             "\n  via [urn:b] {urn:foreign:x}\xc3\xa5=[\xc3\xa4]"},

    /* R-024: text that XML or JSON has to escape; beyond the BMP; white space
     * and line ends that readers of XML would normalise */
    {.md = "x:v='&amp;&lt;&gt;&quot;&apos;&#38;amp; \\ /'",
     .json = ",\"attributes\":[{\"ns\":\"urn:foreign:x\",\"name\":\"v\","
             "\"value\":\"&<>\\\"'&amp; \\\\ \\/\"}]",
     .told = " {urn:foreign:x}v=[&<>\"'&amp; \\ /]"},
    {.md = "x:v=' &#9;&#10;&#13;  &#x7f;&#x85;&#x2028; '",
     .json = ",\"attributes\":[{\"ns\":\"urn:foreign:x\",\"name\":\"v\","
             "\"value\":\" \\t\\n\\r  \\u007f\\u0085\\u2028 \"}]",
     .told = " {urn:foreign:x}v=[ \t\n\r  \x7f\xc2\x85\xe2\x80\xa8 ]"},
    {.md = "x:v='\xf0\x9f\x8c\x8a&#x1F30A;&#xFFFD;&#x10FFFD;\xef\xbb\xbf'",
     .json = ",\"attributes\":[{\"ns\":\"urn:foreign:x\",\"name\":\"v\","
             "\"value\":\"\\ud83c\\udf0a\xf0\x9f\x8c\x8a\\ufffd\\udbff\\udffd"
             "\\ufeff\"}]",
     .told = " {urn:foreign:x}v=[\xf0\x9f\x8c\x8a\xf0\x9f\x8c\x8a\xef\xbf\xbd"
             "\xf4\x8f\xbf\xbd\xef\xbb\xbf]"},
    {.after = "<rs:ln rel='via'"
              " href='http://example.com/?a=1&amp;b=\"&lt;&apos;&gt;%26\xc3\xa5"
              "\xf0\x9f\x8c\x8a'/>",
     .json = ",\"links\":[{\"rel\":\"via\",\"href\":\"http://example.com/?a=1&"
             "b=\\\"<'>%26\\u00e5\\ud83c\\udf0a\"}]",
     .told = "\n  via [http://example.com/?a=1&b=\"<'>%26\xc3\xa5"
             "\xf0\x9f\x8c\x8a]"},

    /* R-348: of our own namespace, tags alone */
    {.md = "ours:tags='tide  \n north-sea &amp;\xc3\xa5'",
     .json = ",\"tags\":[\"tide\",\"north-sea\",\"&\\u00e5\"]",
     .told = " tags=[tide north-sea &\xc3\xa5]"},
    {.md = "ours:seq='9' ours:datetime='2001-01-01T00:00:00Z' ours:new='?'",
     .json = ",\"seq\":9,\"sourceDatetime\":\"2001-01-01T00:00:00Z\","
             "\"attributes\":[{\"ns\":\"" NS_TIDINGS "\",\"name\":\"new\","
             "\"value\":\"?\"}]",
     .told = ""},

    /* Words of the event, and data that become compact */
    {.after = "<ours:title>\n Tide &amp; \"time\" ]] </ours:title>"
              "<ours:summary>1&#10;2&#9;<![CDATA[<b>]]></ours:summary>"
              "<ours:author>\xc3\xa5\xf0\x9f\x8c\x8a \\</ours:author>",
     .json = ",\"title\":\" Tide & \\\"time\\\" ]]\\n\",\"summary\":"
             "\"1\\n2\\t<b>\",\"author\":\"\\u00e5\\ud83c\\udf0a \\\\\"",
     .told = " title=[Tide & \"time\" ]]] summary=[1\n2\t<b>]"
             " author=[\xc3\xa5\xf0\x9f\x8c\x8a \\]"},
    {.before = "<ours:data> { \"b\" : 3.50,\n\"a\":[ 1E+9 , -0, [ ] , { } ],"
               "\t\"\\u0041\": \"&lt;&amp;&gt;\\u0009\\/ ]]\"}</ours:data>",
     .json = ",\"data\": {\"b\" :3.50 ,\"a\":[1E+9,-0,[ ],{ }],\"A\":"
             "\"<&>\\t/ ]]\" }",
     .told = " data=[{\"b\":3.50,\"a\":[1E+9,-0,[],{}],\"A\":"
             "\"<&>\\u0009/ ]]\"}]"},
    {.after = "<ours:data>\"\"</ours:data><ours:other/>",
     .json = ",\"data\":\"\"",
     .told = " data=[\"\"]"},
    {.change = "deleted",
     .after = "<ours:data>[[[[[[[[[[[[0]]]]]]]]]]]]</ours:data>",
     .json = ",\"data\":[[[[[[[[[[[[0]]]]]]]]]]]],\"title\":null",
     .told = " data=[[[[[[[[[[[[[0]]]]]]]]]]]]]"},
    {.after = "<ours:data>false</ours:data><ours:title/>",
     .json = ",\"data\":false,\"title\":\" \"",
     .told = " data=[false]"},
    {.after = "<ours:data>null</ours:data>",
     .json = ",\"data\":null",
     .told = ""},

    /* A trace; one of another form is none */
    {.md = " ours:traceparent='" TRACE "' type='text/csv'",
     .json = ",\"traceparent\":\"" TRACE "\",\"type\":\"text/csv\"",
     .told = " type=[text/csv] traceparent=[" TRACE "]"},
    {.md = " ours:traceparent='" TRACE "0'",
     .json = ",\"traceparent\":\"" TRACE "0\"",
     .told = ""},
    {.md = " ours:traceparent='00'",
     .json = ",\"traceparent\":\"00\"",
     .told = ""},

    /* All at once, in an order of its own */
    {.change = "created",
     .before = "<priority>0.9</priority><lastmod>2026-04-01</lastmod>"
               "<changefreq>daily</changefreq>",
     .md = "x:a='1' encoding='gzip' ours:tags='t' type='text/csv'"
           " hash='md5:" MD5 "' length='3' y:b='2'",
     .after = "<ours:data>{\"a\":1}</ours:data>"
              "<ours:title>T</ours:title><ours:author>A</ours:author>"
              "<ours:summary>S</ours:summary>"
              "<rs:ln href='http://example.com/z' rel='via'/>"
              "<rs:ln href='http://example.com/y' rel='describedby'/>"
              "<rs:ln href='http://example.com/x' rel='via' x:c='3'/>",
     .json = ",\"data\":{\"a\":1},\"summary\":\"S\",\"author\":\"A\","
             "\"title\":\"T\",\"priority\":0.9,\"lastmod\":\"2026-04-01\","
             "\"changefreq\":"
             "\"daily\",\"links\":[{\"href\":\"http://example.com/z\",\"rel\":"
             "\"via\"},{\"href\":\"http://example.com/y\",\"rel\":"
             "\"describedby\"},{\"href\":\"http://example.com/x\",\"rel\":"
             "\"via\",\"attributes\":[{\"ns\":\"urn:foreign:x\",\"name\":\"c\","
             "\"value\":\"3\"}]}],\"attributes\":[{\"ns\":\"urn:foreign:x\","
             "\"name\":\"a\",\"value\":\"1\"},{\"ns\":\"http://example.org/y"
             "?a=1&b=%20#f\",\"name\":\"b\",\"value\":\"2\"}],"
             "\"encoding\":\"gzip\",\"tags\":[\"t\"],\"type\":\"text/csv\","
             "\"hash\":{\"md5\":\"" MD5 "\"},\"length\":3",
     .told = " lastmod=[2026-04-01] changefreq=[daily]"
             " priority=[0.9] hash=[md5:" MD5 "] length=3 type=[text/csv]"
             " encoding=[gzip] tags=[t] {urn:foreign:x}a=[1]"
             " {http://example.org/y?a=1&b=%20#f}b=[2]"
             "\n  via [http://example.com/z]"
             "\n  describedby [http://example.com/y]"
             "\n  via [http://example.com/x] {urn:foreign:x}c=[3] title=[T]"
             " summary=[S] author=[A] data=[{\"a\":1}]"},
};

const size_t n_terms = sizeof(terms) / sizeof(terms[0]);

static const char *
or_nothing(const char *text)
{
    return text ? text : "";
}

static const char *
change_of(const struct term *t)
{
    return t->change ? t->change : "updated";
}

static void
add_xml(struct buf *to, size_t i)
{
    const struct term *t = &terms[i];

    buf_add_format(to,
                   "<url><loc>http://example.com/term/%zu</loc>%s"
                   "<rs:md change='%s' %s/>%s</url>\n",
                   i, or_nothing(t->before), change_of(t), or_nothing(t->md),
                   or_nothing(t->after));
}

void
terms_json(struct buf *to, size_t i)
{
    const struct term *t = &terms[i];

    buf_add_format(
        to, "{\"loc\":\"http://example.com/term/%zu\",\"change\":\"%s\"%s}", i,
        change_of(t), t->json);
}

void
terms_told(struct buf *to, size_t i)
{
    const struct term *t = &terms[i];

    buf_add_format(to, "%s [http://example.com/term/%zu]%s\n", change_of(t), i,
                   t->told);
}

void
terms_xml_document(struct buf *to)
{
    buf_add_text(to, XML_HEAD);
    for (size_t i = 0; i < n_terms; i++)
        add_xml(to, i);
    buf_add_text(to, "</urlset>\n");
}

void
terms_json_document(struct buf *to)
{
    for (size_t i = 0; i < n_terms; i++) {
        buf_add_text(to, i == 0 ? "[" : ",\n ");
        terms_json(to, i);
    }
    buf_add_text(to, "]\n");
}

void
terms_ndjson_document(struct buf *to)
{
    for (size_t i = 0; i < n_terms; i++) {
        terms_json(to, i);
        buf_add_text(to, "\n");
    }
}

void
terms_told_all(struct buf *to)
{
    for (size_t i = 0; i < n_terms; i++)
        terms_told(to, i);
}
