/*
 * event_read_test.c - changes out of CloudEvents, in structured and binary
 * mode.
 */
#include "proto/input/event_read.h"

#include "proto/resourcesync/cloud_event.h"
#include "tests/test.h"
#include "tests/unit/proto/reading.h"

#define CE    EVENT_TYPE
#define BATCH "application/cloudevents-batch+json"

/* An event with id 1, of /shop, without its data. */
#define HEAD                                               \
    "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/" \
    "shop\",\"type\":\"t.x\""
#define CHANGE "{\"loc\":\"http://example.org/1\",\"change\":\"updated\"}"

/* The changes that a document of `type` brings, in pieces of any size. */
static void
assert_same_changes(const char *document, const char *type, const char *other)
{
    struct reading expected = read_all(type, slice_of(other));

    assert_int_equal(expected.rc, STATUS_OK);
    print_message("%s\n", document);
    assert_reads_in_pieces(CE, document, 7, expected.text.data);
    reading_fini(&expected);
}

/* As the attributes stand in JSON. */
#define OF_EVENT(more, type)                       \
    "\"attributes\":[" CE_IS("id", "1") "," CE_IS( \
        "source", "/shop") "," more CE_IS("type", type)
#define CE_IS(name, value)                                                    \
    "{\"ns\":\"" CLOUD_EVENT_NS "\",\"name\":\"" name "\",\"value\":\"" value \
    "\"}"

/* The data is read as if it was posted alone; the attributes are added, in the
 * order of their names, wherever they stand. */
TEST(reads_the_data_as_a_post)
{
    static const struct {
        const char *event, *same;
    } rows[] = {
        {HEAD ",\"data\":" CHANGE "}",
         "{\"loc\":\"http://example.org/1\",\"change\":\"updated\"," OF_EVENT(
             "", "t.x") "]}"},
        {"{\"data\":" CHANGE ",\"type\":\"t.x\",\"source\":\"/shop\","
         "\"subject\":\"s\",\"id\":\"1\",\"specversion\":\"1.0\"}",
         "{\"loc\":\"http://example.org/1\",\"change\":\"updated\"," OF_EVENT(
             CE_IS("subject", "s") ",", "t.x") "]}"},
        /* arrays and messages, numbers and truth, null is nothing */
        {HEAD ",\"n\":7,\"b\":true,\"z\":null,\"data\":[" CHANGE "]}",
         "{\"loc\":\"http://example.org/1\",\"change\":\"updated\","
         "\"attributes\":[" CE_IS("b", "true") "," CE_IS("id", "1") "," CE_IS(
             "n", "7") "," CE_IS("source", "/shop") "," CE_IS("type",
                                                              "t.x") "]}"},
        {HEAD ",\"data\":{\"set\":\"s\",\"changes\":[" CHANGE "]}}",
         "{\"loc\":\"http://example.org/1\",\"change\":\"updated\"," OF_EVENT(
             "", "t.x") "]}"},
        /* the time is that of the change, unless it has one */
        {HEAD ",\"time\":\"2026-11-01T10:00:00Z\",\"data\":" CHANGE "}",
         "{\"loc\":\"http://example.org/1\",\"change\":\"updated\","
         "\"datetime\":\"2026-11-01T10:00:00Z\"," OF_EVENT("", "t.x") "]}"},
        {HEAD ",\"time\":\"2026-11-01T10:00:00Z\",\"data\":"
              "{\"loc\":\"http://example.org/1\",\"change\":\"updated\","
              "\"datetime\":\"2026-11-02T10:00:00Z\"}}",
         "{\"loc\":\"http://example.org/1\",\"change\":\"updated\","
         "\"datetime\":\"2026-11-02T10:00:00Z\"," OF_EVENT(
             CE_IS("time", "2026-11-01T10:00:00Z") ",", "t.x") "]}"},
        /* attributes of the change stay, but for those of another event */
        {HEAD ",\"data\":{\"loc\":\"http://example.org/1\","
              "\"change\":\"updated\",\"attributes\":["
              "{\"ns\":\"urn:x\",\"name\":\"a\",\"value\":\"b\"}," CE_IS(
                  "id", "9") "]}}",
         "{\"loc\":\"http://example.org/1\",\"change\":\"updated\"," OF_EVENT(
             "", "t.x") ",{\"ns\":\"urn:x\",\"name\":\"a\",\"value\":\"b\"}]}"},
        /* bytes, XML and NDJSON */
        {HEAD ",\"data_base64\":\"eyJsb2MiOiJodHRwOi8vZXhhbXBsZS5vcmcvMSIsImNo"
              "YW5nZSI6InVwZGF0ZWQifQ==\"}",
         "{\"loc\":\"http://example.org/1\",\"change\":\"updated\"," OF_EVENT(
             "", "t.x") "]}"},
        {HEAD ",\"datacontenttype\":\"application/xml\",\"data\":\"" XML_HEAD
              "<url><loc>http://example.org/1</loc>"
              "<rs:md change='updated'/></url></urlset>\"}",
         "{\"loc\":\"http://example.org/1\",\"change\":\"updated\"," OF_EVENT(
             "", "t.x") "]}"},
        {HEAD ",\"datacontenttype\":\"application/x-ndjson\",\"data\":"
              "\"{\\\"loc\\\":\\\"http://example.org/1\\\","
              "\\\"change\\\":\\\"updated\\\"}\\n\"}",
         "{\"loc\":\"http://example.org/1\",\"change\":\"updated\"," OF_EVENT(
             "", "t.x") "]}"},
        {"[" HEAD ",\"data\":" CHANGE "}," HEAD ",\"data\":" CHANGE "}]",
         "[{\"loc\":\"http://example.org/1\",\"change\":\"updated\"," OF_EVENT(
             "", "t.x") "]},"
                        "{\"loc\":\"http://example.org/"
                        "1\",\"change\":\"updated\"," OF_EVENT("",
                                                               "t.x") "]}]"},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++)
        assert_same_changes(rows[i].event, JSON, rows[i].same);
}

