/*
 * eventsource_again_test.c - a subscriber by server-sent events that was cut
 * off, or away: where it goes on.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/broker.h"
#include "tests/support/events.h"
#include "tests/support/events_stage.h"
#include "tests/support/http.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define STREAM     EVENTS_STREAM
#define FROM_START STREAM "?after=0"

/* an EventSource asks for the same URL again; its Last-Event-ID
 * counts. */
TEST(goes_on_after_the_last_event_id, events_stage_quiet, events_stage_close)
{
    struct events_stage *s = *state;
    struct events e;

    events_open(&e, s->broker.port, FROM_START, NULL);
    events_until(&e, 3);
    source_post(&s->http, "news", 4, 2, 0);
    events_again(&e, false);
    assert_int_equal(events_next(&e)->after, 3); /* not 0 */
    assert_int_equal(events_next(&e)->after, 3);
    assert_int_equal(e.notice.last, 5);
    events_close(&e);
}

/* Also after a heartbeat alone: that is a position, too. */
TEST(goes_on_after_a_heartbeat, events_stage_quiet, events_stage_close)
{
    struct events_stage *s = *state;
    struct events e;

    events_open(&e, s->broker.port, STREAM, NULL);
    events_next(&e);
    source_post(&s->http, "news", 4, 2, 0);
    events_again(&e, false);
    events_until(&e, 5);
    events_close(&e);
}

/* Entry 3 goes, and comes, and so on: `n` times. */
static void
post_deleted(struct events_stage *s, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(
            source_send(&s->http, "news", "application/json",
                        SLICE("{\"loc\":\"http://example.com/r/3\","
                              "\"change\":\"deleted\"}"),
                        NULL),
            200);
}

/* with a filter, too: from the end of what was covered on, also
 * where that was told by a heartbeat, or the position of the URL has become
 * older than the last one by far. */
TEST(goes_on_with_its_filter, events_stage_busy, events_stage_close)
{
    struct events_stage *s = *state;
    struct events e;

    events_open(&e, s->broker.port, FROM_START "&change=deleted", NULL);
    while (events_next(&e)->last < 3)
        assert_int_equal(e.notice.n, 0);
    post_deleted(s, 2); /* 4, 5 */
    source_post(&s->http, "news", 4, 3, 0);
    while (e.notice.last < 8)
        events_next(&e);
    events_again(&e, false);
    assert_int_equal(events_next(&e)->after, 8);

    source_post(&s->http, "news", 4, 3, 0);
    source_rotate(&s->http, "news");
    events_again(&e, true);
    post_deleted(s, 1); /* 12 */
    while (events_next(&e)->n == 0)
        ;
    assert_int_equal(e.notice.n, 1);
    assert_int_equal(e.notice.entries[0].seq, 12);

    events_again(&e, false);
    source_post(&s->http, "news", 4, 3, 0);
    broker_kill9(&s->broker);
    broker_restart(&s->broker);
    post_deleted(s, 1); /* 16 */
    events_again(&e, false);
    while (events_next(&e)->n == 0)
        ;
    assert_int_equal(e.notice.last, 16);
    assert_int_equal(e.notice.n, 1);
    events_close(&e);
}

/* Of an URL whose own position has another epoch the filter counts all the
 * same. */
TEST(goes_on_with_its_filter_where_the_urls_position_is_gone,
     events_stage_quiet, events_stage_close)
{
    struct events_stage *s = *state;
    struct events e;

    post_deleted(s, 1);
    events_open(&e, s->broker.port,
                STREAM "?after=0123456789abcdef-1&change=deleted", "2");
    assert_int_equal(events_next(&e)->after, 2);
    assert_int_equal(events_next(&e)->after, 2);
    assert_int_equal(e.notice.last, 4);
    assert_int_equal(e.notice.n, 1);
    events_close(&e);
}

/* Posts of one to three entries, one after the other. */
struct poster {
    const char *url;
    unsigned n_posts;
    atomic_uint last; /* relaxed: read after the thread was joined */
    pthread_t thread;
};

static void *
post_on(void *user)
{
    struct poster *p = user;
    struct http h;

    http_open(&h, p->url);
    for (unsigned i = 0; i < p->n_posts; i++)
        atomic_store(&p->last, (unsigned)source_post(&h, "news", i, 1 + i % 3,
                                                     i % 10 ? 0 : 30000)
                                   .last);
    http_close(&h);
    return NULL;
}

/* cut off again and again, politely and not, within events and
 * between them, while posts come in and lists are closed: neither a gap nor a
 * repeat (every message is checked against the one before), and all of it. */
TEST(loses_and_repeats_nothing_when_it_is_cut_off, events_stage_rotating,
     events_stage_close)
{
    struct events_stage *s = *state;
    struct poster p = {.url = s->broker.url, .n_posts = 400};
    struct events e;
    unsigned cuts = 0;

    atomic_init(&p.last, 0);
    assert_int_equal(pthread_create(&p.thread, NULL, post_on, &p), 0);
    events_open(&e, s->broker.port, FROM_START, NULL);
    /* Some of them may come when all is there: on a machine where few posts
     * are a match for a reader. */
    while (e.notice.last < 790 || cuts <= 50) {
        char some[64];

        for (unsigned n = cuts % 5; n && e.notice.last < 790; n--)
            events_next(&e);
        if (cuts % 2 && e.notice.last < 790)
            wire_read_some(e.wire, some, 1 + cuts % sizeof(some));
        events_again(&e, cuts % 3 == 0);
        cuts++;
    }
    pthread_join(p.thread, NULL);
    events_until(&e, atomic_load(&p.last));
    assert_int_equal(e.notice.last, 3 + 134 + 2 * 133 + 3 * 133);
    events_close(&e);
}

/* who was away for long reads closed lists first; who reads slowly gets
 * the same in larger messages. */
TEST(catches_up_through_closed_lists, events_stage_rotating, events_stage_close)
{
    struct events_stage *s = *state;
    struct events e, slow;
    uint64_t last = 0;

    events_open_narrow(&slow, s->broker.port, FROM_START);
    for (unsigned i = 0; i < 60; i++)
        last = source_post(&s->http, "news", i, 5, 8000).last;
    events_open(&e, s->broker.port, FROM_START, NULL);
    events_until(&e, last);
    events_until(&slow, last);
    source_post(&s->http, "news", 0, 1, 0);
    events_until(&e, last + 1);
    events_until(&slow, last + 1);
    assert_string_equal(e.notice.digest, slow.notice.digest);
    events_close(&e);
    events_close(&slow);
}

/* what was told is there after the worst end, and the stream goes on. */
TEST(goes_on_after_kill_9, events_stage_quiet, events_stage_close)
{
    struct events_stage *s = *state;
    struct events e;

    events_open(&e, s->broker.port, FROM_START, NULL);
    events_until(&e, 3);
    broker_kill9(&s->broker);
    assert_false(events_read(&e));
    assert_false(e.is_whole); /* nobody said that this was all */
    broker_restart(&s->broker);
    source_post(&s->http, "news", 4, 2, 0);
    events_again(&e, false);
    events_until(&e, 5);
    events_close(&e);
}
