/* A reader of posts that takes messages of brokers, too. */
#include <stdio.h>

#include "proto/http/idempotency_key.h"
#include "tests/test.h"
#include "tests/unit/proto/reading.h"

#define A     "\"loc\":\"http://example.com/a\",\"change\":\"created\""
#define EPOCH "0123456789abcdef"

/* The contents of a document, and its id. */
struct taken {
    struct reading reading;
    struct key id;
};

/* In one piece, and, as the same must come out, in small ones. */
static struct taken
take_step(const char *type, struct slice document, size_t step)
{
    struct taken t = {.reading = {.rc = STATUS_OK}};
    struct input_reader *reader =
        input_reader_new(format_of(slice_of(type)), INPUT_POST, 50000,
                         describe_each, &t.reading);
    struct slice id;

    assert_non_null(reader);
    buf_init(&t.reading.text, 1 << 20);
    reader->options.takes_message = true;
    feed_in_steps(reader, &t.reading, document, step);
    t.reading.coverage = reader->coverage;
    t.reading.capability = reader->capability;
    id = key_slice(&reader->id);
    if (id.size > 0)
        memcpy(t.id.text, id.data, id.size);
    t.id.size = id.size;
    input_reader_free(reader);
    buf_add(&t.reading.text, "", 1);
    return t;
}

static struct taken
take(const char *type, const char *document)
{
    struct taken whole =
        take_step(type, slice_of(document), strlen(document) + 1);

    for (size_t step = 1; step < 20; step += 6) {
        struct taken t = take_step(type, slice_of(document), step);

        assert_int_equal(t.reading.rc, whole.reading.rc);
        assert_string_equal(t.reading.why.text, whole.reading.why.text);
        assert_string_equal(t.reading.text.data, whole.reading.text.data);
        assert_int_equal(t.id.size, whole.id.size);
        reading_fini(&t.reading);
    }
    return whole;
}

static void
assert_takes(const char *document, const char *text, const char *id)
{
    struct taken t = take(JSON, document);

    assert_string_equal(t.reading.why.text, "");
    assert_int_equal(t.reading.rc, STATUS_OK);
    assert_string_equal(t.reading.text.data, text);
    assert_int_equal(t.id.size, strlen(id));
    assert_memory_equal(t.id.text, id, strlen(id));
    reading_fini(&t.reading);
}

static void
assert_does_not_take(const char *type, const char *document,
                     const char *sentence)
{
    struct taken t = take(type, document);

    assert_string_equal(t.reading.why.text, sentence);
    assert_int_equal(t.reading.rc, STATUS_INVALID);
    reading_fini(&t.reading);
}

/* The header is read as a receiver reads it; entries are read as in a post: a
 * seq and a time of another log mean nothing here. */
TEST(reads_the_header_of_a_message_and_the_entries_of_a_post)
{
    static const char json[] =
        "{\"set\":\"gauges\",\"epoch\":\"" EPOCH "\",\"after\":6,\"last\":7,"
        "\"from\":\"2026-01-01T00:00:00Z\",\"until\":\"2026-01-02T00:00:00Z\","
        "\"next\":\"http://example.com/n\",\"changes\":[{" A
        ",\"datetime\":\"2026-01-01T12:00:00Z\",\"seq\":7,"
        "\"sourceDatetime\":\"2025-01-01T00:00:00Z\"}]}";
    static const char xml[] =
        "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS
        "' xmlns:td='" NS_TIDINGS "'><rs:md capability='change-notification' "
        "from='2026-01-01T00:00:00Z' until='2026-01-02T00:00:00Z' "
        "td:epoch='" EPOCH "' td:after='6' td:last='7'/>"
        "<url><loc>http://example.com/a</loc><rs:md change='created' "
        "datetime='2026-01-01T12:00:00Z' td:seq='7' "
        "td:datetime='2025-01-01T00:00:00Z'/></url></urlset>";
    const char *const documents[][2] = {{JSON, json}, {XML, xml}};

    for (size_t i = 0; i < 2; i++) {
        struct taken t = take(documents[i][0], documents[i][1]);

        assert_string_equal(t.reading.why.text, "");
        assert_string_equal(t.reading.text.data,
                            "created [http://example.com/a]"
                            " datetime=[2026-01-01T12:00:00Z]\n");
        assert_string_equal(t.reading.coverage.epoch, EPOCH);
        assert_int_equal(t.reading.coverage.after, 6);
        assert_int_equal(t.reading.coverage.last, 7);
        assert_int_equal(t.id.size, 0);
        reading_fini(&t.reading);
    }
}

