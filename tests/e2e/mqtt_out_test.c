/*
 * mqtt_out_test.c - changes go out to an MQTT broker: which topics, what the
 * messages say, and what holds when somebody goes away.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/bridge_stage.h"
#include "tests/support/jsonpath.h"
#include "tests/support/mqtt_reader.h"
#include "tests/support/process.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define JSON "application/json"

#define NEWS(prefix) prefix "/news/notifications"

static struct mqtt_peer *
hear(struct bridge_stage *s, const char *filter)
{
    return mqtt_peer_hear(&s->mqtt,
                          &(struct mqtt_hearing){.filters = {filter}});
}

static bool
is_that_text(const struct mqtt_heard *h, void *user)
{
    const char *const *pair = user; /* topic, payload */

    return strcmp(h->topic, pair[0]) == 0 &&
           strcmp(h->payload.data, pair[1]) == 0;
}

/* Waits for that payload on that topic. */
static const struct mqtt_heard *
await_text(struct mqtt_peer *p, const char *topic, const char *text)
{
    const char *pair[] = {topic, text};

    return mqtt_peer_seek(p, is_that_text, pair, text);
}

struct position_seek {
    const char *topic;
    uint64_t last;
};

static bool
is_position(const struct mqtt_heard *h, void *user)
{
    const struct position_seek *seek = user;
    struct jsonpath j;
    bool is_it;

    if (strcmp(h->topic, seek->topic) != 0 || h->payload.size == 0)
        return false;
    jsonpath_open(&j, h->payload);
    is_it = jsonpath_number(&j, "seq") == seek->last;
    jsonpath_close(&j);
    return is_it;
}

/* Waits for the position of that entry. */
static const struct mqtt_heard *
await_position(struct mqtt_peer *p, const char *topic, uint64_t last)
{
    struct position_seek seek = {topic, last};

    return mqtt_peer_seek(p, is_position, &seek, "a position");
}

/* It says what the set says of itself, and where to catch up. */
static void
check_position(struct bridge_stage *s, const struct mqtt_heard *h,
               const struct receipt *receipt)
{
    struct jsonpath j, page;
    const char *changes;
    char path[200];

    jsonpath_open(&j, h->payload);
    assert_string_equal(jsonpath_text(&j, "set"), receipt->set);
    assert_string_equal(jsonpath_text(&j, "position"), receipt->position);
    assert_int_equal(jsonpath_number(&j, "seq"), receipt->last);
    assert_string_equal(jsonpath_text(&j, "datetime"), receipt->datetime);
    assert_memory_equal(jsonpath_text(&j, "epoch"), receipt->position, 16);

    changes = jsonpath_text(&j, "changes");
    assert_non_null(changes);
    assert_memory_equal(changes, s->broker.url, strlen(s->broker.url));
    snprintf(path, sizeof(path), "%s%safter=%.16s-0",
             changes + strlen(s->broker.url), strchr(changes, '?') ? "&" : "?",
             receipt->position);
    if (strstr(changes, "after="))
        snprintf(path, sizeof(path), "%s", changes + strlen(s->broker.url));
    assert_int_equal(http_ask(&s->http, "GET", path, "Accept: " JSON, NULL),
                     200);
    jsonpath_open(&page, buf_slice(&s->http.body));
    assert_int_equal(jsonpath_number(&page, "last"), receipt->last);
    jsonpath_close(&page);
    jsonpath_close(&j);
}

FIXTURE(NULL, bridge_stage_teardown);

