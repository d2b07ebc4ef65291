/*
 * input_faults_test.c - readers that report each faulty entry and go on, and
 * those that skip unknown members.
 */
#include "tests/test.h"
#include "tests/unit/proto/reading.h"

#define GOOD(n) "{\"loc\":\"http://example.com/" n "\",\"change\":\"created\"}"
#define URL(n) \
    "<url><loc>http://example.com/" n "</loc><rs:md change='created'/></url>"

/* Notes a fault as "LINE/ENTRY: TEXT". */
static void
note_fault(const struct problem *why, void *user)
{
    struct buf *faults = user;
    char line[1200];

    snprintf(line, sizeof(line), "%llu/%llu: %s\n",
             (unsigned long long)why->line, (unsigned long long)why->entry,
             why->text);
    buf_add_text(faults, line);
}

/* One document with its faults and, behind them, its changes. */
static const struct {
    const char *type;
    const char *document;
    const char *faults;
    const char *changes;
    enum status rc;
} rows[] = {
    {JSON, "[" GOOD("a") ",\n{\"loc\":null},\n" GOOD("b") "]",
     "2/2: no change: created, updated or deleted?\n", "ab", STATUS_OK},
    /* Within values, with open containers behind the fault. */
    {JSON,
     "[{\"hash\":{\"md5\":[{\"a\":[1]},2],\"x\":{}}},\n{\"tags\":[1,[2]]},\n"
     "{\"links\":[{\"x\":{\"loc\":1}}],\"links\":3}\n," GOOD("c") "\n,{}]",
     "1/1: hash: must hold strings, such as "
     "{\"md5\":\"d41d8cd98f00b204e9800998ecf8427e\"}, not an array\n"
     "2/2: tags: must hold strings, such as [\"news\"], not a number\n"
     "3/3: unknown member \"x\" in the link\n"
     "5/5: no change: created, updated or deleted?\n",
     "c", STATUS_OK},
    {JSON, "{\"set\":\"s\",\"changes\":[{\"loc\":1},\n" GOOD("d") "]}",
     "1/1: loc: must be a string, such as \"http://example.com/a\", not a "
     "number\n",
     "d", STATUS_OK},
    {JSON, "{\"lok\":[{}],\"loc\":{}}",
     "1/1: unknown member \"lok\" in the change\n", "", STATUS_OK},
    {JSON, "{}", "1/1: no change: created, updated or deleted?\n", "",
     STATUS_OK},
    /* A syntax error ends the reading, and so does a value that is no entry. */
    {JSON, "[{\"loc\":1}," GOOD("e") ",\n}",
     "1/1: loc: must be a string, such as \"http://example.com/a\", not a "
     "number\n",
     "e", STATUS_MALFORMED},
    {JSON, "[{\"loc\":1},\n1]",
     "1/1: loc: must be a string, such as \"http://example.com/a\", not a "
     "number\n",
     "", STATUS_INVALID},
    /* A line of NDJSON may be anything. */
    {NDJSON,
     GOOD("f") "\n{\"loc\":1,\"x\":[2]}\nloc,change\n{\"loc\":\n{}{}\n\n" GOOD(
         "g") "\n{",
     "2/2: loc: must be a string, such as \"http://example.com/a\", not a "
     "number\n"
     "3/3: not NDJSON: the line does not begin with \"{\"\n"
     "4/4: not NDJSON: the line ends within its entry\n"
     "5/5: no change: created, updated or deleted?\n"
     "8/7: not NDJSON: the line ends within its entry\n",
     "fg", STATUS_OK},
    {XML,
     XML_HEAD URL(
         "h") "\n<url><rs:md change='moved'/><rs:ln rel='a'/><b xmlns='urn:b'>"
              "<c/></b></url>\n<url a='1'/>\n<url>text<loc/></url>\n"
              "<url><loc>http://example.com/</loc></url>" URL("i") "</urlset>",
     "2/2: change: not created, updated or deleted: \"moved\"\n"
     "3/3: url: attribute \"a\" is not allowed\n"
     "4/4: text between elements: \"text\"\n"
     "5/5: no change: created, updated or deleted?\n",
     "hi", STATUS_OK},
    {XML, XML_HEAD "<url/>" URL("j") "<x>",
     "1/1: no change: created, updated or deleted?\n", "j", STATUS_INVALID},
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static struct reading
read_faulty(const char *type, const char *document, size_t step,
            bool ignores_unknown, struct buf *faults)
{
    struct reading reading = {.rc = STATUS_OK};
    struct input_reader *reader = input_reader_new(
        format_of(slice_of(type)), INPUT_POST, 50000, describe_each, &reading);

    assert_non_null(reader);
    buf_init(&reading.text, 1 << 20);
    buf_init(faults, 1 << 20);
    if (ignores_unknown)
        reader->options.ignores_unknown = true;
    else
        reader->options = (struct input_options){.on_fault = note_fault,
                                                 .fault_user = faults};
    feed_in_steps(reader, &reading, slice_of(document), step);
    input_reader_free(reader);
    buf_add(&reading.text, "", 1);
    buf_add(faults, "", 1);
    return reading;
}

TEST(reports_every_faulty_entry)
{
    for (size_t i = 0; i < N_ROWS; i++)
        for (size_t step = 1; step <= strlen(rows[i].document); step++) {
            char changes[400] = "";
            struct buf faults;
            struct reading reading = read_faulty(rows[i].type, rows[i].document,
                                                 step, false, &faults);

            for (const char *c = rows[i].changes; *c; c++)
                sprintf(changes + strlen(changes),
                        "created [http://example.com/%c]\n", *c);
            assert_string_equal(faults.data, rows[i].faults);
            assert_string_equal(reading.text.data, changes);
            assert_int_equal(reading.rc, rows[i].rc);
            buf_fini(&faults);
            reading_fini(&reading);
        }
}

/* A source whose records have more members than a change may say so. */
TEST(skips_unknown_members_where_asked)
{
    static const char *const types[] = {JSON, NDJSON};
    static const char document[] =
        "{\"id\":7,\"x\":{\"loc\":[{}]},\"loc\":\"http://example.com/a\","
        "\"change\":\"created\",\"y\":null,\"links\":[{\"rel\":\"via\",\"z\":[]"
        ","
        "\"href\":\"http://example.com/b\"}]}";

    for (size_t i = 0; i < 2; i++)
        for (size_t step = 1; step <= sizeof(document); step++) {
            struct buf faults;
            struct reading reading =
                read_faulty(types[i], document, step, true, &faults);

            assert_string_equal(reading.why.text, "");
            assert_string_equal(reading.text.data,
                                "created [http://example.com/a]\n"
                                "  via [http://example.com/b]\n");
            buf_fini(&faults);
            reading_fini(&reading);
        }
    assert_refused(JSON, document, STATUS_INVALID,
                   "unknown member \"id\" in the change");
}
