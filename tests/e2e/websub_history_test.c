/*
 * websub_history_test.c - what subscribers get is the history of the set: the
 * same for every transport, in parts that follow each other, and with a hole
 * that can be filled by pull where something was missed.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/channel.h"
#include "tests/support/hub_stage.h"
#include "tests/support/sanitized.h"
#include "tests/support/schema.h"
#include "tests/support/source.h"
#include "tests/support/walk.h"
#include "tests/support/wire.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define STALLED (IS_SANITIZED ? 100 : 1000)

FIXTURE(NULL, hub_stage_teardown);

/* over a restart, too. */
TEST(a_thousand_deliveries_follow_each_other)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = hub_stage_join(s, "/cb/1");
    struct callback_journal j;
    struct trace t;

    for (unsigned i = 0; i < 1000; i++) {
        if (i == 500) {
            hub_await_head(&s->http, HUB_SET, callback_url(cb));
            broker_stop(&s->broker);
            broker_restart(&s->broker);
        }
        callback_await_last(cb, hub_stage_post(s, 1 + i % 3));
    }
    j = callback_journal(cb);
    assert_int_equal(j.n, 1000);
    assert_int_equal(j.n_holes, 0);
    assert_int_equal(j.n_repeats, 0);
    for (size_t i = 0; i < 1000; i++) {
        const struct seen *d = callback_seen(cb, SEEN_DELIVERY, i);
        static char until[64];
        struct xpath x;

        xpath_open(&x, (struct slice){d->body, d->body_size});
        if (i > 0)
            assert_xpath_text(&x, "/s:urlset/rs:md/@from", until);
        snprintf(until, sizeof(until), "%s",
                 xpath_get(&x, "string(/s:urlset/rs:md/@until)"));
        xpath_close(&x);
    }
    callback_trace(cb, &t);
    assert_true(t.has_digests);
    trace_fini(&t);
    hub_stage_end(s);
}

/* one post, several notifications, each a urlset. */
TEST(a_burst_is_delivered_in_parts)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK, "--message-bytes",
                                         "16M", "--hub-timeout", "60");
    struct callback *cb = hub_stage_join(s, "/cb/1");
    struct trace t;
    size_t n;

    callback_await_last(cb, hub_stage_post(s, 60000));
    n = callback_count(cb, SEEN_DELIVERY);
    assert_in_range(n, 2, 60000);
    for (size_t i = 0; i < n; i++) {
        const struct seen *d = callback_seen(cb, SEEN_DELIVERY, i);
        struct xpath x;

        assert_in_range(d->body_size, 1, 52428800);
        xpath_open(&x, (struct slice){d->body, d->body_size});
        assert_xpath(&x, "/s:urlset");
        assert_in_range(xpath_count(&x, "/s:urlset/s:url"), 1, 50000);
        xpath_close(&x);
    }
    callback_trace(cb, &t);
    assert_int_equal(t.last, 60000);
    trace_fini(&t);
    hub_stage_end(s);
}

/* a subscriber of WebSub and one of WebSocket get the same bytes. */
TEST(a_websocket_gets_the_same_bytes)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = hub_stage_join(s, "/cb/1");
    struct wire *w = wire_connect("127.0.0.1", s->broker.port);
    struct wire_answer a;

    assert_non_null(w);
    assert_true(wire_upgrade(w, "/sets/" HUB_SET "/stream?after=0",
                             "resourcesync.xml", &a));
    for (unsigned i = 0; i < 20; i++) {
        const struct seen *d;
        struct wire_frame f;

        hub_stage_post(s, 1 + i % 5);
        d = callback_await(cb, SEEN_DELIVERY, i + 1);
        callback_await_last(cb, s->n_posted); /* before the next is posted */
        do /* the first one may tell where it begins, as heartbeats do */
            assert_true(wire_message(w, &f) && f.opcode == WIRE_TEXT);
        while (!memmem(f.payload, f.size, "<url>", 5));
        assert_int_equal(f.size, d->body_size);
        assert_memory_equal(f.payload, d->body, f.size);
    }
    wire_close(w);
    hub_stage_end(s);
}

