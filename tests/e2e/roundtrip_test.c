/*
 * roundtrip_test.c - everything that an entry can say (tests/support/terms.h),
 * posted in every format, is the same in everything that can be read; and each
 * of these, posted again, is the same entries.
 *
 * What is read here is read by proto/; documents_values and examples look at
 * values by libxml2 and yajl alone.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"
#include "proto/formats.h"
#include "proto/vocab.h"
#include "tests/support/broker.h"
#include "tests/support/describe.h"
#include "tests/support/follower.h"
#include "tests/support/gzip.h"
#include "tests/support/http.h"
#include "tests/support/schema.h"
#include "tests/support/source.h"
#include "tests/support/terms.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define XML    "application/xml"
#define JSON   "application/json"
#define NDJSON "application/x-ndjson"

#define XML_MESSAGE 0

/* Where a set can be read: a path behind /sets/NAME, or a stream. */
static const struct channel {
    const char *name;
    const char *path;
    const char *subprotocol; /* NULL: not a stream */
    const char *type;
    bool is_closed; /* there when the list has been closed */
} channels[] = {
    [XML_MESSAGE] = {"XML message", "/stream?after=0", "resourcesync.xml", XML,
                     false},
    {"open list", "/changelist.xml", NULL, XML, false},
    {"the list by its number", "/changes/000000000001.xml", NULL, XML, false},
    {"closed list", "/changes/000000000001.xml", NULL, XML, true},
    {"memory", "/changes?after=0", NULL, JSON, false},
    {"memory of a closed list", "/changes?after=0", NULL, JSON, true},
    {"JSON message", "/stream?after=0", "resourcesync.json", JSON, false},
    {"XML message of a closed list", "/stream?after=0", "resourcesync.xml", XML,
     true},
    {"XML memory", "/changes?after=0", NULL, XML, false},
    {"XML memory of a closed list", "/changes?after=0", NULL, XML, true},
};

#define N_CHANNELS (sizeof(channels) / sizeof(channels[0]))

/* What `channel` says of the set. */
static void
fetch(struct broker *b, const char *set, const struct channel *channel,
      struct buf *to)
{
    char path[200];

    snprintf(path, sizeof(path), "/sets/%s%s", set, channel->path);
    buf_clear(to);
    if (channel->subprotocol) {
        struct follower f;

        follower_open(&f, b->port, path, channel->subprotocol);
        follower_news(&f);
        buf_add_slice(to, buf_slice(&f.text));
        follower_close(&f);
    } else {
        char accept[100];
        struct http h;

        http_open(&h, b->url);
        snprintf(accept, sizeof(accept), "Accept: %s", channel->type);
        assert_int_equal(http_ask(&h, "GET", path, accept, NULL), 200);
        assert_string_equal(http_header(&h, "Content-Type"), channel->type);
        buf_add_slice(to, buf_slice(&h.body));
        http_close(&h);
    }
    assert_false(to->failed);
}

/* Times and numbers are the broker's. */
static enum status
describe_posted(const struct change *change, void *user, struct problem *why)
{
    struct change posted = *change;

    (void)why;
    posted.datetime_us = DATETIME_NONE;
    posted.source_us = DATETIME_NONE;
    posted.seq = 0;
    describe(user, &posted);
    return STATUS_OK;
}

/* The document says what terms.h tells, in order. */
static void
assert_tells_all(const char *how, const char *type, struct slice document)
{
    struct problem why = {""};
    struct buf told, expected;
    struct reader *reader;
    enum status rc;

    buf_init(&told, 1 << 22);
    buf_init(&expected, 1 << 22);
    terms_told_all(&expected);
    reader = reader_new(format_of(slice_of(type)), READER_MESSAGE, 50000,
                        describe_posted, &told);
    assert_non_null(reader);
    rc = reader_feed(reader, document, &why);
    if (!rc)
        rc = reader_end(reader, &why);
    if (rc)
        fail_msg("%s: %s\n%.*s", how, why.text, SLICE_ARG(document));
    if (!slice_equal(buf_slice(&told), buf_slice(&expected)))
        fail_msg("%s: not\n%.*sbut\n%.*s", how, SLICE_ARG(buf_slice(&expected)),
                 SLICE_ARG(buf_slice(&told)));
    reader_free(reader);
    buf_fini(&expected);
    buf_fini(&told);
}

static void
rotate(struct broker *b, const char *set)
{
    struct http h;

    http_open(&h, b->url);
    source_rotate(&h, set);
    http_close(&h);
}

/* Every channel of the set tells everything, before and after its list is
 * closed; then nothing has been added to it but that. */
static void
assert_set_tells_all(struct broker *b, const char *set)
{
    struct buf text;

    buf_init(&text, 1 << 22);
    for (int is_closed = 0; is_closed < 2; is_closed++) {
        if (is_closed)
            rotate(b, set);
        for (size_t i = 0; i < N_CHANNELS; i++) {
            char how[100];

            if (channels[i].is_closed != (bool)is_closed)
                continue;
            snprintf(how, sizeof(how), "%s, %s", set, channels[i].name);
            fetch(b, set, &channels[i], &text);
            assert_tells_all(how, channels[i].type, buf_slice(&text));
        }
    }
    buf_fini(&text);
}

static void
post(struct broker *b, const char *set, const char *type, bool is_zipped,
     struct slice body)
{
    char path[100], line[100];
    const char *headers[] = {line, is_zipped ? "Content-Encoding: gzip" : NULL,
                             NULL};
    struct http h;

