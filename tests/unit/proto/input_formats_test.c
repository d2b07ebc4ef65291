#include "proto/input/input_formats.h"

#include <pthread.h>
#include <time.h>

#include "tests/test.h"
#include "tests/unit/proto/reading.h"

#define XML_ENTRY \
    "<url><loc>http://example.com/a</loc><rs:md change='created'/></url>"
#define JSON_ENTRY "{\"loc\":\"http://example.com/a\",\"change\":\"created\"}"

/* What a scanner reads: quotes instead of apostrophes. */
#define USUAL_HEAD                                             \
    "<urlset xmlns=\"" NS_SITEMAP "\" xmlns:rs=\"" NS_RS "\">" \
    "<rs:md capability=\"changelist\"/>"

/* More bytes than an entry may have, and one piece that a parser takes. */
#define TOO_MUCH (544 * 1024)

TEST(finds_the_reader_of_a_media_type)
{
    const struct format *xml = format_of(SLICE("application/xml"));
    const struct format *json = format_of(SLICE("application/json"));

    assert_non_null(xml);
    assert_non_null(json);
    assert_ptr_not_equal(xml, json);
    assert_ptr_equal(format_of(SLICE("Application/XML; charset=UTF-8")), xml);
    assert_ptr_equal(format_of(SLICE(" application/json ;charset=\"utf-8\" ")),
                     json);
    assert_non_null(format_of(SLICE("text/xml;a=b;c")));
    assert_null(format_of(SLICE("application/xml; charset=iso-8859-1")));
    assert_null(format_of(SLICE("application/xml;a=b; CharSet=\"utf-16\"")));
    assert_non_null(format_of(SLICE("application/x-ndjson;charset=UTF-8")));
    assert_non_null(format_of(SLICE("application/ndjson")));
    assert_non_null(format_of(SLICE("application/jsonl")));
    assert_null(format_of(SLICE("application/xmlx")));
    assert_null(format_of(SLICE("text/plain")));
    assert_null(format_of(SLICE("")));
    assert_null(format_of((struct slice){NULL, 0}));
    assert_string_equal(
        formats_offered,
        "application/xml, application/json, application/x-ndjson, "
        "application/cloudevents+json, application/cloudevents-batch+json");
}