/* What a subscriber has that hears, misses, and pulls. */
static void
fill(struct trace *t, struct walk *w, uint64_t until)
{
    struct problem why = {""};

    for (size_t i = 0; i < w->n_lists; i++) {
        struct slice text;
        struct xmldoc d;

        if (w->lists[i].after >= until ||
            (w->lists[i].digest[0] && w->lists[i].last <= t->last))
            continue;
        text = walk_get(w, w->lists[i].url);
        if (!xmldoc_read(&d, text, &why))
            fail_msg("%s", why.text);
        for (size_t k = 0; k < d.n_entries; k++)
            if (d.entries[k].seq > t->last && d.entries[k].seq <= until &&
                !trace_line(t, d.entries[k].line, &why))
                fail_msg("%s", why.text);
        xmldoc_free(&d);
    }
    assert_int_equal(t->last, until);
}

/* every third notification is dropped, and the hole that the next one
 * shows is filled from the open list, closed ones, and archived ones. That the
 * entries are identical shows in the digest of the notification behind them. */
TEST(a_hole_is_filled_by_pull)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK, "--rotate-entries",
                                         "7", "--index-lists", "3");
    struct callback *cb = hub_stage_join(s, "/cb/1");
    size_t n_filled = 0;
    struct walk w;
    struct trace t;

    for (unsigned i = 0; i < 60; i++)
        callback_await_last(cb, hub_stage_post(s, 1 + i % 4));
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    assert_int_equal(
        http_get(&s->http, "/sets/" HUB_SET "/changelist-archive.xml"), 200);
    walk_open(&w, &s->broker, HUB_SET);
    walk_all(&w);

    trace_init(&t);
    for (size_t i = 0; i < callback_count(cb, SEEN_DELIVERY); i++) {
        const struct seen *d = callback_seen(cb, SEEN_DELIVERY, i);
        struct problem why = {""};
        struct xmldoc doc;

        if (i % 3 == 1)
            continue;
        if (!xmldoc_read(&doc, (struct slice){d->body, d->body_size}, &why))
            fail_msg("%s", why.text);
        if (doc.after > t.last) { /* the hole, by seq and by time */
            assert_string_not_equal(
                doc.from,
                trace_at(&t, t.last) ? trace_at(&t, t.last)->datetime : "");
            fill(&t, &w, doc.after);
            assert_string_equal(doc.from, trace_at(&t, t.last)->datetime);
            n_filled++;
        }
        if (!trace_document(&t, &doc, &why))
            fail_msg("%s", why.text);
        xmldoc_free(&doc);
    }
    assert_int_equal(n_filled, 20);
    assert_true(t.has_digests);
    trace_fini(&t);
    walk_close(&w);
    hub_stage_end(s);
}

/* R-310, W-092: all of them hang at once, each with a delivery. */
TEST(a_thousand_that_hang_delay_nobody)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-timeout",
                                         "600", "--hub-connections", "1200",
                                         "--hub-host-connections", "1100");
    struct callbacks *others = callbacks_new("127.0.0.3", false);
    struct callback *healthy = hub_stage_join(s, "/cb/1");
    struct callback *sick[STALLED];

    for (size_t i = 0; i < STALLED; i++) {
        char target[40];
        long status;

        snprintf(target, sizeof(target), "/cb/%zu", i);
        sick[i] = callbacks_add(others, target);
        CALLBACK_DOES(sick[i], SEEN_DELIVERY, {.kind = MANNER_HANG});
        while ((status = HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                       .callback = callback_url(sick[i]))) ==
               429) /* too many wait for their verification */
            poll(NULL, 0, 5);
        assert_int_equal(status, 202);
    }
    hub_stage_post(s, 1); /* who is not active yet gets it all the same */
    for (size_t i = 0; i < STALLED; i++)
        callback_await(sick[i], SEEN_DELIVERY, 1);
    for (unsigned i = 0; i < 100; i++)
        callback_await_last(healthy, hub_stage_post(s, 1));
    for (size_t i = 0; i < STALLED; i++)
        assert_int_equal(callback_count(sick[i], SEEN_DELIVERY), 1);
    hub_stage_end(s);
    callbacks_free(others);
}