/* A message without changes is a message, too; and so is one with another
 * capability. */
TEST(takes_messages_without_entries_and_of_any_capability)
{
    static const char *const documents[][2] = {
        {JSON, "{\"after\":3,\"last\":3,\"changes\":[]}"},
        {JSON, "[]"},
        {JSON, "{\"id\":1,\"changes\":[]}"},
        {NDJSON, "\n"},
        {XML, "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS
              "'><rs:md capability='news'/></urlset>"},
    };

    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
        struct taken t = take(documents[i][0], documents[i][1]);

        assert_string_equal(t.reading.why.text, "");
        assert_int_equal(t.reading.rc, STATUS_OK);
        assert_int_equal(t.reading.n, 0);
        reading_fini(&t.reading);
    }
}

/* A message or a single change may have a name, wherever it stands. */
TEST(reads_what_a_document_calls_itself)
{
    static const char a[] = "created [http://example.com/a]\n";

    assert_takes("{\"id\":\"k\"," A "}", a, "k");
    assert_takes("{" A ",\"id\":\"k/\\u0031\\\"\"}", a, "k/1\"");
    assert_takes("{\"id\":17," A "}", a, "17");
    assert_takes("{\"id\":-1.5e3,\"changes\":[{" A "}]}", a, "-1.5e3");
    assert_takes("{\"changes\":[{" A "}],\"id\":\"k\"}", a, "k");
    assert_takes("{\"set\":\"s\",\"id\":\"k\",\"changes\":[{" A "}]}", a, "k");
    assert_takes("{" A "}", a, "");
}

/* An id is a key, given once, and no member of an entry in a list. */
TEST(refuses_what_is_no_name)
{
    static const char *const bad[][2] = {
        {"{\"id\":\"\"," A "}",
         "id: not 1 to 255 visible ASCII characters: \"\""},
        {"{\"id\":\"a b\"," A "}",
         "id: not 1 to 255 visible ASCII characters: \"a b\""},
        {"{\"id\":\"\\u00e5\"," A "}",
         "id: not 1 to 255 visible ASCII characters: \"\xc3\xa5\""},
        {"{\"id\":null," A "}",
         "id: must be a string or a number, such as \"7\", not true, false or "
         "null"},
        {"{\"id\":{}," A "}",
         "id: must be a string or a number, such as \"7\", not an object"},
        {"{\"id\":[1]," A "}",
         "id: must be a string or a number, such as \"7\", not an array"},
        {"{\"id\":1,\"id\":1," A "}", "id: given twice"},
        {"{\"id\":1," A ",\"id\":2}", "id: given twice"},
        {"{\"id\":1}", "no change: created, updated or deleted?"},
        {"[{\"id\":1," A "}]", "unknown member \"id\" in the change"},
        {"{\"changes\":[{" A ",\"id\":1}]}",
         "unknown member \"id\" in the change"},
        {"{" A ",\"links\":[{\"id\":1}]}", "unknown member \"id\" in the link"},
    };
    char id[KEY_SIZE_MAX + 2], document[600];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_does_not_take(JSON, bad[i][0], bad[i][1]);
    assert_does_not_take(NDJSON, "{\"id\":1," A "}",
                         "unknown member \"id\" in the change");

    memset(id, 'k', sizeof(id) - 1);
    id[sizeof(id) - 2] = '\0';
    snprintf(document, sizeof(document), "{\"id\":\"%s\"," A "}", id);
    assert_takes(document, "created [http://example.com/a]\n", id);
    id[sizeof(id) - 2] = 'k';
    id[sizeof(id) - 1] = '\0';
    snprintf(document, sizeof(document), "{\"id\":\"%s\"," A "}", id);
    {
        struct taken t = take(JSON, document);

        assert_int_equal(t.reading.rc, STATUS_INVALID);
        reading_fini(&t.reading);
    }
}