/* The short form: one bridge for all sets. */
TEST(every_set_is_told_of_by_the_short_form)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    const struct mqtt_heard *h;
    struct mqtt_reader news, books;
    struct receipt receipt;

    bridge_stage_config(s, "\n");
    s->hearer = hear(s, "tidings/#");
    BRIDGE_STAGE_START(s, "--mqtt", s->mqtt.url);
    h = mqtt_peer_await(s->hearer, "tidings/status", 1);
    assert_string_equal(h->payload.data, "online");

    mqtt_reader_init(&news, s->hearer, NEWS("tidings"), NOTICE_JSON);
    mqtt_reader_init(&books, s->hearer, "tidings/books/notifications",
                     NOTICE_JSON);
    source_post(&s->http, "news", 1, 3, 0);
    mqtt_reader_until(&news, 3);
    source_post(&s->http, "books", 1, 1, 0);
    receipt = source_post(&s->http, "news", 4, 2, 0);
    mqtt_reader_until(&news, 5);
    mqtt_reader_until(&books, 1);
    assert_string_equal(trace_at(&news.trace, 5)->loc,
                        "http://example.com/r/5");
    assert_int_equal(news.n_repeats, 0);

    /* Who comes late learns where the others are. */
    h = await_position(s->hearer, "tidings/news/position", 5);
    check_position(s, h, &receipt);
    s->second = hear(s, "tidings/+/position");
    h = await_position(s->second, "tidings/news/position", 5);
    assert_true(h->is_retained);
    check_position(s, h, &receipt);

    bridge_stage_end(s);
    await_text(s->hearer, "tidings/status", "offline");
    mqtt_reader_fini(&news);
    mqtt_reader_fini(&books);
}

/* Each in its own form, under its own prefix, at its own QoS. R-307: they tell
 * the same. */
TEST(several_bridges_tell_the_same)
{
    static const struct {
        const char *topic;
        enum notice_form form;
        bool is_311;
    } kinds[] = {{NEWS("json"), NOTICE_JSON, false},
                 {NEWS("xml"), NOTICE_XML, false},
                 {NEWS("old"), NOTICE_XML, true},
                 {NEWS("twice"), NOTICE_JSON, false}};
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    struct mqtt_reader r[4];
    const char *url = s->mqtt.url;
    struct problem why = {""};

    bridge_stage_config(s,
                        "[mqtt json]\nurl = %s\nout = *\nprefix = json\n"
                        "[mqtt xml]\nurl = %s\nout = news\nprefix = xml\n"
                        "form = xml\nqos = 0\n"
                        "[mqtt old]\nurl = %s\nout = books,news\nprefix = old\n"
                        "form = xml\nversion = 3.1.1\n"
                        "[mqtt twice]\nurl = %s\nout = news\nprefix = twice\n"
                        "qos = 2\n",
                        url, url, url, url);
    s->hearer = mqtt_peer_hear(
        &s->mqtt, &(struct mqtt_hearing){.filters = {"#"}, .qos = 2});
    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    for (size_t i = 0; i < 4; i++) {
        char path[40];

        mqtt_reader_init(&r[i], s->hearer, kinds[i].topic, kinds[i].form);
        r[i].is_311 = kinds[i].is_311;
        /* At QoS 0 nobody waits for whom is not there. */
        snprintf(path, sizeof(path), "bridges.%zu.out.state", i);
        bridge_stage_await_text(s, path, "connected");
    }

    for (unsigned i = 0; i < 20; i++)
        source_post(&s->http, i % 4 == 3 ? "books" : "news", 1 + i * 10, 10, 0);
    for (size_t i = 0; i < 4; i++)
        mqtt_reader_until(&r[i], 150);

    for (size_t i = 1; i < 4; i++)
        if (!trace_is_same(&r[0].trace, &r[i].trace, &why))
            fail_msg("%s: %s", kinds[i].topic, why.text);
    assert_true(r[1].trace.has_digests && r[2].trace.has_digests);
    assert_int_equal(mqtt_peer_await(s->hearer, NEWS("json"), 1)->qos, 1);
    assert_int_equal(mqtt_peer_await(s->hearer, NEWS("xml"), 1)->qos, 0);
    assert_int_equal(mqtt_peer_await(s->hearer, NEWS("twice"), 1)->qos, 2);

    /* Who is not asked to tell of a set does not. */
    mqtt_peer_await(s->hearer, "old/books/notifications", 1);
    await_position(s->hearer, "old/books/position", 50);
    for (size_t i = 0; i < mqtt_peer_count(s->hearer); i++)
        assert_null(strstr(mqtt_peer_at(s->hearer, i)->topic, "xml/books"));
    bridge_stage_end(s);
    for (size_t i = 0; i < 4; i++)
        mqtt_reader_fini(&r[i]);
}

