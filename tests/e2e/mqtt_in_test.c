/*
 * mqtt_in_test.c - messages of an MQTT broker become changes: in which forms,
 * how often, and what becomes of the bad ones and of our own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/bridge_stage.h"
#include "tests/support/jsonpath.h"
#include "tests/support/mqtt_reader.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define ONE(number) \
    "{\"loc\":\"http://example.com/r/" number "\",\"change\":\"updated\"}"

#define XML_HEAD                                                     \
    "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" " \
    "xmlns:rs=\"http://www.openarchives.org/rs/terms/\">"            \
    "<rs:md capability=\"changelist\"/>"
#define XML_ONE(number)                      \
    "<url><loc>http://example.com/r/" number \
    "</loc><rs:md change=\"updated\"/></url>"

static struct bridge_stage *
begin(void **state, const char *keys, const char *filter)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);

    bridge_stage_config(s, "[mqtt a]\nurl = %s\nprefix = a\n" BRIDGE_QUICK "%s",
                        s->mqtt.url, keys);
    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    mosquittod_await_subscription(&s->mqtt, filter);
    s->teller = mqtt_peer_tell(&s->mqtt, NULL);
    return s;
}

/* Tells it, and waits until it is acknowledged: by the MQTT broker, that is. */
static void
say(struct bridge_stage *s, const char *topic, const char *type,
    const char *text)
{
    size_t n = mqtt_peer_say(s->teller,
                             &(struct mqtt_saying){.topic = topic,
                                                   .type = type,
                                                   .payload = slice_of(text)});

    mqtt_peer_await_said(s->teller, n);
}

/* The i-th entry of a set is this. */
static void
assert_entry(struct bridge_stage *s, const char *set, uint64_t seq,
             const char *loc)
{
    struct jsonpath j;
    char path[100];

    snprintf(path, sizeof(path), "/sets/%s", set);
    assert_int_equal(http_ask(&s->http, "GET", path, NULL), 200);
    jsonpath_open(&j, buf_slice(&s->http.body));
    snprintf(path, sizeof(path), "/sets/%s/changes?after=%s-%" PRIu64, set,
             jsonpath_text(&j, "epoch"), seq - 1);
    jsonpath_close(&j);
    assert_int_equal(http_ask(&s->http, "GET", path, NULL), 200);
    jsonpath_open(&j, buf_slice(&s->http.body));
    assert_string_equal(jsonpath_text(&j, "changes.0.loc"), loc);
    jsonpath_close(&j);
}

FIXTURE(NULL, bridge_stage_teardown);

/* By its content type, or by its first byte where it has none. */
TEST(messages_come_in_all_forms)
{
    static const struct {
        const char *type, *text;
        uint64_t last;
    } cases[] = {
        {NULL, ONE("1"), 1},
        {NULL, " [" ONE("2") "," ONE("3") "]", 3},
        {NULL, "{\"changes\":[" ONE("4") "]}", 4},
        {NULL, XML_HEAD XML_ONE("5") XML_ONE("6") "</urlset>", 6},
        {"application/json", ONE("7"), 7},
        {"application/json; charset=utf-8", "[" ONE("8") "]", 8},
        {"application/xml", XML_HEAD XML_ONE("9") "</urlset>", 9},
        {"text/xml",
         "<?xml version=\"1.0\"?>" XML_HEAD XML_ONE("10") "</urlset>", 10},
        {"application/x-ndjson", ONE("11") "\n" ONE("12") "\n", 12},
        {"text/plain", ONE("13"), 13}, /* nobody reads that: a look at it */
    };
    struct bridge_stage *s = begin(state, "in = feed -> news\n", "feed");

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char loc[40];

        say(s, "feed", cases[i].type, cases[i].text);
        bridge_stage_await_last(&s->http, "news", cases[i].last);
        snprintf(loc, sizeof(loc), "http://example.com/r/%" PRIu64,
                 cases[i].last);
        assert_entry(s, "news", cases[i].last, loc);
    }
    bridge_stage_await(s, "bridges.0.in.entries", 13); /* behind the commit */
    assert_int_equal(bridge_stage_number(s, "bridges.0.in.entries"), 13);
    assert_int_equal(bridge_stage_number(s, "bridges.0.in.posted"), 10);
    assert_int_equal(bridge_stage_number(s, "bridges.0.in.rejected"), 0);
    bridge_stage_end(s);
}