/* A post that is not marked as a message is read as before. */
TEST(a_post_has_no_name_and_tells_no_epoch)
{
    struct reading reading =
        read_all(JSON, SLICE("{\"epoch\":\"no\",\"changes\":[{" A "}]}"));
    struct input_reader *reader;
    struct problem why = {""};

    assert_int_equal(reading.rc, STATUS_OK);
    assert_string_equal(reading.coverage.epoch, "");
    reading_fini(&reading);
    assert_refused(JSON, "{\"id\":\"k\"," A "}", STATUS_INVALID,
                   "unknown member \"id\" in the change");
    assert_refused(JSON, "{\"changes\":[{" A "}],\"id\":\"k\"}", STATUS_INVALID,
                   "unknown member \"id\" in the message");
    assert_refused(JSON, "{\"changes\":[]}", STATUS_INVALID, "no entries");

    /* Nor has a post that comes after a message, by the same reader. */
    reading = (struct reading){.rc = STATUS_OK};
    buf_init(&reading.text, 1000);
    reader = input_reader_new(format_of(SLICE(JSON)), INPUT_POST, 10,
                              describe_each, &reading);
    reader->options.takes_message = true;
    assert_int_equal(
        input_reader_feed(reader, SLICE("{\"id\":\"k\"," A "}"), &why),
        STATUS_OK);
    input_reader_reset(reader, describe_each, &reading);
    assert_int_equal(reader->id.size, 0);
    assert_int_equal(
        input_reader_feed(reader, SLICE("{\"id\":\"k\"," A "}"), &why),
        STATUS_INVALID);
    input_reader_free(reader);
    reading_fini(&reading);
}

/* A later broker may say more of a message; a change is a source's, which
 * learns of its mistake, also where that stands first. */
TEST(passes_over_members_of_a_message_that_it_does_not_know)
{
    static const char a[] = "created [http://example.com/a]\n";

    assert_takes("{\"more\":{\"a\":[1,{\"changes\":[{}],\"id\":3}]},\"after\":3"
                 ",\"new\":null,\"changes\":[{" A "}],\"y\":[[2]]}",
                 a, "");
    assert_takes("{\"v\":2,\"\":[],\"id\":\"k\",\"changes\":[{" A "}]}", a,
                 "k");
    assert_does_not_take(JSON, "{\"v\":2,\"w\":[{}]," A "}",
                         "unknown member \"v\" in the change");
    assert_does_not_take(JSON, "{\"\":2," A "}",
                         "unknown member \"\" in the change");
    assert_does_not_take(JSON, "{\"v\":2}",
                         "unknown member \"v\" in the change");
    assert_does_not_take(JSON, "{" A ",\"v\":2}",
                         "unknown member \"v\" in the change");
    assert_does_not_take(JSON, "{\"v\":1,\"changes\":[{" A ",\"w\":2}]}",
                         "unknown member \"w\" in the change");
}

/* The log must be known when its entries are handed over. */
TEST(refuses_an_epoch_that_comes_too_late_or_is_none)
{
    struct taken t = take(JSON, "{\"changes\":[],\"epoch\":\"" EPOCH "\"}");

    assert_int_equal(t.reading.rc, STATUS_OK);
    assert_string_equal(t.reading.coverage.epoch, EPOCH);
    reading_fini(&t.reading);
    assert_does_not_take(JSON,
                         "{\"changes\":[{" A "}],\"epoch\":\"" EPOCH "\"}",
                         "epoch: behind the changes, not before them");
    assert_does_not_take(
        JSON, "{\"epoch\":\"x\",\"changes\":[{" A "}]}",
        "epoch: must be a string, such as \"9f2c5b7d01e4a683\", not \"x\"");
    assert_does_not_take(XML,
                         "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS
                         "' xmlns:td='" NS_TIDINGS
                         "'><rs:md capability='changelist' td:epoch='x'/>"
                         "</urlset>",
                         "rs:md: attribute \"td:epoch\" has a bad value");
}