/* After the notification each of its changes has a message of its own, on the
 * topic of its kind. */
TEST(a_change_has_a_message_of_its_own_where_wanted)
{
    static const char *const kinds[] = {"created", "updated", "deleted"};
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    struct slice body =
        SLICE("[{\"loc\":\"http://example.com/1\",\"change\":\"created\"},"
              "{\"loc\":\"http://example.com/2\",\"change\":\"updated\"},"
              "{\"loc\":\"http://example.com/3\",\"change\":\"deleted\"}]");
    size_t at = 0;

    bridge_stage_config(s,
                        "[mqtt a]\nurl = %s\nout = *\nprefix = a\n"
                        "publish = both\n"
                        "[mqtt b]\nurl = %s\nout = *\nprefix = b\n"
                        "publish = changes\nform = xml\n",
                        s->mqtt.url, s->mqtt.url);
    s->hearer = mqtt_peer_hear(
        &s->mqtt,
        &(struct mqtt_hearing){.filters = {NEWS("a"), "a/news/changes/#"}});
    s->second = hear(s, "b/news/changes/#");
    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    assert_int_equal(source_send(&s->http, "news", JSON, body, NULL), 200);

    assert_string_equal(mqtt_peer_next(s->hearer, &at, NULL)->topic,
                        "a/news/notifications");
    for (uint64_t seq = 1; seq <= 3; seq++) {
        struct mqtt_peer *peers[] = {s->hearer, s->second};
        size_t second = (size_t)seq - 1;
        size_t *ats[] = {&at, &second};

        for (size_t i = 0; i < 2; i++) {
            const struct mqtt_heard *h = mqtt_peer_next(peers[i], ats[i], NULL);
            char topic[100];
            struct notice n;

            snprintf(topic, sizeof(topic), "%s/news/changes/%s", i ? "b" : "a",
                     kinds[seq - 1]);
            assert_string_equal(h->topic, topic);
            notice_read(&n, i ? NOTICE_XML : NOTICE_JSON, h->payload);
            notice_check(&n);
            assert_int_equal(n.after, seq - 1);
            assert_int_equal(n.last, seq);
            assert_string_equal(n.entries[0].change, kinds[seq - 1]);
            notice_free(&n);
        }
    }
    bridge_stage_end(s);
}

/* Last will: whoever hears of us hears that we are gone, however we went. */
TEST(a_killed_broker_is_offline)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    const char *status = "a/status";

    bridge_stage_config(
        s, "[mqtt a]\nurl = %s\nout = *\nprefix = a\n" BRIDGE_QUICK,
        s->mqtt.url);
    s->hearer = hear(s, status);
    BRIDGE_STAGE_START(s, NULL);
    assert_string_equal(mqtt_peer_await(s->hearer, status, 1)->payload.data,
                        "online");
    broker_kill9(&s->broker);
    assert_string_equal(mqtt_peer_await(s->hearer, status, 2)->payload.data,
                        "offline");
    s->second = hear(s, status);
    assert_true(mqtt_peer_await(s->second, status, 1)->is_retained);
    assert_string_equal(mqtt_peer_at(s->second, 0)->payload.data, "offline");

    broker_restart(&s->broker);
    assert_string_equal(mqtt_peer_await(s->hearer, status, 3)->payload.data,
                        "online");
    bridge_stage_end(s);
    assert_string_equal(mqtt_peer_await(s->hearer, status, 4)->payload.data,
                        "offline");
}

/* A bridge begins where a set is, or at its start, and goes on where it was:
 * also over a restart, and while the MQTT broker is away. */