/* As MQTT 3.1.1 has no properties, forms and keys are in what is told. */
TEST(version_3_1_1_has_all_it_needs)
{
    struct bridge_stage *s =
        begin(state, "version = 3.1.1\nin = feed -> news\n", "feed");

    say(s, "feed", "application/x-ndjson", ONE("1"));
    say(s, "feed", "application/json", XML_HEAD XML_ONE("2") "</urlset>");
    say(s, "feed", NULL, "{\"id\":\"k\",\"changes\":[" ONE("3") "]}");
    say(s, "feed", NULL, "{\"id\":\"k\",\"changes\":[" ONE("3") "]}");
    say(s, "feed", NULL, ONE("4"));
    bridge_stage_await_last(&s->http, "news", 4);
    assert_entry(s, "news", 4, "http://example.com/r/4");
    bridge_stage_end(s);
}

/* What has a key is kept once, however often it comes; what has none is kept as
 * often as it comes. */
TEST(a_key_tells_a_repeat)
{
    struct bridge_stage *s = begin(state, "in = feed -> news\n", "feed");
    struct mqtt_saying sayings[] = {
        {.payload = SLICE(ONE("1")), .key = "k1"},
        {.payload = SLICE(ONE("2")), .key = "k2", .key_name = "id"},
        {.payload = SLICE(ONE("3")), .correlation = SLICE("\x00\xff k3")},
        {.payload = SLICE("{\"id\":\"k4\",\"changes\":[" ONE("4") "]}")},
        {.payload = SLICE("{\"id\":\"k5\",\"loc\":\"http://example.com/r/5\","
                          "\"change\":\"updated\"}")},
    };
    size_t n = 0;

    for (unsigned round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof(sayings) / sizeof(sayings[0]); i++) {
            sayings[i].topic = "feed";
            n = mqtt_peer_say(s->teller, &sayings[i]);
        }
    mqtt_peer_await_said(s->teller, n);
    bridge_stage_await(s, "bridges.0.in.posted", 15);
    bridge_stage_await_last(&s->http, "news", 5);

    for (unsigned i = 0; i < 3; i++)
        say(s, "feed", NULL, ONE("6"));
    bridge_stage_await_last(&s->http, "news", 8);
    assert_entry(s, "news", 5, "http://example.com/r/5");
    bridge_stage_end(s);
}

TEST(a_bad_message_is_told_of_and_stops_nothing)
{
    static const struct {
        const char *topic, *text, *set, *status;
    } cases[] = {
        {"feed/news", "<urlset>", "news", "4"},
        {"feed/news", "nonsense", "news", "4"},
        {"feed/news", "{\"loc\":\"no uri\",\"change\":\"updated\"}", "news",
         "422"},
        {"feed/news", "[" ONE("1") ",{\"loc\":\"http://example.com/r/2\"}]",
         "news", "422"},
        {"feed/No set", ONE("1"), "No set", "4"},
    };
    struct bridge_stage *s = begin(state, "in = feed/+ -> +\n", "feed/+");
    size_t n = sizeof(cases) / sizeof(cases[0]);
    struct jsonpath j;

    s->hearer = mqtt_peer_hear(
        &s->mqtt, &(struct mqtt_hearing){.filters = {"a/rejected"}});
    for (size_t i = 0; i < n; i++) {
        const struct mqtt_heard *h;

        say(s, cases[i].topic, NULL, cases[i].text);
        h = mqtt_peer_await(s->hearer, "a/rejected", i + 1);
        assert_string_equal(h->content_type, "application/problem+json");
        assert_false(h->is_retained);
        jsonpath_open(&j, h->payload);
        assert_non_null(jsonpath_text(&j, "title"));
        assert_non_null(jsonpath_text(&j, "detail"));
        assert_non_null(jsonpath_digits(&j, "status"));
        assert_memory_equal(jsonpath_digits(&j, "status"), cases[i].status,
                            strlen(cases[i].status));
        assert_string_equal(jsonpath_text(&j, "topic"), cases[i].topic);
        assert_string_equal(jsonpath_text(&j, "set"), cases[i].set);
        jsonpath_close(&j);
    }
    assert_int_equal(bridge_stage_number(s, "bridges.0.in.rejected"), n);
    assert_int_equal(bridge_stage_last(&s->http, "news"), 0);

    /* One key for two contents cannot be what the source meant. */
    mqtt_peer_say(s->teller, &(struct mqtt_saying){.topic = "feed/news",
                                                   .payload = SLICE(ONE("1")),
                                                   .key = "k1"});
    mqtt_peer_say(s->teller, &(struct mqtt_saying){.topic = "feed/news",
                                                   .payload = SLICE(ONE("2")),
                                                   .key = "k1"});
    jsonpath_open(&j, mqtt_peer_await(s->hearer, "a/rejected", n + 1)->payload);
    assert_string_equal(jsonpath_text(&j, "key"), "k1");
    jsonpath_close(&j);
    bridge_stage_await_last(&s->http, "news", 1);
    bridge_stage_end(s);
}

