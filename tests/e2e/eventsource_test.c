/*
 * eventsource_test.c - a subscriber by server-sent events: how it gets in,
 * what it gets while nothing happens, how it is sent away; byte for byte.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/command.h"
#include "tests/support/events.h"
#include "tests/support/events_stage.h"
#include "tests/support/http.h"
#include "tests/support/source.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define STREAM     EVENTS_STREAM
#define FROM_START STREAM "?after=0"

#define POST                                                  \
    "POST /sets/news/changes HTTP/1.1\r\nHost: 127.0.0.1\r\n" \
    "Content-Length: 5\r\n\r\nabcde"

static long
ask(struct events_stage *s, const char *method, const char *path,
    const char *accept, const char *last_id)
{
    const char *headers[] = {accept, last_id, NULL};

    return http_request(&s->http, method, path, headers,
                        (struct slice){NULL, 0});
}

/* Getting in */

/* The first event is a heartbeat where the stream starts: now, or at a
 * position; then comes what is after it, and what is new. A hint says when to
 * connect again. */
TEST(begins_with_a_heartbeat_where_it_was_asked_to, events_stage_quiet,
     events_stage_close)
{
    struct events_stage *s = *state;
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
TEST(speaks_http_1_0, events_stage_quiet, events_stage_close)
{
    struct events_stage *s = *state;
    struct events e;

    events_open_1_0(&e, s->broker.port, FROM_START);
    events_until(&e, 3);
    source_post(&s->http, "news", 4, 2, 0);
    events_until(&e, 5);
    events_close(&e);
}

/* RFC 9110 section 12.5.1; a request that asks for neither kind of stream is
 * told of both. */
TEST(is_given_to_who_asks_for_it_only, events_stage_quiet, events_stage_close)
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
    struct events_stage *s = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(ask(s, "HEAD", STREAM, cases[i].accept, NULL),
                         cases[i].status);
    assert_int_equal(http_get(&s->http, STREAM), 426);
    assert_non_null(
        memmem(s->http.body.data, s->http.body.size, "text/event-stream", 17));
}

/* HEAD gets the head and no stream. */
TEST(answers_head_with_the_head, events_stage_quiet, events_stage_close)
{
    struct events_stage *s = *state;

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
TEST(keeps_nothing_of_a_head, events_stage_quiet, events_stage_close)
{
    struct events_stage *s = *state;
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
TEST(refuses_what_cannot_be_meant, events_stage_quiet, events_stage_close)
{
    static const char accept[] = "Accept: text/event-stream";
    struct events_stage *s = *state;

    assert_int_equal(ask(s, "GET", "/sets/none/stream", accept, NULL), 404);
    assert_int_equal(ask(s, "GET", STREAM "?after=x", accept, NULL), 400);
    assert_int_equal(ask(s, "GET", STREAM, accept, "Last-Event-ID: x"), 400);
    assert_int_equal(ask(s, "GET", STREAM, accept, "Origin: http://a.example"),
                     403);
    assert_int_equal(ask(s, "POST", STREAM, accept, NULL), 405);
}

/* Nothing behind the request is read, and nothing of it comes back. */
TEST(is_not_disturbed_by_what_is_sent_behind_the_request, events_stage_quiet,
     events_stage_close)
{
    static const char *const behind[] = {
        "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", POST,
        "\x16\x03\x01 nonsense \r\n\r\n"};
    struct events_stage *s = *state;

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
TEST(sends_heartbeats_when_nothing_happens, events_stage_busy,
     events_stage_close)
{
    struct events_stage *s = *state;
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
TEST(tells_that_a_position_is_gone_once, events_stage_quiet, events_stage_close)
{
    static const char *const ids[] = {"0123456789abcdef-1", "4000"};
    struct events_stage *s = *state;

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
TEST(says_farewell, events_stage_quiet, events_stage_close)
{
    struct events_stage *s = *state;
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
TEST(says_no_farewell_within_an_event, events_stage_large, events_stage_close)
{
    struct events_stage *s = *state;
    static char some[65536];
    struct events e, quiet;
    struct buf rest;
    uint64_t last = 3;
    long n;

    for (unsigned i = 0; i < 16; i++)
        last = source_post(&s->http, "news", i, 16, 65000).last;
    events_open(&quiet, s->broker.port, STREAM, NULL);
    events_open_narrow(&e, s->broker.port, STREAM "?after=3");
    events_next(&e);

    /* It has begun, and is larger than all buffers on the way. */
    buf_init(&rest, (size_t)64 << 20);
    n = wire_read_some(e.wire, some, 1);
    assert_int_equal(n, 1);
    kill(s->broker.pid, SIGTERM);
    events_end(&quiet, "farewell"); /* all of its thread have it, or will not */
    events_close(&quiet);
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
TEST(is_understood_by_curl, events_stage_quiet, events_stage_close)
{
    struct events_stage *s = *state;
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
