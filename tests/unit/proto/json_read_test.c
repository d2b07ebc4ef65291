#include "proto/resourcesync/json.h"
#include "tests/test.h"
#include "tests/unit/proto/reading.h"

#define A "\"loc\":\"http://example.com/a\",\"change\":\"created\""

static void
assert_bad(const char *document, const char *sentence)
{
    assert_refused(JSON, document, STATUS_INVALID, sentence);
}

static struct problem
assert_malformed(const char *document, const char *sentence)
{
    return assert_refused(JSON, document, STATUS_MALFORMED, sentence);
}

/* Every refusal of a type says what the value has to be, with an example. */
TEST(refusals_of_types_have_an_example)
{
    static const char *const of_change[] = {
        "loc",      "change",   "datetime",   "sourceDatetime", "lastmod",
        "priority", "tags",     "changefreq", "links",          "title",
        "summary",  "author",   "seq",        "hash",           "length",
        "type",     "encoding", "attributes"};
    static const char *const of_others[][2] = {
        {"links", "rel"},       {"links", "href"},    {"links", "pri"},
        {"links", "modified"},  {"links", "hash"},    {"links", "length"},
        {"attributes", "name"}, {"attributes", "ns"}, {"attributes", "value"},
    };
    static const char *const values[] = {"1",           "\"x\"", "true",
                                         "{\"md5\":1}", "[1]",   "[[]]"};
    size_t n = sizeof(of_change) / sizeof(of_change[0]);

    for (size_t i = 0; i < n + sizeof(of_others) / sizeof(of_others[0]); i++)
        for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
            struct reading r;
            char text[200];

            if (i < n)
                snprintf(text, sizeof(text), "[{\"%s\":%s}]", of_change[i],
                         values[k]);
            else
                snprintf(text, sizeof(text), "[{\"%s\":[{\"%s\":%s}]}]",
                         of_others[i - n][0], of_others[i - n][1], values[k]);
            r = read_steps(JSON, INPUT_POST, slice_of(text), 7);
            assert_int_equal(r.rc, STATUS_INVALID);
            if (strstr(r.why.text, ": must ") &&
                !strstr(r.why.text, ", such as ") &&
                !strstr(r.why.text, "\"created\", \"updated\" or"))
                fail_msg("%s: %s", text, r.why.text);
            if ((values[k][0] == 't' || values[k][0] == '{') &&
                !strstr(r.why.text, ": must "))
                fail_msg("%s: %s", text, r.why.text);
            reading_fini(&r);
        }
}

/* As XML writes it: by an entry and by a link. */
TEST(reads_a_hash_as_text)
{
    static const char document[] =
        "{\"loc\":\"http://example.com/a\",\"change\":\"updated\","
        "\"hash\":\"md5:d41d8cd98f00b204e9800998ecf8427e  sha256:"
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\","
        "\"links\":[{\"rel\":\"duplicate\",\"href\":\"http://example.com/b\","
        "\"hash\":\"" HASH_EXAMPLE "\"}]}";
    static const char hash[] =
        "md5:d41d8cd98f00b204e9800998ecf8427e sha-256:"
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    struct reading r = read_steps(JSON, INPUT_POST, slice_of(document), 7);

    assert_string_equal(r.why.text, "");
    assert_non_null(memmem(r.text.data, r.text.size, hash, sizeof(hash) - 1));
    reading_fini(&r);
    assert_bad("{\"loc\":\"http://example.com/a\",\"change\":\"updated\","
               "\"hash\":\"crc:1\"}",
               "hash: unknown algorithm \"crc\"; md5, sha-1 and sha-256 are "
               "known, such as " HASH_EXAMPLE);
}

