/*
 * eventsource_test.c - a subscriber by server-sent events: how it gets in,
 * where it starts and goes on, how it is sent away; byte for byte.
 */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/broker.h"
#include "tests/support/command.h"
#include "tests/support/events.h"
#include "tests/support/http.h"
#include "tests/support/source.h"

#define STREAM     "/sets/news/stream"
#define FROM_START STREAM "?after=0"

#define POST                                                  \
    "POST /sets/news/changes HTTP/1.1\r\nHost: 127.0.0.1\r\n" \
    "Content-Length: 5\r\n\r\nabcde"

/* A broker whose set "news" has three entries. */
struct stage {
    struct broker broker;
    struct http http;
};

static int
set_up(void **state, const char *heartbeat, const char *rotate,
       const char *message_bytes)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, "--heartbeat", heartbeat, "--rotate-entries",
                rotate, "--message-bytes", message_bytes, "--threads", "2",
                NULL);
    http_open(&s->http, s->broker.url);
    source_post(&s->http, "news", 1, 3, 0);
    return 0;
}

static int
set_up_quiet(void **state)
{
    return set_up(state, "3600", "50000", "1M");
}

/* A message may be larger than all buffers between two processes. */
static int
set_up_large(void **state)
{
    return set_up(state, "3600", "50000", "16M");
}

static int
set_up_busy(void **state)
{
    return set_up(state, "0.2", "50000", "1M");
}

