/*
 * mqtt_same_test.c - whichever way changes come, they are the same.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/bridge_stage.h"
#include "tests/support/callbacks.h"
#include "tests/support/events.h"
#include "tests/support/follower.h"
#include "tests/support/hub.h"
#include "tests/support/mqtt_reader.h"
#include "tests/support/source.h"
#include "tests/support/walk.h"
#include "tests/test.h"

#define POSTS 120

static void
take(struct trace *t, const struct notice *n)
{
    struct problem why = {""};

    if (!trace_epoch(t, n->epoch, &why))
        fail_msg("%s", why.text);
    assert_int_equal(n->after, t->last);
    for (size_t i = 0; i < n->n; i++)
        if (!trace_add(t, n->entries[i].seq, n->entries[i].datetime,
                       n->entries[i].change, n->entries[i].loc, &why))
            fail_msg("%s", why.text);
}

/* What all of them are compared with: the Change Lists. */
static void
check(const struct walk *w, const struct trace *t, const char *what)
{
    struct problem why = {""};

    if (!trace_is_same(&w->trace, t, &why))
        fail_msg("%s: %s", what, why.text);
}

static void
take_followers(struct follower f[2], struct events *e, struct trace t[3],
               uint64_t last)
{
    for (size_t i = 0; i < 2; i++)
        while (t[i].last < last)
            take(&t[i], follower_news(&f[i]));
    while (t[2].last < last)
        take(&t[2], events_next(e));
}

FIXTURE(NULL, bridge_stage_teardown);

/* R-307: the same payload, order and intervals by WebSocket in both forms, as
 * server-sent events, by WebSub, and by MQTT in both forms and versions; and
 * they are those of the Change Lists. */
TEST(all_ways_tell_the_same_history)
{
    static const size_t sizes[] = {1, 1, 7, 40, 1, 300, 2};
    static const char *const subprotocols[] = {"resourcesync.json",
                                               "resourcesync.xml"};
    static const char *const topics[] = {"json/news/notifications",
                                         "xml/news/notifications",
                                         "old/news/notifications"};
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    struct callbacks *callbacks = callbacks_new("127.0.0.2", true);
    struct callback *cb = callbacks_add(callbacks, "/cb/1");
    struct trace t[3], delivered;
    struct mqtt_reader r[3];
    struct follower f[2];
    struct receipt receipt = {.last = 0};
    unsigned from = 1;
    struct events e;
    struct walk w;

    bridge_stage_config(s,
                        "[mqtt json]\nurl = %s\nout = *\nprefix = json\n"
                        "[mqtt xml]\nurl = %s\nout = *\nprefix = xml\n"
                        "form = xml\n"
                        "[mqtt old]\nurl = %s\nout = *\nprefix = old\n"
                        "form = xml\nversion = 3.1.1\nqos = 2\n",
                        s->mqtt.url, s->mqtt.url, s->mqtt.url);
    s->hearer =
        mqtt_peer_hear(&s->mqtt, &(struct mqtt_hearing){.filters = {"#"}});
    BRIDGE_STAGE_START(s, "--rotate-entries", "500");
    assert_int_equal(http_request(&s->http, "PUT", "/sets/news",
                                  (const char *const[]){
                                      "Content-Type: application/json", NULL},
                                  SLICE("{}")),
                     201);
    hub_join(&s->http, "news", cb);
    for (size_t i = 0; i < 2; i++)
        follower_open(&f[i], s->broker.port, "/sets/news/stream?after=0",
                      subprotocols[i]);
    events_open(&e, s->broker.port, "/sets/news/stream?after=0", NULL);
    for (size_t i = 0; i < 3; i++) {
        mqtt_reader_init(&r[i], s->hearer, topics[i],
                         i ? NOTICE_XML : NOTICE_JSON);
        r[i].is_311 = i == 2;
        trace_init(&t[i]);
    }

    for (unsigned i = 0; i < POSTS; i++) {
        receipt = source_post(&s->http, "news", from, sizes[i % 7], 0);
        from += (unsigned)sizes[i % 7];
        if (i % 10 == 9)
            take_followers(f, &e, t, receipt.last);
    }
    take_followers(f, &e, t, receipt.last);
    callback_await_last(cb, receipt.last);
    callback_trace(cb, &delivered);
    for (size_t i = 0; i < 3; i++)
        mqtt_reader_until(&r[i], receipt.last);

    walk_open(&w, &s->broker, "news");
    walk_all(&w);
    check(&w, &delivered, "WebSub");
    for (size_t i = 0; i < 3; i++) {
        check(&w, &r[i].trace, topics[i]);
        check(&w, &t[i], i < 2 ? subprotocols[i] : "server-sent events");
    }
    assert_true(r[1].trace.has_digests && r[2].trace.has_digests);
    callbacks_assert_faultless(callbacks);

    walk_close(&w);
    for (size_t i = 0; i < 3; i++) {
        mqtt_reader_fini(&r[i]);
        trace_fini(&t[i]);
    }
    trace_fini(&delivered);
    for (size_t i = 0; i < 2; i++)
        follower_close(&f[i]);
    events_close(&e);
    bridge_stage_end(s);
    callbacks_free(callbacks);
}
