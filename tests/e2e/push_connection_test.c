/*
 * push_test.c - a WebSocket subscriber: how it gets in, where it starts, what
 * it hears when nothing happens, how it is sent away.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/datetime.h"
#include "tests/support/broker.h"
#include "tests/support/follower.h"
#include "tests/support/http.h"
#include "tests/support/source.h"
#include "tests/test.h"

/* A broker whose set "news" has three entries. */
struct stage {
    struct broker broker;
    struct http http;
};

static int
set_up(void **state, const char *heartbeat)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, "--heartbeat", heartbeat, NULL);
    http_open(&s->http, s->broker.url);
    source_post(&s->http, "news", 1, 3, 0);
    return 0;
}

static int
set_up_quiet(void **state)
{
    return set_up(state, "3600");
}

static int
set_up_busy(void **state)
{
    return set_up(state, "0.2");
}

static int
tear_down(void **state)
{
    struct stage *s = *state;

    http_close(&s->http);
    if (s->broker.pid)
        broker_stop(&s->broker);
    broker_close(&s->broker);
    free(s);
    return 0;
}

/* While it is connected */

static void
expect_heartbeats(struct follower *f, uint64_t last)
{
    char now[33] = "";

    for (int i = 0; i < 2; i++) {
        follower_next(f);
        assert_int_equal(f->notice.n, 0);
        assert_int_equal(f->notice.after, last);
        assert_true(strcmp(f->notice.now, now) > 0);
        strcpy(now, f->notice.now);
    }
}

/* Quiet can be told from dead. */
TEST(sends_heartbeats_when_nothing_happens, set_up_busy, tear_down)
{
    static const char *const subprotocols[] = {"resourcesync.json",
                                               "resourcesync.xml"};
    struct stage *s = *state;

    for (size_t i = 0; i < 2; i++) {
        struct follower f;

        follower_open(&f, s->broker.port, "/sets/news/stream", subprotocols[i]);
        follower_next(&f);
        assert_string_equal(f.notice.heartbeat, "0.2");
        expect_heartbeats(&f, 3 + i);
        source_post(&s->http, "news", 10, 1, 0);
        assert_int_equal(follower_news(&f)->last, 4 + i);
        expect_heartbeats(&f, 4 + i);
        follower_close(&f);
    }
}

#define HEARTBEATS 12

/* an interval below a second is kept. A busy machine delays some
 * heartbeats, but were there one a second, no two would be closer. */
TEST(beats_as_often_as_it_says, set_up_busy, tear_down)
{
    struct stage *s = *state;
    struct follower f;
    int64_t least_us = INT64_MAX, before_us = 0;

    follower_open(&f, s->broker.port, "/sets/news/stream", NULL);
    follower_next(&f); /* the greeting */
    for (int i = 0; i < HEARTBEATS; i++) {
        int64_t now_us;

        follower_next(&f);
        assert_int_equal(f.notice.n, 0);
        assert_string_equal(f.notice.heartbeat, "0.2");
        assert_int_equal(datetime_read(slice_of(f.notice.now), &now_us), 0);
        if (i > 0 && now_us - before_us < least_us)
            least_us = now_us - before_us;
        before_us = now_us;
    }
    assert_true(least_us < 900000);
    follower_close(&f);
}

TEST(answers_pings_with_what_was_in_them, set_up_quiet, tear_down)
{
    struct stage *s = *state;
    char payload[WIRE_CONTROL_MAX];
    struct follower f;
    struct wire_frame frame;

    memset(payload, 'p', sizeof(payload));
    follower_open(&f, s->broker.port, "/sets/news/stream", NULL);
    follower_next(&f);
    for (size_t size = 0; size <= sizeof(payload); size += 25) {
        assert_true(wire_send_frame(f.wire, WIRE_PING, true, payload, size));

        assert_true(wire_frame(f.wire, &frame));
        assert_int_equal(frame.opcode, WIRE_PONG);
        assert_int_equal(frame.size, size);
        assert_memory_equal(frame.payload, payload, size);
    }
    source_post(&s->http, "news", 4, 1, 0);
    assert_int_equal(follower_next(&f)->last, 4);
    follower_close(&f);
}