/* Bytes do not come by MQTT: a message can only tell of some that the set has,
 * or of the end of a resource. */
TEST(a_set_that_keeps_content_inline_refuses_what_it_has_no_bytes_of)
{
    static const char *const bad[] = {
        ONE("1"),
        "{\"loc\":\"http://example.com/r/1\",\"change\":\"updated\",\"hash\":{"
        "\"sha-256\":\"5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e8"
        "46f6be03\"}}",
    };
    static const char *const json[] = {"Content-Type: application/json", NULL};
    struct bridge_stage *s = begin(state, "in = feed/+ -> +\n", "feed/+");
    struct jsonpath j;

    assert_int_equal(http_request(&s->http, "PUT", "/sets/news", json,
                                  SLICE("{\"content\":\"inline\"}")),
                     201);
    s->hearer = mqtt_peer_hear(
        &s->mqtt, &(struct mqtt_hearing){.filters = {"a/rejected"}});
    for (size_t i = 0; i < 2; i++) {
        say(s, "feed/news", NULL, bad[i]);
        jsonpath_open(&j,
                      mqtt_peer_await(s->hearer, "a/rejected", i + 1)->payload);
        assert_string_equal(jsonpath_digits(&j, "status"), "422");
        assert_non_null(strstr(jsonpath_text(&j, "detail"),
                               "the set \"news\" keeps content inline"));
        jsonpath_close(&j);
    }
    say(s, "feed/news", NULL,
        "{\"loc\":\"http://example.com/r/1\",\"change\":\"deleted\"}");
    bridge_stage_await_last(&s->http, "news", 1);
    bridge_stage_end(s);
}

/* Text that is `n` times `piece`, the caller's. */
static struct buf
repeated(const char *before, const char *piece, size_t n)
{
    struct buf text;

    buf_init(&text, SIZE_MAX);
    buf_add_text(&text, before);
    for (size_t i = 0; i < n; i++)
        buf_add_text(&text, piece);
    assert_false(text.failed);
    return text;
}

/* Whatever a publisher thinks of: it is told what is wrong, in words that are
 * safe to read, or it is taken; what comes behind it is. */