TEST(a_bridge_goes_on_where_it_was)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    struct mqtt_reader now, start;

    bridge_stage_config(s, "\n");
    s->hearer = mqtt_peer_hear(
        &s->mqtt, &(struct mqtt_hearing){.join = {.client_id = "hearer"},
                                         .filters = {"+/news/#"},
                                         .keeps_session = true});
    mqtt_reader_init_after(&now, s->hearer, NEWS("now"), NOTICE_JSON, 3);
    mqtt_reader_init(&start, s->hearer, NEWS("start"), NOTICE_XML);
    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    source_post(&s->http, "news", 1, 3, 0);
    broker_stop(&s->broker);

    bridge_stage_config(s,
                        "[mqtt now]\nurl = %s\nout = *\nprefix = now\n"
                        "[mqtt start]\nurl = %s\nout = *\nprefix = start\n"
                        "begin = start\nform = xml\n" BRIDGE_QUICK,
                        s->mqtt.url, s->mqtt.url);
    broker_restart(&s->broker);
    mqtt_reader_until(&start, 3);
    source_post(&s->http, "news", 4, 2, 0);
    mqtt_reader_until(&now, 5);
    mqtt_reader_until(&start, 5);
    await_position(s->hearer, "now/news/position", 5);
    await_position(s->hearer, "start/news/position", 5);

    mosquittod_stop(&s->mqtt);
    source_post(&s->http, "news", 6, 10, 0);
    broker_stop(&s->broker);
    broker_restart(&s->broker);
    source_post(&s->http, "news", 16, 10, 0);
    mosquittod_restart(&s->mqtt);
    mqtt_reader_until(&now, 25);
    mqtt_reader_until(&start, 25);
    assert_int_equal(start.n_repeats, 0);
    bridge_stage_end(s);
    mqtt_reader_fini(&now);
    mqtt_reader_fini(&start);
}

/* A set that is removed has no position any more; made anew it is told of from
 * its beginning, in its new epoch. */
TEST(a_removed_set_leaves_nothing_behind)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    struct mqtt_reader before, after;

    bridge_stage_config(s, "[mqtt a]\nurl = %s\nout = *\nprefix = a\n",
                        s->mqtt.url);
    s->hearer = hear(s, "a/news/#");
    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    mqtt_reader_init(&before, s->hearer, NEWS("a"), NOTICE_JSON);
    source_post(&s->http, "news", 1, 3, 0);
    mqtt_reader_until(&before, 3);
    await_position(s->hearer, "a/news/position", 3);

    assert_in_range(http_ask(&s->http, "DELETE", "/sets/news", NULL), 200, 204);
    await_text(s->hearer, "a/news/position", "");
    source_post(&s->http, "news", 1, 2, 0);
    mqtt_reader_init(&after, s->hearer, NEWS("a"), NOTICE_JSON);
    after.at = before.at;
    mqtt_reader_until(&after, 2);
    assert_string_not_equal(before.trace.epoch, after.trace.epoch);
    await_position(s->hearer, "a/news/position", 2);

    s->second = hear(s, "a/+/position");
    assert_string_equal(
        mqtt_heard_property(mqtt_peer_await(s->hearer, NEWS("a"), 2), "epoch"),
        after.trace.epoch);
    await_position(s->second, "a/news/position", 2);
    bridge_stage_end(s);
    mqtt_reader_fini(&before);
    mqtt_reader_fini(&after);
}

/* At most once a second, and the last one is never left out. */
TEST(positions_are_told_once_a_second)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    int64_t began_ms, passed_ms;

    bridge_stage_config(s, "[mqtt a]\nurl = %s\nout = *\nprefix = a\n",
                        s->mqtt.url);
    s->hearer = hear(s, "a/news/position");
    BRIDGE_STAGE_START(s, NULL);
    began_ms = process_now_ms();
    for (unsigned i = 1; i <= 300; i++)
        source_post(&s->http, "news", i, 1, 0);
    await_position(s->hearer, "a/news/position", 300);
    passed_ms = process_now_ms() - began_ms;
    assert_in_range(mqtt_peer_count(s->hearer), 1, 2 + passed_ms / 1000);
    bridge_stage_end(s);
}