/* Design section 4 */
TEST(reads_every_member)
{
    static const char document[] =
        "[{\"loc\":\"http://example.com/\\u00e5\\\"\",\"change\":\"updated\","
        "\"datetime\":\"2026-04-01T18:10:00Z\",\"lastmod\":\"2026\","
        "\"hash\":{\"sha256\":\"abababababababababababababababab"
        "abababababababababababababababab\","
        "\"md5\":\"d41d8cd98f00b204e9800998ecf8427e\"},"
        "\"length\":9223372036854775807,\"type\":\"text/csv\","
        "\"encoding\":\"gzip\",\"changefreq\":\"daily\",\"priority\":0.5,"
        "\"tags\":[\"b\",\"a\"],\"seq\":7,\"sourceDatetime\":\"x\","
        "\"links\":[{\"rel\":\"via\",\"href\":\"http://example.com/b\","
        "\"pri\":1,\"modified\":\"2026-04-01T18:10:00Z\","
        "\"hash\":{\"md5\":\"d41d8cd98f00b204e9800998ecf8427e\"},"
        "\"length\":0,\"type\":\"a/b\",\"encoding\":\"br\","
        "\"attributes\":[{\"ns\":\"urn:x\",\"name\":\"n\",\"value\":\"\"}]}],"
        "\"attributes\":[{\"name\":\"m\",\"value\":\"1\",\"ns\":\"urn:y\"},"
        "{\"ns\":\"urn:tidings:1\",\"name\":\"seq\",\"value\":\"1\"}]},"
        "{" A ",\"priority\":\"1.0\",\"links\":[],\"tags\":[]}]\n ";

    assert_reads_in_pieces(
        JSON, document, 39,
        "updated [http://example.com/\xc3\xa5\"]"
        " datetime=[2026-04-01T18:10:00Z] lastmod=[2026-01-01]"
        " changefreq=[daily] priority=[0.5]"
        " hash=[sha-256:abababababababababababababababab"
        "abababababababababababababababab"
        " md5:d41d8cd98f00b204e9800998ecf8427e]"
        " length=9223372036854775807 type=[text/csv] encoding=[gzip]"
        " tags=[b a] {urn:y}m=[1]\n"
        "  via [http://example.com/b] pri=1 modified=[2026-04-01T18:10:00Z]"
        " hash=[md5:d41d8cd98f00b204e9800998ecf8427e] length=0 type=[a/b]"
        " encoding=[br] {urn:x}n=[]\n"
        "created [http://example.com/a] priority=[1.0]\n");
    assert_reads(JSON, "{" A "}", "created [http://example.com/a]\n");
}

/* Tables and languages write null where they have no value. */
TEST(takes_null_as_absent)
{
    assert_reads(
        JSON,
        "[{" A ",\"datetime\":null,\"lastmod\":null,\"hash\":null,"
        "\"length\":null,\"type\":null,\"priority\":null,"
        "\"tags\":null,\"links\":null,\"attributes\":null},{" A
        ",\"links\":[{\"rel\":\"via\",\"href\":\"http://example.com/b\","
        "\"pri\":null,\"hash\":null,\"attributes\":null}],"
        "\"attributes\":[{\"ns\":\"urn:x\",\"name\":\"n\","
        "\"value\":null}]}]",
        "created [http://example.com/a]\n"
        "created [http://example.com/a] {urn:x}n=[]\n"
        "  via [http://example.com/b]\n");
    assert_bad("{\"loc\":null,\"change\":\"created\"}", "no loc");
    assert_bad("{" A ",\"change\":null}", "change: given twice");
    assert_bad("{" A ",\"path\":null}",
               "unknown member \"path\" in the change");
    assert_bad("{" A ",\"hash\":{\"md5\":null}}",
               "hash: must hold strings, such as "
               "{\"md5\":\"d41d8cd98f00b204e9800998ecf8427e\"}, not true, "
               "false or null");
    assert_bad(
        "{" A ",\"tags\":[null]}",
        "tags: must hold strings, such as [\"news\"], not true, false or null");
    assert_bad("[null]",
               "changes: must hold objects, such as "
               "{\"loc\":\"http://example.com/a\",\"change\":\"updated\"}, not "
               "true, false or null");
}