static int
set_up_rotating(void **state)
{
    return set_up(state, "3600", "7", "1M");
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

static long
ask(struct stage *s, const char *method, const char *path, const char *accept,
    const char *last_id)
{
    const char *headers[] = {accept, last_id, NULL};

    return http_request(&s->http, method, path, headers,
                        (struct slice){NULL, 0});
}

/* Getting in */

/* The first event is a heartbeat where the stream starts: now, or at a
 * position; then comes what is after it, and what is new. A hint says when to
 * connect again. */
static void
begins_with_a_heartbeat_where_it_was_asked_to(void **state)
{
    struct stage *s = *state;
    struct events e;

    events_open(&e, s->broker.port, STREAM, NULL);
    assert_int_equal(events_next(&e)->last, 3);
    assert_in_range(e.retry_ms, 1000, 3000);
    source_post(&s->http, "news", 4, 2, 0);
    assert_int_equal(events_next(&e)->last, 5);
    assert_string_equal(e.notice.entries[1].loc, "http://example.com/r/5");
    events_close(&e);

    events_open(&e, s->broker.port, STREAM "?after=2", NULL);
    assert_int_equal(events_next(&e)->last, 2);
    events_until(&e, 5);
    events_close(&e);
}

/* Who understands no chunks gets the events as they are. */
static void
speaks_http_1_0(void **state)
{
    struct stage *s = *state;
    struct events e;

    events_open_1_0(&e, s->broker.port, FROM_START);
    events_until(&e, 3);
    source_post(&s->http, "news", 4, 2, 0);
    events_until(&e, 5);
    events_close(&e);
}

/* RFC 9110 section 12.5.1; a request that asks for neither kind of stream is
 * told of both. */
static void
is_given_to_who_asks_for_it_only(void **state)
{
    static const struct {
        const char *accept;
        long status;
    } cases[] = {
        {"Accept: text/event-stream", 200},
        {"Accept: text/html, text/event-stream;q=0.1", 200},
        {"Accept: text/event-stream;q=0, */*", 426},
        {"Accept: */*", 426},
        {"Accept: application/json", 426},
        {"Accept;", 426},
    };
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(ask(s, "HEAD", STREAM, cases[i].accept, NULL),
                         cases[i].status);
    assert_int_equal(http_get(&s->http, STREAM), 426);
    assert_non_null(
        memmem(s->http.body.data, s->http.body.size, "text/event-stream", 17));
}

/* HEAD gets the head and no stream. */
static void
answers_head_with_the_head(void **state)
{
    struct stage *s = *state;

    assert_int_equal(ask(s, "HEAD", STREAM, "Accept: text/event-stream", NULL),
                     200);
    assert_string_equal(http_header(&s->http, "Content-Type"),
                        "text/event-stream");
    assert_string_equal(http_header(&s->http, "Cache-Control"), "no-store");
    assert_string_equal(http_header(&s->http, "X-Accel-Buffering"), "no");
    assert_null(http_header(&s->http, "Content-Length"));
    assert_int_equal(http_get(&s->http, "/healthz"), 200);
}

/* sets/filters.h: so many may be in use at a time. */
#define FILTERS_MAX 1024

/* Nor is its filter in use afterwards. */
static void
keeps_nothing_of_a_head(void **state)
{
    struct stage *s = *state;
    char path[100];

    for (unsigned i = 0; i <= FILTERS_MAX; i++) {
        snprintf(path, sizeof(path), STREAM "?tag=t%u", i);
        assert_int_equal(
            ask(s, "HEAD", path, "Accept: text/event-stream", NULL), 200);
    }
    assert_int_equal(http_get(&s->http, "/sets/news/changes?tag=other"), 200);
}

/* What no EventSource sends is refused before there is a stream; it takes that
 * for the end. */
static void
refuses_what_cannot_be_meant(void **state)
{
    static const char accept[] = "Accept: text/event-stream";
    struct stage *s = *state;

    assert_int_equal(ask(s, "GET", "/sets/none/stream", accept, NULL), 404);
    assert_int_equal(ask(s, "GET", STREAM "?after=x", accept, NULL), 400);
    assert_int_equal(ask(s, "GET", STREAM, accept, "Last-Event-ID: x"), 400);
    assert_int_equal(ask(s, "GET", STREAM, accept, "Origin: http://a.example"),
                     403);
    assert_int_equal(ask(s, "POST", STREAM, accept, NULL), 405);
}

/* Going on */

/* an EventSource asks for the same URL again; its Last-Event-ID
 * counts. */
static void
goes_on_after_the_last_event_id(void **state)
{
    struct stage *s = *state;
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
static void
goes_on_after_a_heartbeat(void **state)
{
    struct stage *s = *state;
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
post_deleted(struct stage *s, unsigned n)
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
static void
goes_on_with_its_filter(void **state)
{
    struct stage *s = *state;
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
static void
goes_on_with_its_filter_where_the_urls_position_is_gone(void **state)
{
    struct stage *s = *state;
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
static void
loses_and_repeats_nothing_when_it_is_cut_off(void **state)
{
    struct stage *s = *state;
    struct poster p = {.url = s->broker.url, .n_posts = 400};
    struct events e;
    unsigned cuts = 0;

    atomic_init(&p.last, 0);
    assert_int_equal(pthread_create(&p.thread, NULL, post_on, &p), 0);
    events_open(&e, s->broker.port, FROM_START, NULL);
    while (e.notice.last < 790) {
        char some[64];

        for (unsigned n = cuts % 5; n && e.notice.last < 790; n--)
            events_next(&e);
        if (cuts % 2)
            wire_read_some(e.wire, some, 1 + cuts % sizeof(some));
        events_again(&e, cuts % 3 == 0);
        cuts++;
    }
    assert_true(cuts > 50);
    pthread_join(p.thread, NULL);
    events_until(&e, atomic_load(&p.last));
    assert_int_equal(e.notice.last, 3 + 134 + 2 * 133 + 3 * 133);
    events_close(&e);
}

/* who was away for long reads closed lists first; who reads slowly gets
 * the same in larger messages. */
static void
catches_up_through_closed_lists(void **state)
{
    struct stage *s = *state;
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
static void
goes_on_after_kill_9(void **state)
{
    struct stage *s = *state;
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

/* Nothing behind the request is read, and nothing of it comes back. */
static void
is_not_disturbed_by_what_is_sent_behind_the_request(void **state)
{
    static const char *const behind[] = {
        "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", POST,
        "\x16\x03\x01 nonsense \r\n\r\n"};
    struct stage *s = *state;

    for (size_t i = 0; i < 3; i++) {
        struct wire *w = wire_connect("127.0.0.1", s->broker.port);
        struct wire_answer a;
        char some[2000];

        assert_non_null(w);
        assert_true(wire_send_format(w,
                                     "GET " STREAM " HTTP/1.1\r\n"
                                     "Host: 127.0.0.1\r\n"
                                     "Accept: text/event-stream\r\n\r\n%s",
                                     behind[i]));
        assert_true(wire_answer_head(w, &a));
        assert_int_equal(a.status, 200);
        assert_true(wire_send_text(w, behind[i]));
        source_post(&s->http, "news", 10, 1, 0);
        for (size_t n = 0; n < 3 || !memmem(some, n, "event: changes", 14);) {
            long got = wire_read_some(w, some + n, sizeof(some) - n);

            assert_true(got > 0);
            n += (size_t)got;
            assert_null(memmem(some, n, "HTTP/", 5));
        }
        wire_close(w);
    }
}

/* While it is connected */

/* quiet can be told from dead. */
static void
sends_heartbeats_when_nothing_happens(void **state)
{
    struct stage *s = *state;
    struct events e, old;

    events_open(&e, s->broker.port, STREAM, NULL);
    events_open_1_0(&old, s->broker.port, STREAM);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(events_next(&e)->n, 0);
        assert_int_equal(events_next(&old)->n, 0);
    }
    assert_string_equal(e.notice.heartbeat, "0.2");
    source_post(&s->http, "news", 4, 1, 0);
    events_until(&e, 4);
    events_until(&old, 4);
    assert_int_equal(events_next(&e)->n, 0);
    assert_int_equal(events_next(&old)->last, 4);
    events_close(&e);
    events_close(&old);
}

/* Being sent away */

/* a position that cannot be served is told on the stream, for nobody
 * could read the body of a refusal, with where to go on; and who connects again
 * as told by that event is told to stop. */
static void
tells_that_a_position_is_gone_once(void **state)
{
    static const char *const ids[] = {"0123456789abcdef-1", "4000"};
    struct stage *s = *state;

    for (size_t i = 0; i < 2; i++) {
        struct events e;

        events_open(&e, s->broker.port, FROM_START, ids[i]);
        events_end(&e, "gone");
        assert_non_null(strstr(e.data.data, "\"earliest\":\""));
        assert_non_null(strstr(e.data.data, "-3\",\"restart\":\"http://"));
        assert_non_null(strstr(e.data.data, "/sets/news/capabilitylist.xml\""));
        assert_string_equal(e.last_id, "gone");
        events_close(&e);
    }
    assert_int_equal(ask(s, "GET", FROM_START, "Accept: text/event-stream",
                         "Last-Event-ID: gone"),
                     204);
    assert_int_equal(s->http.body.size, 0);
    assert_string_equal(http_header(&s->http, "Cache-Control"), "no-store");
}

/* Everybody is told, and the answer ends as a whole; the client comes back. */
static void
says_farewell(void **state)
{
    struct stage *s = *state;
    struct events e[4];

    for (int i = 0; i < 4; i++) {
        events_open(&e[i], s->broker.port, FROM_START, NULL);
        events_until(&e[i], 3);
    }
    kill(s->broker.pid, SIGTERM);
    for (int i = 0; i < 4; i++) {
        events_end(&e[i], "farewell");
        assert_string_equal(e[i].data.data,
                            "{\"detail\":\"the broker is ending\"}");
    }
    assert_int_equal(broker_wait(&s->broker), 0);
    broker_restart(&s->broker);
    source_post(&s->http, "news", 4, 2, 0);
    for (int i = 0; i < 4; i++) {
        events_again(&e[i], false);
        events_until(&e[i], 5);
        events_close(&e[i]);
    }
}

/* Within an event there is no farewell: it would become part of that event,
 * which would count although half of it is missing. The answer is not whole
 * then, and says so. */
static void
says_no_farewell_within_an_event(void **state)
{
    struct stage *s = *state;
    static char some[65536];
    struct events e;
    struct buf rest;
    uint64_t last = 3;
    long n;

    for (unsigned i = 0; i < 16; i++)
        last = source_post(&s->http, "news", i, 16, 65000).last;
    events_open_narrow(&e, s->broker.port, STREAM "?after=3");
    events_next(&e);

    /* It has begun, and is larger than all buffers on the way. */
    buf_init(&rest, (size_t)64 << 20);
    n = wire_read_some(e.wire, some, 1);
    assert_int_equal(n, 1);
    kill(s->broker.pid, SIGTERM);
    for (; n > 0; n = wire_read_some(e.wire, some, sizeof(some)))
        buf_add(&rest, some, (size_t)n);
    assert_int_equal(n, 0);
    assert_non_null(memmem(rest.data, rest.size, "event: changes\n", 15));
    assert_true(rest.size < last * 65000);
    assert_null(memmem(rest.data, rest.size, "farewell", 8));
    assert_null(memmem(rest.data, rest.size, "\r\n0\r\n\r\n", 7));
    buf_fini(&rest);
    assert_int_equal(broker_wait(&s->broker), 0);

    broker_restart(&s->broker);
    events_again(&e, false);
    events_until(&e, last);
    events_close(&e);
}

/* Somebody else's client */

/* curl -N shows what comes as it comes, and knows when it is all. */
static void
is_understood_by_curl(void **state)
{
    struct stage *s = *state;
    char url[200];
    const char *const argv[] = {"/usr/bin/env",
                                "curl",
                                "-sSN",
                                "-H",
                                "Accept: text/event-stream",
                                url,
                                NULL};
    struct command c;

    snprintf(url, sizeof(url), "%s" FROM_START, s->broker.url);
    command_start(&c, argv);
    while (strcmp(command_line(&c), "event: changes"))
        ;
    assert_non_null(strstr(command_line(&c), "\"seq\":3}]}"));
    source_post(&s->http, "news", 4, 2, 0);
    while (strcmp(command_line(&c), "event: changes"))
        ;
    assert_non_null(strstr(command_line(&c), "\"seq\":5}]}"));
    broker_stop(&s->broker);
    assert_int_equal(command_end(&c), 0);
    assert_non_null(strstr(c.out_text, "event: farewell"));
}

#define TEST(name, setup) \
    cmocka_unit_test_setup_teardown(name, setup, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(begins_with_a_heartbeat_where_it_was_asked_to, set_up_quiet),
        TEST(speaks_http_1_0, set_up_quiet),
        TEST(is_given_to_who_asks_for_it_only, set_up_quiet),
        TEST(answers_head_with_the_head, set_up_quiet),
        TEST(keeps_nothing_of_a_head, set_up_quiet),
        TEST(refuses_what_cannot_be_meant, set_up_quiet),
        TEST(goes_on_after_the_last_event_id, set_up_quiet),
        TEST(goes_on_after_a_heartbeat, set_up_quiet),
        TEST(goes_on_with_its_filter, set_up_busy),
        TEST(goes_on_with_its_filter_where_the_urls_position_is_gone,
             set_up_quiet),
        TEST(loses_and_repeats_nothing_when_it_is_cut_off, set_up_rotating),
        TEST(catches_up_through_closed_lists, set_up_rotating),
        TEST(goes_on_after_kill_9, set_up_quiet),
        TEST(is_not_disturbed_by_what_is_sent_behind_the_request, set_up_quiet),
        TEST(sends_heartbeats_when_nothing_happens, set_up_busy),
        TEST(tells_that_a_position_is_gone_once, set_up_quiet),
        TEST(says_farewell, set_up_quiet),
        TEST(says_no_farewell_within_an_event, set_up_large),
        TEST(is_understood_by_curl, set_up_quiet),
    };

    return cmocka_run_group_tests_name("eventsource", tests, NULL, NULL);
}