TEST(a_hostile_message_harms_nothing)
{
    struct bridge_stage *s = begin(state, "in = feed/# -> news\n", "feed/#");
    struct buf lists = repeated("", "[", 1000000);
    struct buf objects = repeated("{\"changes\":[", "{\"a\":", 100000);
    struct buf elements = repeated("", "<a>", 100000);
    struct buf id = repeated("{\"id\":\"", "k", 10000);
    struct buf text = repeated("\x1b[31m\"\\", "x", 70000);
    struct buf topic = repeated("feed/\"\\<b>", "y", 2000);
    struct slice one = SLICE(ONE("1"));
    char key[1001] = "", correlation[60000];

    memset(key, 'k', sizeof(key) - 1);
    memset(correlation, 0, sizeof(correlation));
    BUF_ADD(&id, "\",\"changes\":[" ONE("1") "]}");
    buf_add(&topic, "", 1);

    const struct {
        const char *status; /* NULL: it is taken */
        struct mqtt_saying saying;
    } cases[] = {
        {"4", {.payload = buf_slice(&lists)}},
        {"4", {.payload = buf_slice(&objects)}},
        {"4", {.payload = buf_slice(&elements)}},
        {"4", {.payload = buf_slice(&id)}},
        {"415", {.payload = buf_slice(&text)}},
        {"415", {.payload = SLICE("\x1f\x8b\x08\0\0\0\0\0")}},
        {"415", {.payload = SLICE("\x1f\x8b"), .type = "application/gzip"}},
        {"4", {.payload = SLICE("{\"loc\":\"http://a/\xff\xfe\"}")}},
        {"4", {.payload = SLICE("{\"loc\":\"http://a/\\u0000\"}")}},
        {"4", {.payload = SLICE("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>")}},
        {"422", {.payload = one, .key = key}},
        {"422", {.payload = one, .key = "\xe2\x80\xae"}},
        {"415", {.payload = SLICE("x"), .topic = topic.data}},
        {NULL,
         {.payload = one, .correlation = {correlation, sizeof(correlation)}}},
    };

    size_t n = sizeof(cases) / sizeof(cases[0]), n_bad = 0;

    s->hearer = mqtt_peer_hear(
        &s->mqtt, &(struct mqtt_hearing){.filters = {"a/rejected"}});
    for (size_t i = 0; i < n; i++) {
        struct mqtt_saying saying = cases[i].saying;
        struct jsonpath j;

        if (!saying.topic)
            saying.topic = "feed/x";
        mqtt_peer_say(s->teller, &saying);
        if (!cases[i].status)
            continue;
        jsonpath_open(
            &j, mqtt_peer_await(s->hearer, "a/rejected", ++n_bad)->payload);
        assert_non_null(jsonpath_text(&j, "detail"));
        assert_memory_equal(jsonpath_digits(&j, "status"), cases[i].status,
                            strlen(cases[i].status));
        jsonpath_close(&j);
    }
    bridge_stage_await_last(&s->http, "news", n - n_bad);

    /* A flood of them: all are counted, and what is good gets through. */
    for (unsigned i = 0; i < 5000; i++)
        mqtt_peer_say(s->teller, &(struct mqtt_saying){.topic = "feed",
                                                       .payload = SLICE("{")});
    say(s, "feed", NULL, ONE("2"));
    bridge_stage_await_last(&s->http, "news", n - n_bad + 1);
    bridge_stage_await(s, "bridges.0.in.rejected", n_bad + 5000);
    assert_int_equal(bridge_stage_number(s, "bridges.0.in.rejected"),
                     n_bad + 5000);
    assert_int_equal(bridge_stage_number(s, "bridges.0.in.connections"), 1);
    bridge_stage_end(s);
    buf_fini(&lists);
    buf_fini(&objects);
    buf_fini(&elements);
    buf_fini(&id);
    buf_fini(&text);
    buf_fini(&topic);
}

/* Each topic to the set of its filter; + of a mapping is a level's name. */
TEST(topics_are_mapped_to_sets)
{
    struct bridge_stage *s = begin(state,
                                   "in = plant/nine/special -> special\n"
                                   "in = plant/+/changes -> +\n"
                                   "in = library/# -> books\n",
                                   "library/#");

    say(s, "plant/nine/special", NULL, ONE("1"));
    say(s, "plant/seven/changes", NULL, ONE("2"));
    say(s, "plant/eight/changes", NULL, ONE("3"));
    say(s, "plant/eight/other", NULL, ONE("4")); /* nobody's */
    say(s, "library", NULL, ONE("5"));
    say(s, "library/a/b", NULL, ONE("6"));
    bridge_stage_await_last(&s->http, "books", 2);
    bridge_stage_await_last(&s->http, "special", 1);
    bridge_stage_await_last(&s->http, "seven", 1);
    bridge_stage_await_last(&s->http, "eight", 1);
    assert_entry(s, "eight", 1, "http://example.com/r/3");
    assert_entry(s, "books", 1, "http://example.com/r/5");
    bridge_stage_end(s);
}

/* Of filters that overlap the first one counts. An MQTT broker may send what
 * matches several of them as often, so it takes a key to have it once. */