TEST(refuses_members_that_are_unknown_wrong_or_given_twice)
{
    assert_bad("{" A ",\"path\":\"/a\"}",
               "unknown member \"path\" in the change");
    assert_bad("{" A ",\"loc\":\"http://example.com/b\"}", "loc: given twice");
    assert_bad("{\"loc\":true}",
               "loc: must be a string, such as \"http://example.com/a\", not "
               "true, false or null");
    assert_bad("{\"loc\":1}", "loc: must be a string, such as "
                              "\"http://example.com/a\", not a number");
    assert_bad("{\"loc\":{}}", "loc: must be a string, such as "
                               "\"http://example.com/a\", not an object");
    assert_bad("{\"loc\":[]}", "loc: must be a string, such as "
                               "\"http://example.com/a\", not an array");
    assert_bad("{\"length\":\"1\"}",
               "length: must be a number, such as 1024, not a string");
    assert_bad("{\"hash\":\"md5:\"}", "hash: md5 has 32 digits, not 0");
    assert_bad("{\"hash\":{}}", "hash: empty; such as \"" HASH_EXAMPLE "\"");
    assert_bad("{\"hash\":{\"md5\":[]}}",
               "hash: must hold strings, such as "
               "{\"md5\":\"d41d8cd98f00b204e9800998ecf8427e\"}, not an array");
    assert_bad("{\"hash\":{\"md5:d41d8cd98f00b204e9800998ecf8427e sha-1\":"
               "\"da39a3ee5e6b4b0d3255bfef95601890afd80709\"}}",
               NULL);
    assert_bad("{\"hash\":{\"md5\":\"d41d8cd98f00b204e9800998ecf8427e md5:\"}}",
               NULL);
    assert_bad("{\"hash\":{\"md5\":\"d41d8cd98f00b204e9800998ecf8427e\","
               "\"md5\":\"d41d8cd98f00b204e9800998ecf8427e\"}}",
               "hash: md5 is given twice");
    assert_bad("{\"tags\":[1]}",
               "tags: must hold strings, such as [\"news\"], not a number");
    assert_bad("{\"tags\":[\"a b\"]}", NULL);
    assert_bad("{\"tags\":[\"\"]}", NULL);
    assert_bad("{\"links\":[[]]}", "links: must hold objects, such as "
                                   "{\"rel\":\"duplicate\",\"href\":\"http://"
                                   "example.com/b\"}, not an array");
    assert_bad("{\"links\":[{\"tags\":[]}]}",
               "unknown member \"tags\" in the link");
    assert_bad("{\"attributes\":[{\"prefix\":\"\"}]}",
               "unknown member \"prefix\" in the attribute");
    assert_bad("[[]]", "changes: must hold objects, such as "
                       "{\"loc\":\"http://example.com/"
                       "a\",\"change\":\"updated\"}, not an array");
    assert_bad("[1]", "changes: must hold objects, such as "
                      "{\"loc\":\"http://example.com/"
                      "a\",\"change\":\"updated\"}, not a number");
    assert_bad("\"a\"",
               "the document: must hold an object or an array, such as "
               "[{\"loc\":\"http://example.com/a\",\"change\":\"updated\"}], "
               "not a string");
    assert_bad("{}", "no change: created, updated or deleted?");
    assert_bad("{\"change\":\"created\"}", "no loc");
    assert_bad("[]", "no entries");
    assert_bad("{" A ",\"set\":\"a\"}", "unknown member \"set\" in the change");
    assert_bad("[{\"set\":\"a\"}]", "unknown member \"set\" in the change");
    assert_bad("{\"set\":\"a\"," A "}",
               "unknown member \"loc\" in the message");
    assert_bad("{\"set\":\"a\",\"changes\":[]}", "no entries");
    assert_bad("{\"after\":1,\"last\":2}", "no entries");
    assert_bad("{\"changes\":[{" A "}],\"changes\":[{" A "}]}",
               "changes: given twice");
}