/* Data that is no change is that of one which the attributes describe. */
TEST(makes_a_change_of_other_data)
{
    static const struct {
        const char *source, *subject, *type, *data; /* of the event */
        const char *loc, *change, *kept;            /* of its change */
    } rows[] = {
        {"/shop", "http://example.org/7", "t.created", "{\"a\": [1, 2.50]}",
         "http://example.org/7", "created", "{\"a\":[1,2.50]}"},
        {"http://example.org/shop", "a/b 7", "t.updated.v2", "\"text\"",
         "http://example.org/shop/a/b%207", "updated", "\"text\""},
        {"http://example.org/shop/?x#y", "7", "created.t", "null",
         "http://example.org/shop/7", "updated", NULL},
        {"http://example.org/shop/", "/b c", "t.Removed", "17",
         "http://example.org/b%20c", "deleted", "17"},
        {"http://example.org/shop", NULL, "deleted", NULL,
         "http://example.org/shop", "deleted", NULL},
        {"http://example.org/shop", NULL, "created.v1", "{\"changes\":[1]}",
         "http://example.org/shop", "created", "{\"changes\":[1]}"},
        {"urn:example:shop", "7", "new", "[{\"x\":{\"loc\":1}}]",
         "urn:example:shop/7", "created", "[{\"x\":{\"loc\":1}}]"},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        const char *subject = rows[i].subject ? rows[i].subject : "";
        const char *data = rows[i].data;
        char event[1000], same[1000];

        snprintf(event, sizeof(event),
                 "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"%s\","
                 "\"type\":\"%s\",\"subject\":\"%s\"%s%s}",
                 rows[i].source, rows[i].type, subject,
                 data ? ",\"data\":" : "", data ? data : "");
        snprintf(same, sizeof(same),
                 "{\"loc\":\"%s\",\"change\":\"%s\",\"attributes\":[" CE_IS(
                     "id", "1") "," CE_IS("source",
                                          "%s") ",%s%s%s" CE_IS("type",
                                                                "%s") "]%s%s}",
                 rows[i].loc, rows[i].change, rows[i].source,
                 *subject ? "{\"ns\":\"" CLOUD_EVENT_NS
                            "\",\"name\":\"subject\",\"value\":\""
                          : "",
                 subject, *subject ? "\"}," : "", rows[i].type,
                 rows[i].kept ? ",\"data\":" : "",
                 rows[i].kept ? rows[i].kept : "");
        assert_same_changes(event, JSON, same);
    }
    /* Text has its type with it. */
    assert_same_changes(
        HEAD ",\"subject\":\"http://example.org/7\","
             "\"datacontenttype\":\"text/csv\",\"data_base64\":\"YSxi\"}",
        JSON,
        "{\"loc\":\"http://example.org/7\",\"change\":\"updated\","
        "\"attributes\":[" CE_IS("datacontenttype", "text/csv") "," CE_IS("id", "1") "," CE_IS(
            "source",
            "/shop") "," CE_IS("subject",
                               "http://example.org/7") "," CE_IS("type",
                                                                 "t.x") "],"
                                                                        "\"data"
                                                                        "\":"
                                                                        "\"a,"
                                                                        "b\"}");
}