TEST(the_first_filter_that_matches_counts)
{
    struct bridge_stage *s = begin(state,
                                   "in = plant/special/# -> special\n"
                                   "in = plant/+/changes -> +\n",
                                   "plant/+/changes");
    struct mqtt_saying saying = {.topic = "plant/special/changes",
                                 .payload = SLICE(ONE("1")),
                                 .key = "k1"};

    mqtt_peer_say(s->teller, &saying);
    saying.topic = "plant/other/changes";
    mqtt_peer_say(s->teller, &saying);
    bridge_stage_await_last(&s->http, "other", 1);
    bridge_stage_await_last(&s->http, "special", 1);
    bridge_stage_end(s);
}

/* A retained message is taken when its filter is new, and never again; also
 * while we were away. */
TEST(a_retained_message_is_taken_once)
{
    static const char *const keys[] = {"k1", "k2", "k3"};
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    const struct mqtt_saying retained = {
        .topic = "feed/kept", .payload = SLICE(ONE("1")), .is_retained = true};

    s->teller = mqtt_peer_tell(&s->mqtt, NULL);
    mqtt_peer_await_said(s->teller, mqtt_peer_say(s->teller, &retained));
    bridge_stage_config(
        s, "[mqtt a]\nurl = %s\n" BRIDGE_QUICK "in = feed/# -> news\n",
        s->mqtt.url);
    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    bridge_stage_await_last(&s->http, "news", 1);

    for (unsigned i = 0; i < 3; i++) {
        uint64_t last = bridge_stage_last(&s->http, "news");
        struct mqtt_saying keyed = {
            .topic = "feed/1", .payload = SLICE(ONE("3")), .key = keys[i]};

        if (i == 1)
            broker_kill9(&s->broker);
        else
            broker_stop(&s->broker);
        say(s, "feed/1", NULL, ONE("2")); /* the session waits for us */
        if (i == 2) {
            mosquittod_stop(&s->mqtt);
            mosquittod_restart(&s->mqtt);
        }
        broker_restart(&s->broker);
        bridge_stage_await_last(&s->http, "news", last + 1);
        assert_entry(s, "news", last + 1, "http://example.com/r/2");
        /* The kill may come before its acknowledgement: then it comes again. */
        mqtt_peer_say(s->teller, &keyed);
        bridge_stage_await_last(&s->http, "news", last + 2);
    }
    assert_int_equal(bridge_stage_last(&s->http, "news"), 7);
    bridge_stage_end(s);
}

/* In and out on the same MQTT broker, set and topic: what we tell comes back,
 * and is not told again. */
TEST(what_we_tell_does_not_echo)
{
    struct bridge_stage *s = begin(
        state, "out = *\nin = a/+/notifications -> +\nin = fence -> other\n",
        "fence");
    struct mqtt_reader r;

    s->hearer =
        mqtt_peer_hear(&s->mqtt, &(struct mqtt_hearing){.filters = {"#"}});
    mqtt_reader_init(&r, s->hearer, "a/news/notifications", NOTICE_JSON);
    source_post(&s->http, "news", 1, 3, 0);
    mqtt_reader_until(&r, 3);
    say(s, "a/news/notifications", NULL, ONE("4")); /* another's */
    bridge_stage_await_last(&s->http, "news", 4);

    /* What was told last has come back when what follows it is there. */
    bridge_stage_await(s, "bridges.0.in.ignored", 2);
    say(s, "fence", NULL, ONE("5"));
    bridge_stage_await_last(&s->http, "other", 1);
    bridge_stage_await(s, "bridges.0.in.ignored", 3);
    assert_int_equal(bridge_stage_last(&s->http, "news"), 4);
    assert_int_equal(bridge_stage_last(&s->http, "other"), 1);
    assert_int_equal(bridge_stage_number(s, "bridges.0.in.rejected"), 0);
    mqtt_reader_fini(&r);
    bridge_stage_end(s);
}

/* A filter for everything takes what we tell of other sets as it takes all
 * else; not positions, status and rejections, nor what it itself led to. */