/* Design section 4: a message posted again is its entries; members about
 * another log are dropped, but its times must hold. */
TEST(reads_the_entries_of_a_message_that_is_posted)
{
    assert_reads(JSON,
                 "{\"set\":\"A\",\"epoch\":\"?\",\"after\":-1,\"last\":1e9,"
                 "\"from\":\"2026-01-01T00:00:00Z\","
                 "\"until\":\"2026-01-02T00:00:00Z\",\"digest\":\"none\","
                 "\"now\":\"\",\"heartbeat\":-2,\"next\":\"\",\"changes\":"
                 "[{" A ",\"datetime\":\"2026-01-02T00:00:00Z\",\"seq\":7,"
                 "\"sourceDatetime\":\"?\"},{" A "}]}",
                 "created [http://example.com/a]"
                 " datetime=[2026-01-02T00:00:00Z]\n"
                 "created [http://example.com/a]\n");
    assert_bad("{\"from\":\"2026-01-02T00:00:00Z\",\"changes\":[{" A
               ",\"datetime\":\"2026-01-01T00:00:00Z\"}]}",
               "datetime: before the document's from");
    assert_bad("{\"from\":\"2026-01-02T00:00:00Z\","
               "\"until\":\"2026-01-01T00:00:00Z\",\"changes\":[{" A "}]}",
               "until: before from");
    assert_bad(
        "{\"set\":false,\"changes\":[{" A "}]}",
        "set: must be a string, such as \"news\", not true, false or null");
}

/* */
TEST(refuses_numbers_that_are_not_whole)
{
    assert_bad("{\"length\":1.0}",
               "length: not a number of bytes, such as 1024: \"1.0\"");
    assert_bad("{\"length\":1e3}",
               "length: not a number of bytes, such as 1024: \"1e3\"");
    assert_bad("{\"length\":-1}",
               "length: not a number of bytes, such as 1024: \"-1\"");
    assert_bad(
        "{\"length\":9223372036854775808}",
        "length: not a number of bytes, such as 1024: \"9223372036854775808\"");
    assert_bad("{\"links\":[{\"pri\":0}]}",
               "pri: not a number from 1 to 999999: \"0\"");
    assert_bad("{\"links\":[{\"pri\":1000000}]}",
               "pri: not a number from 1 to 999999: \"1000000\"");
    assert_bad(
        "{" A ",\"priority\":1e-1}",
        "priority: not a decimal from 0.0 to 1.0, such as 0.5: \"1e-1\"");
}

/* every accepted text can be written as XML. */
TEST(refuses_what_xml_cannot_carry)
{
    static const char *const texts[] = {
        "\\u0000",    "\\u0001",        "\\u001f",        "\\ufffe",
        "\\uffff",    "\\ud800",        "\\udc00",        "\\ud800a",
        "\\ud800\\n", "\\ud800\\u0041", "\\ud800\\ud800", "\xef\xbf\xbf",
        "\\ud83d",    "\\udc00\\udc00",
    };
    char document[256];

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (size_t step = 1; step < 8; step++) {
            struct reading reading;

            snprintf(document, sizeof(document),
                     "{" A ",\"attributes\":[{\"ns\":\"urn:x\",\"name\":\"n\","
                     "\"value\":\"%s\"}]}",
                     texts[i]);
            reading = read_steps(JSON, INPUT_POST, slice_of(document), step);
            if (reading.rc != STATUS_INVALID)
                fail_msg("%s: %d", texts[i], reading.rc);
            assert_int_equal(reading.n, 0);
            reading_fini(&reading);
        }

    assert_reads_in_pieces(
        JSON,
        "{" A ",\"attributes\":[{\"ns\":\"urn:x\",\"name\":\"n\","
        "\"value\":\"\\ud83d\\uDE00\\\\ud800\\t\\n\\r\\u007f\"}]}",
        7,
        "created [http://example.com/a]"
        " {urn:x}n=[\xf0\x9f\x98\x80\\ud800\t\n\r\x7f]\n");
    assert_bad("{" A ",\"title\":\"a\\u0007\"}",
               "title: a character that XML cannot carry: \"a?\"");
    assert_bad("{" A ",\"data\":{\"a\":[\"\\u0007\"]}}",
               "data: a character that XML cannot carry: \"?\"");
    assert_bad("{" A ",\"title\":\"a\",\"\\u0007\":1}",
               "a character that XML cannot carry: \"?\"");
    assert_bad("{" A ",\"attributes\":[{\"ns\":\"urn:x\",\"name\":\"a:b\"}]}",
               "attributes: not an attribute's name: \"a:b\"");
    assert_bad("{" A ",\"attributes\":[{\"name\":\"a\"}]}",
               "attribute \"a\": not in a foreign namespace: \"\"");
    assert_bad("{" A ",\"attributes\":[{\"ns\":\"" NS_RS "\",\"name\":\"a\"}]}",
               NULL);
    assert_bad("{" A ",\"attributes\":[{\"ns\":\"urn:x\",\"name\":\"a\"},"
               "{\"ns\":\"urn:x\",\"name\":\"a\"}]}",
               "attribute \"a\" is given twice");
}