/* A refusal has the option of curl that is right. */
TEST(a_refusal_says_what_to_send)
{
    static const char *const rows[][2] = {
        {"text/xml; charset=latin1", "text/xml"},
        {"application/x-ndjson ;charset=utf-16", "application/x-ndjson"},
        {"text/plain", "application/json"},
        {"", "application/json"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct problem why = {""};
        char end[80];

        snprintf(end, sizeof(end), "; send -H 'Content-Type: %s'", rows[i][1]);
        assert_int_equal(format_refuse("changes", slice_of(rows[i][0]), &why),
                         STATUS_UNSUPPORTED);
        if (!strstr(why.text, end))
            fail_msg("%s", why.text);
    }
}

static struct slice
times(struct buf *b, const char *head, const char *entry, const char *between,
      size_t n, const char *foot)
{
    buf_init(b, 1 << 26);
    buf_add_text(b, head);
    for (size_t i = 0; i < n; i++) {
        buf_add_text(b, i == 0 ? "" : between);
        buf_add_text(b, entry);
    }
    buf_add_text(b, foot);
    assert_false(b->failed);
    return buf_slice(b);
}

static void
assert_most(const char *type, struct slice bytes, enum status expected)
{
    struct reading reading = {.rc = STATUS_OK};
    struct input_reader *reader = input_reader_new(
        format_of(slice_of(type)), INPUT_POST, 2, describe_each, &reading);

    buf_init(&reading.text, 10000);
    feed_in_steps(reader, &reading, bytes, 10);
    assert_int_equal(reading.rc, expected);
    assert_int_equal(reading.n, 2);
    if (expected) {
        assert_string_equal(reading.why.text, "more than 2 entries");
        /* After an error nothing more is read. */
        assert_int_equal(input_reader_feed(reader, bytes, NULL), expected);
        assert_int_equal(input_reader_end(reader, NULL), expected);
    }
    input_reader_free(reader);
    reading_fini(&reading);
}

/* */
TEST(reads_no_more_entries_than_allowed)
{
    static const struct {
        const char *type, *head, *entry, *between, *foot;
    } rows[] = {
        {XML, XML_HEAD, XML_ENTRY, "", "</urlset>"},
        {JSON, "[", JSON_ENTRY, ",", "]"},
        {NDJSON, "", JSON_ENTRY, "\n", "\n"},
        {NDJSON, "", JSON_ENTRY, "\n", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t n = 2; n <= 3; n++) {
            struct buf b;

            assert_most(rows[i].type,
                        times(&b, rows[i].head, rows[i].entry, rows[i].between,
                              n, rows[i].foot),
                        n > 2 ? STATUS_TOO_LARGE : STATUS_OK);
            buf_fini(&b);
        }
}

static enum status
refuse(const struct change *change, void *user, struct problem *why)
{
    (void)change;
    (void)user;
    return problem(why, STATUS_BUSY, "not now");
}

TEST(ends_with_what_the_receiver_says)
{
    static const struct {
        const char *type;
        const char *document;
    } documents[] = {
        {XML, XML_HEAD "\n" XML_ENTRY "</urlset>"},
        {XML, USUAL_HEAD "<url><loc>http://example.com/a</loc>\n"
                         "<rs:md change=\"created\"/></url></urlset>"},
        {JSON, "\n" JSON_ENTRY},
        {JSON, "[\n" JSON_ENTRY "," JSON_ENTRY "]"},
        {NDJSON, "\n" JSON_ENTRY},
        {NDJSON, "\n" JSON_ENTRY "\n"},
    };

    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
        struct problem why = {""};
        struct input_reader *reader =
            input_reader_new(format_of(slice_of(documents[i].type)), INPUT_POST,
                             2, refuse, NULL);

        enum status rc =
            input_reader_feed(reader, slice_of(documents[i].document), &why);

        if (!rc)
            rc = input_reader_end(reader, &why);
        assert_int_equal(rc, STATUS_BUSY);
        assert_string_equal(why.text, "not now");
        assert_int_equal(why.entry, 1);
        assert_int_equal(why.line, 2);
        assert_int_equal(
            input_reader_feed(reader, slice_of(documents[i].document), NULL),
            STATUS_BUSY);
        input_reader_free(reader);
    }
}

static void
check_reuse(const char *type, const char *good, const char *bad)
{
    struct reading reading = {.rc = STATUS_OK};
    struct input_reader *reader = input_reader_new(
        format_of(slice_of(type)), INPUT_POST, 10, refuse, NULL);

    buf_init(&reading.text, 1 << 20);
    for (int i = 0; i < 100; i++) {
        struct slice document = slice_of(i % 3 == 0 ? bad : good);

        /* Documents that are abandoned leave nothing behind either. */
        if (i % 5 == 0)
            document.size /= 2;
        reading.n = 0;
        input_reader_reset(reader, describe_each, &reading);
        reading.rc = input_reader_feed(reader, document, &reading.why);
        if (i % 5 == 0)
            continue;
        if (!reading.rc)
            reading.rc = input_reader_end(reader, &reading.why);
        assert_int_equal(!reading.rc, i % 3 != 0);
        if (i % 3 != 0)
            assert_int_equal(reading.n, 1);
    }
    input_reader_free(reader);
    reading_fini(&reading);
}

TEST(reads_one_document_after_the_other)
{
    check_reuse(XML, XML_HEAD XML_ENTRY "</urlset>",
                XML_HEAD XML_ENTRY "<a></urlset>");
    /* Found by fuzz/urlset_read: only a new parser knew the mark. */
    check_reuse(XML, "\xef\xbb\xbf" XML_HEAD XML_ENTRY "</urlset>",
                "\xef\xbb" XML_HEAD XML_ENTRY "</urlset>");
    check_reuse(JSON, "\xef\xbb\xbf" JSON_ENTRY, "\xef\xbb" JSON_ENTRY);
    check_reuse(NDJSON, "\xef\xbb\xbf" JSON_ENTRY, "\xef\xbb" JSON_ENTRY);
    check_reuse(JSON, JSON_ENTRY, "[" JSON_ENTRY "}");
    check_reuse(NDJSON, JSON_ENTRY, JSON_ENTRY "\n" JSON_ENTRY "}");
}

static void
assert_bounded(const char *type, const char *head, const char *more,
               const char *foot)
{
    struct buf b;
    struct slice bytes =
        times(&b, head, more, "", TOO_MUCH / strlen(more), foot);
    static const size_t steps[] = {4000, 1 << 22};

    for (size_t i = 0; i < 2; i++) {
        struct reading reading = read_steps(type, INPUT_POST, bytes, steps[i]);

        if (reading.rc != STATUS_INVALID && reading.rc != STATUS_MALFORMED)
            fail_msg("%s %s: %d", head, more, reading.rc);
        reading_fini(&reading);
    }
    buf_fini(&b);
}

/* Design section 5, rule 5: nothing grows with the length of the input. */
TEST(holds_no_more_than_one_entry)
{
    static const char head[] = XML_HEAD "<url><loc>http://example.com/";
    static const char md[] =
        XML_HEAD "<url><loc>http://example.com/a</loc><rs:md change='created'";

    assert_bounded(XML, head, "aaaaaaaaaa", "</loc></url></urlset>");
    assert_bounded(XML, head, "          ", "</loc></url></urlset>");
    assert_bounded(XML, md, "          ", "/></url></urlset>");
    assert_bounded(XML, md, " x:a='1'", "/></url></urlset>");
    assert_bounded(XML, md, " x:a='1' ", "");
    assert_bounded(XML, XML_HEAD "<!--", "aaaaaaaaaa", "--></urlset>");
    assert_bounded(XML, XML_HEAD "<?a ", "aaaaaaaaaa", "?></urlset>");
    assert_bounded(XML, XML_HEAD "<", "aaaaaaaaaa", "/></urlset>");
    assert_bounded(XML,
                   XML_HEAD "<url><loc>http://example.com/a</loc>"
                            "<rs:md change='created'/>",
                   "<rs:ln rel='via' href='http://example.com/b'/>",
                   "</url></urlset>");
    assert_bounded(XML, XML_HEAD, "<x:a>", "</urlset>");
    assert_bounded(JSON, "{\"loc\":\"", "aaaaaaaaaa", "\"}");
    assert_bounded(JSON, "{\"loc\":\"http://example.com/a\",\"tags\":[\"a\"",
                   ",\"aaaaaaaaa\"", "]}");
    assert_bounded(JSON, "{\"links\":[{}", ",{}         ", "]}");
    assert_bounded(JSON, "[", "          ", "{");
    assert_bounded(JSON, "{\"length\":", "1111111111", "}");
    assert_bounded(JSON, "", "[", "");
    assert_bounded(JSON, "{\"attributes\":[{}", ",{\"value\":\"a\"}", "]}");
    assert_bounded(NDJSON, "\n{\"loc\":\"", "aaaaaaaaaa", "\"}");
    assert_bounded(NDJSON, "{\"loc\":", "          ", "\"}");
    assert_bounded(NDJSON, "", "          ", "");
    assert_bounded(NDJSON, "", "\r\n", "");
}

/* ... and says so as soon as it is too much, not when it has ended. */
TEST(refuses_what_does_not_end)
{
    static const struct {
        const char *type;
        const char *head;
        const char *more;
        const char *sentence;
    } documents[] = {
        {XML, XML_HEAD "<!--", "a",
         "a tag, comment or text of more than 524288 bytes"},
        {XML, XML_HEAD "<x:a x:b='", "a",
         "a tag, comment or text of more than 524288 bytes"},
        {XML, XML_HEAD "<url><loc>http://example.com/", "a",
         "loc: more than 16384 bytes"},
        {XML, XML_HEAD "<url><loc>", " ", "loc: more than 16384 bytes"},
        {XML,
         XML_HEAD "<url><loc>http://example.com/a</loc>"
                  "<rs:md change='created'/>",
         "<rs:ln rel='via' href='http://example.com/b'/>",
         "more than 256 links"},
        {JSON, "{\"loc\":\"", "a",
         "loc: a string or space of more than 524288 bytes"},
        {JSON, "[", " ", "a string or space of more than 524288 bytes"},
        {JSON, "{\"length\":", "1",
         "length: a string or space of more than 524288 bytes"},
        {JSON, "{\"links\":[{}", ",{}", "more than 256 links"},
        {JSON, "{\"attributes\":[{}", ",{}", "more than 64 foreign attributes"},
        {JSON, "", "[",
         "changes: must hold objects, such as "
         "{\"loc\":\"http://example.com/a\",\"change\":\"updated\"}, not an "
         "array"},
        {NDJSON, "{", " ", "a string or space of more than 524288 bytes"},
    };

    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
        struct reading reading = {.rc = STATUS_OK};
        struct input_reader *reader =
            input_reader_new(format_of(slice_of(documents[i].type)), INPUT_POST,
                             10, describe_each, &reading);
        struct buf b;
        struct slice bytes = times(&b, documents[i].head, documents[i].more, "",
                                   TOO_MUCH / strlen(documents[i].more), "");

        assert_int_equal(input_reader_feed(reader, bytes, &reading.why),
                         STATUS_INVALID);
        assert_string_equal(reading.why.text, documents[i].sentence);
        input_reader_free(reader);
        buf_fini(&b);
    }
}