TEST(a_filter_for_everything_does_no_harm)
{
    struct bridge_stage *s = begin(state, "out = *\nin = # -> all\n", "#");

    source_post(&s->http, "news", 1, 3, 0);
    bridge_stage_await_last(&s->http, "all", 3);
    assert_entry(s, "all", 3, "http://example.com/r/3");
    say(s, "any/thing", NULL, "nonsense"); /* rejected, on a topic of ours */
    bridge_stage_await(s, "bridges.0.in.rejected", 1);
    for (unsigned i = 1; i <= 3; i++) {
        say(s, "any/thing", NULL, ONE("4"));
        bridge_stage_await_last(&s->http, "all", 3 + i);
    }
    assert_int_equal(bridge_stage_number(s, "bridges.0.in.rejected"), 1);
    assert_int_equal(bridge_stage_last(&s->http, "news"), 3);
    bridge_stage_end(s);
}

/* Two of us that tell each other by one MQTT broker, on the same topics: each
 * change is in both, once. */
TEST(two_brokers_do_not_go_round_in_circles)
{
    static const char keys[] =
        "[mqtt both]\nurl = %s\nclient-id = %s\nout = *\nprefix = shared\n"
        "in = shared/+/notifications -> +\n" BRIDGE_QUICK;
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    char config[320], text[400];
    struct broker other;
    struct http http;

    bridge_stage_config(s, keys, s->mqtt.url, "one");
    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    mosquittod_await_said(&s->mqtt, "one-in 1 shared/+/notifications");
    snprintf(config, sizeof(config), "%s/other.ini", s->dir.path);
    snprintf(text, sizeof(text), keys, s->mqtt.url, "two");
    tempdir_write(s->dir.fd, "other.ini", text);
    broker_open(&other, "--config", config, "--heartbeat", "3600", NULL);
    mosquittod_await_said(&s->mqtt, "two-in 1 shared/+/notifications");
    http_open(&http, other.url);

    for (unsigned i = 0; i < 20; i++) {
        source_post(&s->http, "news", 1 + 2 * i, 1, 0);
        source_post(&http, "news", 2 + 2 * i, 1, 0);
    }
    bridge_stage_await_beyond(&s->http, "news", 40);
    bridge_stage_await_beyond(&http, "news", 40);

    /* Whatever could come back did, when what was told after it is there. */
    for (unsigned i = 0; i < 3; i++) {
        source_post(&s->http, "fence", 1, 1, 0);
        bridge_stage_await_beyond(&http, "fence", 2 * i + 1);
        source_post(&http, "fence", 1, 1, 0);
        bridge_stage_await_beyond(&s->http, "fence", 2 * i + 2);
    }
    assert_int_equal(bridge_stage_last(&s->http, "news"), 40);
    assert_int_equal(bridge_stage_last(&http, "news"), 40);
    assert_int_equal(bridge_stage_last(&s->http, "fence"), 6);
    assert_int_equal(bridge_stage_last(&http, "fence"), 6);
    http_close(&http);
    broker_stop(&other);
    broker_close(&other);
    bridge_stage_end(s);
}

/* Whatever was acknowledged is there after a kill, and nothing has to be told
 * again that has a key: io.md, libmosquitto. */
TEST(what_is_acknowledged_is_committed)
{
    struct bridge_stage *s = begin(state, "in = feed -> news\n", "feed");
    unsigned n = 0;

    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 200; i++) {
            char text[100], key[20];

            snprintf(text, sizeof(text),
                     "{\"loc\":\"http://example.com/r/%u\","
                     "\"change\":\"updated\"}",
                     ++n);
            snprintf(key, sizeof(key), "k%u", n);
            mqtt_peer_say(s->teller,
                          &(struct mqtt_saying){.topic = "feed",
                                                .payload = slice_of(text),
                                                .key = key});
        }
        bridge_stage_await_beyond(&s->http, "news", n - 150);
        broker_kill9(&s->broker);
        broker_restart(&s->broker);
    }
    bridge_stage_await_last(&s->http, "news", n);
    for (unsigned i = 0; i < 10; i++) {
        char loc[40];

        snprintf(loc, sizeof(loc), "http://example.com/r/%u", n - i * 200);
        assert_entry(s, "news", n - i * 200, loc);
    }
    bridge_stage_end(s);
}