/* The words of an event: what they must be, and how long they may get. */
TEST(refuses_words_that_are_none)
{
    struct buf document;

    assert_bad(
        "{" A ",\"title\":1}",
        "title: must be a string, such as \"Tea is here\", not a number");
    assert_bad("{" A ",\"author\":{\"name\":\"a\"}}",
               "author: must be a string, such as \"Ada\", not an object");
    assert_bad("{" A ",\"data\":1,\"data\":1}", "data: given twice");
    assert_bad("{" A ",\"links\":[{\"title\":\"a\"}]}",
               "unknown member \"title\" in the link");
    assert_bad("{" A ",\"data\":[[[[[[[[[[[[[0]]]]]]]]]]]]]}",
               "data: nested deeper than 12");
    assert_malformed("{" A ",\"data\":{\"a\":}}", NULL);

    buf_init(&document, 1 << 20);
    for (size_t n = CHANGE_DATA_MAX; n <= CHANGE_DATA_MAX + 1; n++) {
        struct reading reading;

        buf_clear(&document);
        BUF_ADD(&document, "{" A ",\"data\": [ ");
        while (document.size < n + sizeof(A ",\"data\": "))
            BUF_ADD(&document, "1");
        BUF_ADD(&document, " ] }");
        reading = read_steps(JSON, INPUT_POST, buf_slice(&document), 9999);
        assert_int_equal(reading.rc, n > CHANGE_DATA_MAX ? STATUS_INVALID : 0);
        if (reading.rc)
            assert_string_equal(reading.why.text,
                                "data: 65537 bytes, more than 65536");
        reading_fini(&reading);
    }
    buf_fini(&document);
}

/* RFC 8259 section 8.1: a byte order mark may be passed over. */
TEST(passes_over_a_byte_order_mark)
{
    assert_reads_in_pieces(JSON, "\xef\xbb\xbf\n{" A "}", 5,
                           "created [http://example.com/a]\n");
    assert_malformed("\xef\xbb\xbf\xef\xbb\xbf{" A "}", NULL);
    assert_malformed("\xef\xbb{" A "}",
                     "not JSON: it begins with half a byte order mark");
    assert_malformed("\xef", NULL);
    assert_malformed("\xef\xbb\xbf", NULL);
}