    http_open(&h, b->url);
    snprintf(path, sizeof(path), "/sets/%s/changes", set);
    snprintf(line, sizeof(line), "Content-Type: %s", type);
    if (http_request(&h, "POST", path, headers, body) != 200)
        fail_msg("%s, %s: %ld %.*s", set, type, h.status,
                 SLICE_ARG(buf_slice(&h.body)));
    http_close(&h);
}

FIXTURE(broker_setup, broker_teardown);

/* */
TEST(tells_everything_unchanged_whatever_it_came_in)
{
    static const struct {
        const char *set;
        const char *type;
        void (*write)(struct buf *to);
    } formats[] = {
        {"xml", XML, terms_xml_document},
        {"json", JSON, terms_json_document},
        {"ndjson", NDJSON, terms_ndjson_document},
    };
    struct broker *b = broker_of(state);
    struct buf body, zip;

    buf_init(&body, 1 << 22);
    buf_init(&zip, 1 << 22);
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        char set[20];

        buf_clear(&body);
        formats[i].write(&body);
        post(b, formats[i].set, formats[i].type, false, buf_slice(&body));
        assert_set_tells_all(b, formats[i].set);

        buf_clear(&zip);
        gzip_add(&zip, buf_slice(&body));
        snprintf(set, sizeof(set), "%s-gz", formats[i].set);
        post(b, set, formats[i].type, true, buf_slice(&zip));
        assert_set_tells_all(b, set);
    }
    buf_fini(&zip);
    buf_fini(&body);
}

/* Design section 4: what the broker says can be posted, to another set or to
 * the same one: the same entries, of our namespace their tags alone. */
TEST(takes_its_own_documents_again)
{
    struct broker *b = broker_of(state);
    struct buf texts[N_CHANNELS], body;

    buf_init(&body, 1 << 22);
    terms_xml_document(&body);
    post(b, "first", XML, false, buf_slice(&body));
    for (int is_closed = 0; is_closed < 2; is_closed++) {
        if (is_closed)
            rotate(b, "first");
        for (size_t i = 0; i < N_CHANNELS; i++)
            if (channels[i].is_closed == (bool)is_closed) {
                buf_init(&texts[i], 1 << 22);
                fetch(b, "first", &channels[i], &texts[i]);
            }
    }
    for (size_t i = 0; i < N_CHANNELS; i++) {
        char set[20];

        snprintf(set, sizeof(set), "again-%zu", i);
        post(b, set, channels[i].type, false, buf_slice(&texts[i]));
        assert_set_tells_all(b, set);
        buf_fini(&texts[i]);
    }
    buf_fini(&body);
}

/* in another set the event times are that one's own; a heartbeat is a
 * message, but no post. */
TEST(gives_what_is_posted_again_its_own_numbers_and_times)
{
    struct broker *b = broker_of(state);
    struct receipt second;
    struct xpath x;
    struct buf text;
    struct http h;

    buf_init(&text, 1 << 20);
    http_open(&h, b->url);
    source_post(&h, "one", 1, 2, 0);
    source_post(&h, "two", 1, 5, 0);
    fetch(b, "one", &channels[XML_MESSAGE], &text);
    assert_int_equal(source_send(&h, "two", XML, buf_slice(&text), &second),
                     200);
    assert_int_equal(second.first, 6);
    assert_int_equal(second.last, 7);
    assert_int_equal(http_get(&h, "/sets/two/changelist.xml"), 200);
    assert_valid(buf_slice(&h.body));
    xpath_open(&x, buf_slice(&h.body));
    assert_xpath_text(&x, "//s:url[7]/rs:md/@datetime", second.datetime);
    assert_xpath_text(&x, "//s:url[7]/rs:md/@td:seq", "7");
    assert_xpath_count(&x, "//s:url[7]/rs:md/@td:datetime", 1);
    assert_xpath_text(&x, "/s:urlset/rs:md/@td:last", "7");
    xpath_close(&x);

    assert_int_equal(http_get(&h, "/sets/one/changes?after=2"), 200);
    buf_clear(&text);
    buf_add_slice(&text, buf_slice(&h.body));
    assert_int_equal(source_send(&h, "two", JSON, buf_slice(&text), NULL), 422);
    http_close(&h);
    buf_fini(&text);
}

/* I-04, I-06: as older documents spell it; what is served is the new. */
TEST(takes_old_spellings_and_serves_the_new)
{
    static const char body[] =
        "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS "'>"
        "<rs:md capability='changelist-notification'"
        " from='2013-01-01T00:00:00Z' until='2013-01-02T00:00:00Z'/>"
        "<url><loc>http://example.com/old</loc><rs:md change='created' hash='"
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852"
        "b855'/></url></urlset>";
    struct broker *b = broker_of(state);
    struct xpath x;
    struct buf text;

    buf_init(&text, 1 << 20);
    post(b, "old", XML, false, SLICE(body));
    fetch(b, "old", &channels[XML_MESSAGE], &text);
    xpath_open(&x, buf_slice(&text));
    assert_xpath_text(&x, "/s:urlset/rs:md/@capability", "change-notification");
    assert_xpath_text(&x, "//s:url/rs:md/@hash",
                      "sha-256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934"
                      "ca495991b7852b855");
    xpath_close(&x);
    buf_fini(&text);
}