TEST(says_what_is_wrong)
{
    static const struct {
        const char *event;
        enum status rc;
        const char *words;
    } rows[] = {
        {"{\"data\":" CHANGE "}", STATUS_INVALID,
         "no specversion, id, source, type: an event has "},
        {"{\"specversion\":\"1.0\",\"id\":\"\",\"source\":\"a\",\"type\":"
         "\"b\"}",
         STATUS_INVALID, "no id: "},
        {"{\"specversion\":\"0.3\",\"id\":\"1\",\"source\":\"a\",\"type\":"
         "\"b\"}",
         STATUS_INVALID, "specversion: not \"1.0\": \"0.3\""},
        {"{\"specversion\":1.0}", STATUS_INVALID,
         "specversion: must be a string"},
        {HEAD ",\"id\":\"2\"}", STATUS_INVALID, "id: given twice"},
        {HEAD ",\"Trace\":\"2\"}", STATUS_INVALID,
         "\"Trace\" is no attribute of an event: a name has "},
        {HEAD ",\"x\":{}}", STATUS_INVALID,
         "x: must be a string, a number, true or false"},
        {HEAD ",\"x\":[]}", STATUS_INVALID,
         "x: must be a string, a number, true or false"},
        {HEAD ",\"time\":\"today\",\"data\":" CHANGE "}", STATUS_INVALID,
         "time: not a complete date and time, such as 2026-11-27T10:00:00Z: "
         "\"today\""},
        {HEAD "}", STATUS_INVALID, "no loc: the data of the event has none"},
        {HEAD ",\"data\":{\"loc\":\"http://example.org/1\"}}", STATUS_INVALID,
         "no change: "},
        {HEAD ",\"data\":" CHANGE ",\"data\":1}", STATUS_INVALID,
         "data: given twice"},
        {HEAD ",\"data\":" CHANGE ",\"data_base64\":\"\"}", STATUS_INVALID,
         "data_base64: beside other data"},
        {HEAD ",\"data_base64\":\"?\"}", STATUS_INVALID,
         "data_base64: not base64"},
        {HEAD ",\"data_base64\":\"eyJhIg==\"}", STATUS_MALFORMED,
         "data_base64: "},
        {HEAD ",\"datacontenttype\":\"application/xml\",\"data\":{}}",
         STATUS_INVALID, "data: must be a string, of the type "},
        {HEAD ",\"datacontenttype\":\"image/png\",\"data_base64\":\"AAAA\"}",
         STATUS_UNSUPPORTED, "data of the type \"image/png\" is neither "},
        {"[1]", STATUS_INVALID, "an event is an object, with "},
        {"[[]]", STATUS_INVALID, "an event is an object, with "},
        {"7", STATUS_INVALID, "an event is an object, with "},
        {"[]", STATUS_INVALID, "no entries"},
        {"{", STATUS_MALFORMED, ""},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++)
        for (size_t step = 1; step < 300; step += 298) {
            struct reading reading =
                read_steps(CE, INPUT_POST, slice_of(rows[i].event), step);

            print_message("%s: %s\n", rows[i].event, reading.why.text);
            assert_int_equal(reading.rc, rows[i].rc);
            assert_int_equal(
                strncmp(reading.why.text, rows[i].words, strlen(rows[i].words)),
                0);
            reading_fini(&reading);
        }
}