TEST(says_where_the_syntax_is_wrong)
{
    struct problem why = assert_malformed("[\n{" A "},\n{]", NULL);

    assert_true(!strncmp(why.text, "not JSON: ", 10));
    assert_null(strchr(why.text, '\n'));
    assert_int_equal(why.line, 3);
    assert_int_equal(why.entry, 2);

    assert_malformed("", NULL);
    assert_malformed(" ", NULL);
    assert_malformed("{" A "", NULL);
    assert_malformed("{" A "}{", NULL);
    assert_malformed("{" A "} x", NULL);
    assert_malformed("{" A ",\"type\":\"\xff\"}", NULL);
    assert_malformed("{" A ",\"type\":\"\xc0\x80\"}", NULL);
    assert_malformed("{" A ",\"type\":\"\xed\xa0\x80\"}", NULL);
    assert_malformed("{" A ",\"type\":\"\xf4\x90\x80\x80\"}",
                     "not JSON: a string that is not UTF-8");
    assert_malformed("// a\n{" A "}", NULL);
    assert_malformed("<urlset/>", NULL);
}

/* RFC 8259 section 2: space, tab, LF and CR are white space, nothing else. */
TEST(refuses_white_space_that_json_does_not_have)
{
    static const char *const documents[] = {
        "\v{" A "}",
        "{" A "}\f",
        "{" A ",\v\"length\":1}",
        "{" A ",\"length\":\f1}",
        "[{" A "},\v\t{" A "}]",
    };

    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++)
        assert_malformed(documents[i], "not JSON: a vertical tab or form feed");
    assert_int_equal(
        assert_malformed("[\n{" A "},\n\f{" A "\v\n}\n]", NULL).line, 3);
    assert_reads(JSON, " \t\r\n{\r\n\t" A " \t\r\n}\t\n",
                 "created [http://example.com/a]\n");
}

TEST(says_which_entry_and_line_is_wrong)
{
    struct problem why =
        assert_refused(JSON, "[{" A "},\n{" A "},\n\n{" A ",\"length\":-1}]",
                       STATUS_INVALID, NULL);

    assert_int_equal(why.entry, 3);
    assert_int_equal(why.line, 4);
}

/* */
TEST(never_accepts_a_part_of_a_document)
{
    static const char document[] = "[{" A ",\"tags\":[\"a\"]},{" A "}]";

    for (size_t size = 0; size < sizeof(document) - 1; size++) {
        struct reading reading = read_all(JSON, (struct slice){document, size});

        assert_int_equal(reading.rc, STATUS_MALFORMED);
        reading_fini(&reading);
    }
}

TEST(reads_the_messages_it_wrote)
{
    struct coverage coverage = {
        .set = "gauges",
        .epoch = "0123456789abcdef",
        .after = 6,
        .last = 7,
        .from_us = 0,
        .until_us = 1000000,
        .has_digest = true,
        .digest = {{0xab, 0xcd}},
        .now_us = 2000000,
        .heartbeat_us = 1500000,
    };
    struct change change;
    struct reading reading;
    struct buf b;

    change_init(&change);
    change.loc = SLICE("http://example.com/\"\\\xc3\xa5");
    change.kind = CHANGE_DELETED;
    change.seq = 7;
    change.datetime_us = 500000;
    change.source_us = 1;
    buf_init(&b, 10000);
    json_message_begin(&b, &coverage, SLICE("http://example.com/n"));
    json_change(&b, &change);
    BUF_ADD(&b, "]}\n");
    assert_true(slice_is(
        buf_slice(&b),
        "{\"set\":\"gauges\",\"epoch\":\"0123456789abcdef\",\"after\":6,"
        "\"last\":7,\"from\":\"1970-01-01T00:00:00.000000Z\","
        "\"until\":\"1970-01-01T00:00:01.000000Z\",\"digest\":\"sha-256:"
        "abcd000000000000000000000000000000000000000000000000000000000000\","
        "\"now\":\"1970-01-01T00:00:02.000000Z\",\"heartbeat\":1.5,"
        "\"next\":\"http://example.com/n\",\"changes\":["
        "{\"loc\":\"http://example.com/\\\"\\\\\xc3\xa5\","
        "\"change\":\"deleted\",\"datetime\":\"1970-01-01T00:00:00.500000Z\","
        "\"sourceDatetime\":\"1970-01-01T00:00:00.000001Z\",\"seq\":7}]}\n"));

    reading = read_steps(JSON, INPUT_MESSAGE, buf_slice(&b), 7);
    assert_string_equal(reading.why.text, "");
    assert_string_equal(reading.text.data,
                        "deleted [http://example.com/\"\\\xc3\xa5]"
                        " datetime=[1970-01-01T00:00:00.5Z]"
                        " source=[1970-01-01T00:00:00.000001Z] seq=7\n");
    assert_string_equal(reading.coverage.set, "gauges");
    assert_string_equal(reading.coverage.epoch, "0123456789abcdef");
    assert_int_equal(reading.coverage.after, 6);
    assert_int_equal(reading.coverage.last, 7);
    assert_int_equal(reading.coverage.from_us, 0);
    assert_int_equal(reading.coverage.until_us, 1000000);
    assert_true(reading.coverage.has_digest);
    assert_int_equal(reading.coverage.digest.bytes[1], 0xcd);
    assert_int_equal(reading.coverage.now_us, 2000000);
    assert_int_equal(reading.coverage.heartbeat_us, 1500000);
    assert_int_equal(reading.capability, -1);
    reading_fini(&reading);
    buf_fini(&b);
}