/* The sum of the copied pieces of an entry is bounded, though each piece on its
 * own is right. */
TEST(refuses_an_entry_of_many_large_pieces)
{
    static char value[200 * 1024];
    struct buf b;
    struct reading reading;

    memset(value, 'a', sizeof(value));
    buf_init(&b, 1 << 20);
    BUF_ADD(&b, "{\"loc\":\"http://example.com/a\",\"change\":\"created\","
                "\"attributes\":[");
    for (int i = 0; i < 3; i++) {
        buf_add_format(&b, "%s{\"ns\":\"urn:x\",\"name\":\"a%d\",\"value\":\"",
                       i > 0 ? "," : "", i);
        buf_add(&b, value, sizeof(value));
        BUF_ADD(&b, "\"}");
    }
    BUF_ADD(&b, "]}");
    reading = read_all(JSON, buf_slice(&b));

    assert_int_equal(reading.rc, STATUS_INVALID);
    assert_string_equal(reading.why.text,
                        "the entry has more than 524288 bytes");
    reading_fini(&reading);
    buf_fini(&b);
}

/* ... and of those that are not copied, because their piece of the document has
 * all of them. */
TEST(refuses_a_large_entry_wherever_it_is_cut)
{
    static const char *const types[] = {JSON, NDJSON};
    static const size_t steps[] = {1000, 65536, 1 << 20};
    static char value[200 * 1024];
    struct buf b;

    memset(value, 'a', sizeof(value));
    buf_init(&b, 1 << 20);
    BUF_ADD(&b, "{\"loc\":\"http://example.com/a\",\"change\":\"created\","
                "\"links\":[");
    for (int i = 0; i < 3; i++) {
        buf_add_text(&b, i > 0 ? ",{\"href\":\"" : "{\"href\":\"");
        buf_add(&b, value, sizeof(value));
        BUF_ADD(&b, "\"}");
    }
    BUF_ADD(&b, "]}");
    for (size_t i = 0; i < N_ELEMENTS(types); i++)
        for (size_t k = 0; k < N_ELEMENTS(steps); k++) {
            struct reading reading =
                read_steps(types[i], INPUT_POST, buf_slice(&b), steps[k]);

            assert_int_equal(reading.rc, STATUS_INVALID);
            assert_string_equal(reading.why.text,
                                "the entry has more than 524288 bytes");
            reading_fini(&reading);
        }
    buf_fini(&b);
}

