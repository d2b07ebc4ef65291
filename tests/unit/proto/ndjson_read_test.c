#include "proto/input/input_reader.h"
#include "tests/test.h"
#include "tests/unit/proto/reading.h"

#define ENTRY(n) "{\"loc\":\"http://example.com/" n "\",\"change\":\"created\"}"
#define READ(n)  "created [http://example.com/" n "]\n"

/* Design section 4: one entry a line, however the lines end. */
TEST(reads_one_entry_a_line)
{
    static const char *const documents[] = {
        ENTRY("a1") "\n" ENTRY("b2") "\n",
        ENTRY("a1") "\n" ENTRY("b2"),
        ENTRY("a1") "\r\n" ENTRY("b2") "\r\n",
        "\n\r\n \t\n" ENTRY("a1") "\n\n\n \r\n" ENTRY("b2") "\n \n\n",
        "  " ENTRY("a1") "\t \n\t" ENTRY("b2") "  ",
        "\xef\xbb\xbf" ENTRY("a1") "\n" ENTRY("b2") "\n",
    };

    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++)
        assert_reads_in_pieces(NDJSON, documents[i], strlen(documents[i]) + 1,
                               READ("a1") READ("b2"));
}

TEST(reads_all_that_an_entry_in_json_has)
{
    assert_reads(NDJSON,
                 "{\"loc\":\"http://example.com/\xc3\xa5\",\"change\":"
                 "\"updated\",\"tags\":[\"a\",\"b\"],\"links\":[{\"rel\":"
                 "\"via\",\"href\":\"http://example.com/\\ud83c\\udf0a\"}],"
                 "\"attributes\":[{\"ns\":\"urn:x\",\"name\":\"n\","
                 "\"value\":\"1\\n2\"}],\"seq\":9}\n" ENTRY("b2"),
                 "updated [http://example.com/\xc3\xa5] tags=[a b]"
                 " {urn:x}n=[1\n2]\n"
                 "  via [http://example.com/\xf0\x9f\x8c\x8a]\n" READ("b2"));
}

/* A refused line is named, by its number and that of its entry. */
TEST(names_the_line_that_is_wrong)
{
    static const struct {
        const char *document;
        enum status rc;
        uint64_t entry;
        uint64_t line;
        const char *text;
    } cases[] = {
        {ENTRY("a1") "\n\n" ENTRY("a"), STATUS_OK, 0, 0, ""},
        {ENTRY("a1") "\n\n{\"loc\":\"a\",\"change\":\"created\"}\n",
         STATUS_INVALID, 2, 3,
         "loc: not an absolute URI, such as http://example.com/a: \"a\""},
        {"\r\n\r\n\r\n{\"change\":\"created\"}", STATUS_INVALID, 1, 4,
         "no loc"},
        {ENTRY("a1") "\n{\"loc\":\n\"http://example.com/b\"}\n",
         STATUS_MALFORMED, 2, 2, "not NDJSON: the line ends within its entry"},
        {ENTRY("a1") "\n{\"loc\":\"http://example.com/b", STATUS_MALFORMED, 2,
         2, "not NDJSON: the line ends within its entry"},
        {"[" ENTRY("a1") "]\n", STATUS_MALFORMED, 0, 1,
         "not NDJSON: the line does not begin with \"{\""},
        {ENTRY("a1") "\n" ENTRY("b2") "\n\"a\"\n", STATUS_MALFORMED, 0, 3,
         "not NDJSON: the line does not begin with \"{\""},
        {"\xef\xbb" ENTRY("a1"), STATUS_MALFORMED, 0, 1,
         "not NDJSON: it begins with half a byte order mark"},
        {ENTRY("a1") "\n\xef\xbb\xbf" ENTRY("a1"), STATUS_MALFORMED, 0, 2,
         "not NDJSON: the line does not begin with \"{\""},
        {ENTRY("a1") "\n" ENTRY("b2") " " ENTRY("c3") "\n", STATUS_MALFORMED, 0,
         2, NULL},
        {ENTRY("a1") "," ENTRY("b2") "\n", STATUS_MALFORMED, 0, 1, NULL},
        {ENTRY("a1") "\n{\"loc\":tru}\n", STATUS_MALFORMED, 2, 2, NULL},
        {ENTRY("a1") "\n{}\n", STATUS_INVALID, 2, 2,
         "no change: created, updated or deleted?"},
        {ENTRY("a1") "\n{\"after\":1}\n", STATUS_INVALID, 2, 2,
         "unknown member \"after\" in the change"},
        {"", STATUS_INVALID, 0, 0, "no entries"},
        {"\n \r\n", STATUS_INVALID, 0, 0, "no entries"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct slice bytes = slice_of(cases[i].document);

        for (size_t step = 1; step < 40; step += 19) {
            struct reading reading =
                read_steps(NDJSON, INPUT_POST, bytes, step);

            assert_int_equal(reading.rc, cases[i].rc);
            assert_int_equal(reading.why.entry, cases[i].entry);
            assert_int_equal(reading.why.line, cases[i].line);
            if (cases[i].text)
                assert_string_equal(reading.why.text, cases[i].text);
            reading_fini(&reading);
        }
    }
}

TEST(is_not_for_messages)
{
    struct reading reading =
        read_steps(NDJSON, INPUT_MESSAGE, SLICE(ENTRY("a1") "\n"), 100);

    assert_int_equal(reading.rc, STATUS_UNSUPPORTED);
    reading_fini(&reading);
}