/* in a message too, wherever its times stand. */
TEST(refuses_a_message_outside_its_interval)
{
    static const struct {
        const char *document;
        const char *sentence;
    } bad[] = {
        {"{\"until\":\"2026-01-01T00:00:00Z\","
         "\"from\":\"2026-01-02T00:00:00Z\",\"changes\":[]}",
         "until: before from"},
        {"{\"changes\":[],\"until\":\"2026-01-01T00:00:00Z\","
         "\"from\":\"2026-01-02T00:00:00Z\"}",
         "until: before from"},
        {"{\"from\":\"2026-01-02T00:00:00Z\",\"changes\":[{" A
         ",\"datetime\":\"2026-01-01T00:00:00Z\"}]}",
         "datetime: before the document's from"},
        {"{\"epoch\":\"0123456789ABCDEF\"}",
         "epoch: must be a string, such as \"9f2c5b7d01e4a683\", not "
         "\"0123456789ABCDEF\""},
        {"{\"set\":\"A\"}",
         "set: must be a string, such as \"news\", not \"A\""},
        {"{\"after\":-1}", "after: must be a number, such as 7, not \"-1\""},
        {"{\"heartbeat\":1e3}",
         "heartbeat: must be a number, such as 20, not \"1e3\""},
        {"{\"digest\":\"sha-256:\"}",
         "digest: must be a string, such as "
         "\"md5:d41d8cd98f00b204e9800998ecf8427e\", not \"sha-256:\""},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct reading reading =
            read_steps(JSON, INPUT_MESSAGE, slice_of(bad[i].document), 1000);

        assert_int_equal(reading.rc, STATUS_INVALID);
        assert_string_equal(reading.why.text, bad[i].sentence);
        reading_fini(&reading);
    }
}

/* A later broker may add members; the known ones are read as ever. */
TEST(skips_members_of_a_message_that_it_does_not_know)
{
    struct reading reading = read_steps(
        JSON, INPUT_MESSAGE,
        SLICE(
            "{\"more\":{\"a\":[1,{\"changes\":[{}]}]},\"after\":3,\"new\":null,"
            "\"last\":4,\"changes\":[{" A ",\"x\":[],\"seq\":4}],\"y\":[[2]]}"),
        1);

    assert_int_equal(reading.rc, 0);
    assert_int_equal(reading.n, 1);
    assert_int_equal(reading.coverage.after, 3);
    assert_int_equal(reading.coverage.last, 4);
    reading_fini(&reading);
}

TEST(reads_a_heartbeat)
{
    struct reading reading =
        read_steps(JSON, INPUT_MESSAGE,
                   SLICE("{\"after\":3,\"last\":3,\"changes\":[]}"), 100);

    assert_int_equal(reading.rc, 0);
    assert_int_equal(reading.n, 0);
    assert_int_equal(reading.coverage.last, 3);
    reading_fini(&reading);
}