/* Framework notifications */

static void
follow(struct hub_stage *s, struct xpath *x, const char *question,
       const char *part)
{
    const char *url = xpath_get(x, question);
    size_t size = strlen(s->broker.url);

    assert_memory_equal(url, s->broker.url, size);
    assert_int_equal(http_get(&s->http, url + size), 200);
    assert_non_null(
        memmem(s->http.body.data, s->http.body.size, part, strlen(part)));
}

/* W-148: the topic is this document, or already one that came behind it. */
static void
assert_topic_has(struct hub_stage *s, const struct seen *d)
{
    struct problem why = {""};
    struct xmldoc doc;

    assert_int_equal(
        http_get(&s->http, "/sets/" HUB_SET "/framework-notifications"), 200);
    if (!xmldoc_read(&doc, buf_slice(&s->http.body), &why))
        fail_msg("%s", why.text);
    if (doc.last == d->last && doc.after == d->after) {
        assert_int_equal(s->http.body.size, d->body_size);
        assert_memory_equal(s->http.body.data, d->body, d->body_size);
    } else {
        assert_true(doc.last >= d->last);
    }
    xmldoc_free(&doc);
}

/* W-148: inside the callback everything is there that it tells
 * of, the index names it, and the topic is not older. */
TEST(a_framework_notification_finds_everything_there)
{
    static const char capabilities[] = "/sets/" HUB_SET "/capabilitylist.xml";
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-timeout",
                                         "600", "--index-lists", "2");
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    struct hub_url topic = {""};
    bool is_rotated = false;

    hub_stage_post(s, 3);
    snprintf(topic.text, sizeof(topic.text),
             "%s/sets/" HUB_SET "/framework-notifications", s->broker.url);
    CALLBACK_DOES(cb, SEEN_DELIVERY, {.waits = true});
    hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .topic = topic.text,
                                             .callback = callback_url(cb)));
    hub_await_active(&s->http, HUB_SET, callback_url(cb));
    source_rotate(&s->http, HUB_SET);
    for (size_t i = 1; !is_rotated; i++) {
        const struct seen *d = callback_await(cb, SEEN_DELIVERY, i);
        struct slice body = {d->body, d->body_size};
        struct xpath x;
        size_t n;

        seen_assert_links(d, topic.text, s->hub.text);
        seen_assert_header(d, "Content-Type", "application/xml");
        assert_valid(body);
        assert_topic_has(s, d);

        xpath_open(&x, body);
        assert_xpath_text(&x, "/s:urlset/rs:md/@capability",
                          "framework-notification");
        follow(s, &x, "string(/s:urlset/rs:ln[@rel='up']/@href)", "<urlset");
        n = xpath_count(&x, "/s:urlset/s:url");
        for (size_t k = 1; k <= n; k++) {
            char loc[100], index[120], url[300];

            snprintf(loc, sizeof(loc), "string(/*/s:url[%zu]/s:loc)", k);
            snprintf(index, sizeof(index),
                     "string(/*/s:url[%zu]/rs:ln[@rel='index']/@href)", k);
            snprintf(url, sizeof(url), "%s", xpath_get(&x, loc));
            follow(s, &x, loc, strstr(url, "archive") ? "<" : "<urlset");
            if (*xpath_get(&x, index))
                follow(s, &x, index, url);
            if (strstr(url, "/changes/000000000002"))
                is_rotated = true;
        }
        xpath_close(&x);
        callback_release(cb);
    }
    assert_int_equal(http_get(&s->http, capabilities), 200);
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    hub_stage_end(s);
}