/* An event of `n` more attributes, and a change with `m` of its own. */
static struct reading
read_many(unsigned n, unsigned m)
{
    struct reading reading;
    struct buf event;

    buf_init(&event, 1 << 20);
    buf_add_text(&event, HEAD);
    for (unsigned i = 0; i < n; i++)
        buf_add_format(&event, ",\"x%u\":\"v\"", i);
    BUF_ADD(&event, ",\"data\":{\"loc\":\"http://example.org/1\",\"change\":"
                    "\"updated\",\"attributes\":[");
    for (unsigned i = 0; i < m; i++)
        buf_add_format(&event,
                       "%s{\"ns\":\"urn:x\",\"name\":\"y%u\",\"value\":\"\"}",
                       i ? "," : "", i);
    BUF_ADD(&event, "]}}");
    reading = read_all(CE, buf_slice(&event));
    buf_fini(&event);
    return reading;
}

TEST(bounds_attributes)
{
    enum { MOST = CHANGE_ATTRIBUTES_MAX - 3 };

    static const struct {
        unsigned n, m;
        const char *refused;
    } rows[] = {
        {MOST, 0, NULL},
        {MOST - 5, 5, NULL},
        {MOST + 1, 0, "x9: more than 64 foreign attributes"}, /* by name */
        {MOST, 1, "y0: more than 64 foreign attributes"},
        {100, 0, "x64: more than 64 foreign attributes"},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        struct reading reading = read_many(rows[i].n, rows[i].m);

        print_message("%s\n", reading.why.text);
        assert_int_equal(reading.rc,
                         rows[i].refused ? STATUS_INVALID : STATUS_OK);
        if (rows[i].refused)
            assert_string_equal(reading.why.text, rows[i].refused);
        reading_fini(&reading);
    }
}

/* Binary mode */

struct event_keys {
    size_t n;
    struct digest last;
};

static enum status
count_event(const struct digest *key, void *user, struct problem *why)
{
    struct event_keys *keys = user;

    (void)why;
    keys->n++;
    keys->last = *key;
    return STATUS_OK;
}

static struct reading
read_binary(const char *type, const char *id, struct slice body, size_t step,
            struct event_keys *keys)
{
    struct reading reading = {.rc = STATUS_OK};
    struct input_reader *reader = input_reader_new(
        format_of(SLICE(CE)), INPUT_POST, 50000, describe_each, &reading);
    const char *const attributes[][2] = {
        {"type", "t.x"},           {"id", id},
        {"datacontenttype", type}, {"specversion", "1.0"},
        {"source", "/shop"},       {"subject", "http://example.org/7"},
    };

    buf_init(&reading.text, 1 << 26);
    reader->options.on_event = count_event;
    reader->options.event_user = keys;
    for (size_t i = 0; i < N_ELEMENTS(attributes); i++)
        assert_int_equal(event_read_attribute(reader,
                                              slice_of(attributes[i][0]),
                                              slice_of(attributes[i][1]), NULL),
                         STATUS_OK);
    feed_in_steps(reader, &reading, body, step);
    input_reader_free(reader);
    buf_add(&reading.text, "", 1);
    return reading;
}