/* Each attribute is compared with the earlier ones: a crowd of them is refused
 * before the parser sees the end of the tag. */
TEST(refuses_a_tag_with_a_crowd_of_attributes)
{
    struct reading reading;
    struct buf b;

    buf_init(&b, 1 << 20);
    buf_add_text(&b, XML_HEAD "<x:a");
    for (int i = 0; i < 20000; i++)
        buf_add_format(&b, " x:a%d=''", i);
    BUF_ADD(&b, "/></urlset>");
    reading = read_steps(XML, INPUT_POST, buf_slice(&b), 1400);

    assert_int_equal(reading.rc, STATUS_INVALID);
    assert_string_equal(reading.why.text,
                        "a tag with more than 8192 attributes");
    reading_fini(&reading);
    buf_fini(&b);
}

/* A byte at a time, each looked at once or a few times takes a fraction of a
 * second; everything looked at again for each byte would take minutes. */
TEST(is_not_slowed_down_by_what_trickles_in)
{
    static const struct {
        const char *type;
        const char *head;
    } documents[] = {
        {XML, XML_HEAD "<url><loc>http://example.com/a</loc>"
                       "<rs:md change='created' x:a='"},
        {XML, XML_HEAD "<!--"},
        {JSON, "{\"loc\":\""},
        {NDJSON, "\n{\"loc\":\""},
    };

    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
        struct buf b;
        struct slice bytes =
            times(&b, documents[i].head, "a", "", 400 * 1024, "");
        clock_t start = clock(); /* the CPU time of the process */
        struct reading reading =
            read_steps(documents[i].type, INPUT_POST, bytes, 1);

        assert_int_equal(reading.rc, STATUS_MALFORMED);
        assert_true((clock() - start) / CLOCKS_PER_SEC < 20);
        reading_fini(&reading);
        buf_fini(&b);
    }
}

static void *
read_often(void *user)
{
    struct slice *bytes = user;

    for (int i = 0; i < 200; i++) {
        struct reading reading = read_steps(bytes->data[0] == '[' ? JSON : XML,
                                            INPUT_POST, *bytes, 64);

        if (reading.rc || reading.n != 100)
            abort();
        reading_fini(&reading);
    }
    return NULL;
}

TEST(reads_on_several_threads_at_once)
{
    pthread_t threads[4];
    struct slice bytes[2];
    struct buf b[2];

    bytes[0] = times(&b[0], XML_HEAD, XML_ENTRY, "", 100, "</urlset>");
    bytes[1] = times(&b[1], "[", JSON_ENTRY, ",", 100, "]");
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, read_often, &bytes[i % 2]), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    buf_fini(&b[0]);
    buf_fini(&b[1]);
}