/* What a client says, it says in vain; it does no harm. */
TEST(goes_on_whatever_the_client_sends, set_up_quiet, tear_down)
{
    struct stage *s = *state;
    struct follower f;

    follower_open(&f, s->broker.port, "/sets/news/stream", NULL);
    follower_next(&f);
    assert_true(wire_send_frame(f.wire, WIRE_TEXT, true, "hello", 5));
    assert_true(wire_send_frame(f.wire, WIRE_BINARY, true, "\0\1", 2));
    assert_true(wire_send_frame(f.wire, WIRE_PONG, true, "x", 1));
    source_post(&s->http, "news", 4, 1, 0);

    assert_int_equal(follower_next(&f)->last, 4);
    follower_close(&f);
}

TEST(does_not_listen_to_long_stories, set_up_quiet, tear_down)
{
    struct stage *s = *state;
    char *story = calloc(1, 65537);
    struct follower f;

    assert_non_null(story);
    follower_open(&f, s->broker.port, "/sets/news/stream", NULL);
    follower_next(&f);
    assert_true(wire_send_frame(f.wire, WIRE_BINARY, true, story, 65536));
    source_post(&s->http, "news", 4, 1, 0);
    assert_int_equal(follower_next(&f)->last, 4);
    assert_true(wire_send_frame(f.wire, WIRE_BINARY, true, story, 65537));

    follower_expect_close(&f, 1009);
    follower_close(&f);
    free(story);
}

TEST(answers_a_close_with_a_close, set_up_quiet, tear_down)
{
    struct stage *s = *state;
    struct wire_frame frame;
    struct follower f;

    follower_open(&f, s->broker.port, "/sets/news/stream", NULL);
    follower_next(&f);
    assert_true(wire_send_frame(f.wire, WIRE_CLOSE, true, "\x03\xe8", 2));

    assert_true(wire_frame(f.wire, &frame));
    assert_int_equal(frame.opcode, WIRE_CLOSE);
    assert_true(wire_is_ended(f.wire));
    follower_close(&f);
}

/* a set's changes are on its own channel only. */
TEST(keeps_two_sets_apart, set_up_quiet, tear_down)
{
    struct stage *s = *state;
    struct follower news, olds;

    source_post(&s->http, "olds", 100, 1, 0);
    follower_open(&news, s->broker.port, "/sets/news/stream", NULL);
    follower_open(&olds, s->broker.port, "/sets/olds/stream", NULL);
    follower_next(&news);
    follower_next(&olds);
    assert_string_not_equal(news.notice.epoch, olds.notice.epoch);
    for (unsigned i = 0; i < 10; i++) {
        char loc[64];

        source_post(&s->http, "news", 1000 + i, 1, 0);
        source_post(&s->http, "olds", 2000 + i, 1, 0);

        snprintf(loc, sizeof(loc), "http://example.com/r/%u", 1000 + i);
        assert_int_equal(follower_next(&news)->last, 4 + i);
        assert_string_equal(news.notice.set, "news");
        assert_string_equal(news.notice.entries[0].loc, loc);
        snprintf(loc, sizeof(loc), "http://example.com/r/%u", 2000 + i);
        assert_int_equal(follower_next(&olds)->last, 2 + i);
        assert_string_equal(olds.notice.set, "olds");
        assert_string_equal(olds.notice.entries[0].loc, loc);
    }
    follower_close(&news);
    follower_close(&olds);
}

/* The end */

TEST(says_going_away_when_it_ends, set_up_quiet, tear_down)
{
    static const char *const subprotocols[] = {"resourcesync.json",
                                               "resourcesync.xml", NULL};
    struct stage *s = *state;
    struct follower f[9];

    for (size_t i = 0; i < 9; i++) {
        follower_open(&f[i], s->broker.port, "/sets/news/stream?after=0",
                      subprotocols[i % 3]);
        follower_until(&f[i], 3);
    }
    kill(s->broker.pid, SIGTERM);

    for (size_t i = 0; i < 9; i++) {
        follower_expect_close(&f[i], 1001);
        wire_send_frame(f[i].wire, WIRE_CLOSE, true, "\x03\xe9", 2);
        assert_true(wire_is_ended(f[i].wire));
        follower_close(&f[i]);
    }
    assert_int_equal(broker_wait(&s->broker), 0);
}