/* The same event in both modes has the same changes, and the same key. */
TEST(reads_binary_mode_as_structured)
{
    static const char *const rows[][3] = {
        {"", "", NULL},
        {"application/json", CHANGE, CHANGE},
        {"application/json; charset=utf-8", "[" CHANGE "," CHANGE "]",
         "[" CHANGE "," CHANGE "]"},
        {"application/vnd.x+json", " {\"a\": 1} ", "{\"a\":1}"},
        {"application/json", "\"loc\"", "\"loc\""},
        {"text/plain", "loc", "\"loc\""},
        {"application/x-ndjson", CHANGE "\n",
         "\"{\\\"loc\\\":\\\"http://example.org/1\\\","
         "\\\"change\\\":\\\"updated\\\"}\""},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        char event[1000];
        struct reading structured;

        snprintf(event, sizeof(event),
                 HEAD ",\"subject\":\"http://example.org/7\","
                      "\"datacontenttype\":\"%s\"%s%s}",
                 rows[i][0], rows[i][2] ? ",\"data\":" : "",
                 rows[i][2] ? rows[i][2] : "");
        structured = read_all(CE, slice_of(event));
        assert_string_equal(structured.why.text, "");
        for (size_t step = 1; step < 4; step++) {
            struct event_keys keys = {0};
            struct reading binary =
                read_binary(rows[i][0], "1", slice_of(rows[i][1]), step, &keys);

            assert_string_equal(binary.why.text, "");
            assert_string_equal(binary.text.data, structured.text.data);
            assert_int_equal(keys.n, 1);
            reading_fini(&binary);
        }
        reading_fini(&structured);
    }
}

/* In binary mode a long array of changes is not kept, other data is: up to the
 * limits of an entry, and of data. */
TEST(streams_changes_in_binary_mode)
{
    struct event_keys keys = {0}, other = {0};
    struct reading reading;
    struct buf body;

    buf_init(&body, 1 << 26);
    for (unsigned i = 0; i < 30000; i++)
        buf_add_text(&body, i ? "," CHANGE : "[" CHANGE);
    BUF_ADD(&body, "]");
    for (size_t step = 1000; step <= 10000000; step *= 10000) {
        reading =
            read_binary("application/json", "1", buf_slice(&body), step, &keys);
        assert_string_equal(reading.why.text, "");
        assert_int_equal(reading.n, 30000);
        reading_fini(&reading);
    }
    assert_int_equal(keys.n, 2);
    buf_clear(&body);
    BUF_ADD(&body, "[1");
    for (unsigned i = 0; i < 300000; i++)
        BUF_ADD(&body, ",1");
    BUF_ADD(&body, "]");
    reading =
        read_binary("application/json", "2", buf_slice(&body), 100000, &other);
    assert_int_equal(reading.rc, STATUS_INVALID);
    assert_non_null(strstr(reading.why.text, "data: more than 524288 bytes"));
    assert_int_equal(other.n, 0);
    reading_fini(&reading);
    buf_fini(&body);
}

/* For messages without a media type. */
TEST(recognizes_events)
{
    static const struct {
        const char *text;
        bool is_event;
    } rows[] = {
        {HEAD "}", true},
        {"[" HEAD "}]", true},
        {"{\"id\":\"1\",\"data\":{\"specversion\":1}}", false},
        {"[[\"specversion\"]]", false},
        {CHANGE, false},
        {"{\"specversion\":\"1.0\"", true},
        {"{\"a\" \"specversion\":\"1.0\"", false},
        {"", false},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++)
        assert_int_equal(event_read_is_event(slice_of(rows[i].text)),
                         rows[i].is_event);
    assert_true(
        event_read_is_structured(SLICE("Application/CloudEvents+avro")));
    assert_false(event_read_is_structured(SLICE("application/json")));
}
