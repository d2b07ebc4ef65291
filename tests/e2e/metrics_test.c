/*
 * metrics_test.c - what GET /metrics tells of a broker at work.
 *
 * Each text is read strictly (tests/support/samples.h).
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/events.h"
#include "tests/support/lists.h"
#include "tests/support/patience.h"
#include "tests/support/samples.h"
#include "tests/support/source.h"
#include "tests/support/stream.h"
#include "tests/test.h"

#define JSON "{transport=\"websocket-json\"}"
#define XML  "{transport=\"websocket-xml\"}"

#define WARNING "{level=\"warning\"}"

static struct samples now;

FIXTURE(lists_setup, lists_teardown);

TEST(posts_and_entries_are_counted_and_refusals_by_their_status)
{
    struct lists *l = *state;
    struct wire *w;

    LISTS_OPEN(l, "--max-body", "64K");
    source_post(&l->http, LISTS_SET, 1, 3, 0);
    source_post(&l->http, LISTS_SET, 4, 2, 0);
    assert_int_equal(http_post(&l->http, "/sets/news/changes",
                               "application/json", SLICE("{")),
                     400);
    assert_int_equal(http_post(&l->http, "/sets/news/changes",
                               "application/json", SLICE("{\"loc\":\"x\"}")),
                     422);
    assert_int_equal(
        http_post(&l->http, "/sets/news/changes", "text/css", SLICE("x")), 415);
    assert_int_equal(http_get(&l->http, "/nowhere"), 404);
    w = wire_connect("127.0.0.1", l->broker.port);
    assert_true(wire_send_text(w, "POST /sets/news/changes HTTP/1.1\r\n"
                                  "Host: localhost\r\n"
                                  "Content-Type: application/json\r\n"
                                  "Content-Length: 10\r\n\r\n["));
    samples_await_least(&now, &l->http, "tidings_ingest_bytes", 1);
    wire_close(w);
    samples_await_least(&now, &l->http, "tidings_posts_incomplete_total", 1);
    samples_await_most(&now, &l->http, "tidings_ingest_bytes", 0);

    samples_assert(&now, "tidings_build_info{version=\"" TIDINGS_VERSION "\"}",
                   1);
    samples_assert(&now, "tidings_posts_total", 2);
    samples_assert(&now, "tidings_entries_total", 5);
    samples_assert(&now, "tidings_posts_rejected_total{code=\"400\"}", 1);
    samples_assert(&now, "tidings_posts_rejected_total{code=\"422\"}", 1);
    samples_assert(&now, "tidings_posts_rejected_total{code=\"415\"}", 1);
    samples_assert(&now, "tidings_posts_rejected_total{code=\"404\"}", 0);
    samples_assert(&now, "tidings_posts_incomplete_total", 1);
    samples_assert(&now, "tidings_http_responses_total{code=\"404\"}", 1);
    samples_assert(&now, "tidings_commit_duration_seconds_count", 2);
    assert_true(samples_value(&now, "tidings_commit_duration_seconds_sum") > 0);
    samples_assert(&now, "tidings_commits_failed_total", 0);
    samples_assert(&now, "tidings_log_has_room", 1);
    samples_assert(&now, "tidings_log_ahead_seconds", 0);
    samples_assert(&now, "tidings_sets", 1);
    samples_assert(&now, "tidings_ingest_limit_bytes", 256 << 20);
    samples_assert(&now, "tidings_tail_limit_bytes", 64 << 20);
    assert_true(samples_value(&now, "tidings_tail_bytes") > 5 * 80);
    assert_true(samples_value(&now, "tidings_wal_bytes") > 0);
}

/* Each failure is counted, then told of or, once there are many, left out. */
static void
await_all_told(struct http *h)
{
    struct patience p = {.with = "a warning of each failure"};

    for (;;) {
        samples_get(&now, h);
        if (samples_value(&now, "tidings_diagnostics_total" WARNING) +
                samples_value(&now,
                              "tidings_diagnostics_suppressed_total" WARNING) ==
            samples_value(&now, "tidings_list_files_failed_total") +
                samples_value(&now, "tidings_folds_failed_total"))
            return;
        patience_step(&p);
    }
}

TEST(lists_are_counted_when_they_close_and_when_they_are_filed)
{
    struct lists *l = *state;

    LISTS_OPEN(l, "--rotate-entries", "3");
    lists_obstruct(l);
    source_post(&l->http, LISTS_SET, 1, 7, 0);
    samples_await_least(&now, &l->http, "tidings_list_files_failed_total", 1);
    samples_assert(&now, "tidings_lists_closed_total", 2);
    samples_assert(&now, "tidings_list_files_written_total", 0);
    /* The state of the set has no place either. */
    samples_await_least(&now, &l->http, "tidings_folds_failed_total", 1);
    await_all_told(&l->http);

    lists_clear(l);
    samples_await_least(&now, &l->http, "tidings_list_files_written_total", 2);
    samples_assert(&now, "tidings_list_files_written_total", 2);
    samples_assert(&now, "tidings_lists_closed_total", 2);
}

/* From the commit to the socket, of those who were there. */
TEST(messages_to_subscribers_are_counted_and_timed)
{
    struct lists *l = *state;
    struct problem why = {""};
    struct wire *live, *late;
    struct trace t;

    LISTS_OPEN(l, "--heartbeat", "3600");
    live = wire_connect("127.0.0.1", l->broker.port);
    trace_init(&t);
    source_post(&l->http, LISTS_SET, 1, 1, 0);
    assert_true(stream_open(live, LISTS_SET, NULL, &why));
    samples_await_least(&now, &l->http, "tidings_messages_sent_total" XML, 1);
    samples_assert(&now, "tidings_subscribers" XML, 1);
    samples_assert(&now, "tidings_subscribers" JSON, 0);
    samples_assert(&now, "tidings_push_latency_seconds_count",
                   0); /* a heartbeat */

    source_post(&l->http, LISTS_SET, 2, 4, 0);
    samples_await_least(&now, &l->http, "tidings_push_latency_seconds_count",
                        1);
    samples_assert(&now, "tidings_messages_sent_total" XML, 2);
    samples_assert(&now, "tidings_push_latency_seconds_count", 1);
    assert_true(samples_value(&now, "tidings_push_latency_seconds_sum") > 0);

    /* Who comes later gets the same, but that is no latency. */
    late = wire_connect("127.0.0.1", l->broker.port);
    assert_true(stream_open(late, LISTS_SET, "0", &why));
    assert_true(stream_read(late, &t, 5, NULL, &why));
    samples_await_least(&now, &l->http, "tidings_messages_sent_total" XML, 4);
    samples_assert(&now, "tidings_subscribers" XML, 2);
    samples_assert(&now, "tidings_push_latency_seconds_count", 1);

    wire_close(live);
    wire_close(late);
    samples_await_most(&now, &l->http, "tidings_subscribers" XML, 0);
    trace_fini(&t);
}

/* A subscriber that does not read is behind, and then no more. */
TEST(who_is_behind_is_seen)
{
    struct lists *l = *state;
    struct problem why = {""};
    struct wire *slow;
    struct trace t;
    unsigned last = 0;

    LISTS_OPEN(l, "--threads", "1");
    trace_init(&t);
    source_post(&l->http, LISTS_SET, ++last, 1, 0);
    slow = wire_connect_narrow("127.0.0.1", l->broker.port);
    assert_true(stream_open(slow, LISTS_SET, "0", &why));
    for (int i = 0; i < 10; i++, last += 100)
        source_post(&l->http, LISTS_SET, last + 1, 100, 10000);
    samples_await_least(&now, &l->http, "tidings_subscriber_lag_entries" XML,
                        100);
    samples_assert(&now, "tidings_subscriber_lag_max_entries" XML,
                   samples_value(&now, "tidings_subscriber_lag_entries" XML));
    samples_assert(&now, "tidings_subscriber_lag_entries" JSON, 0);

    assert_true(stream_read(slow, &t, last, NULL, &why));
    samples_await_most(&now, &l->http, "tidings_subscriber_lag_entries" XML, 0);
    samples_assert(&now, "tidings_subscriber_lag_max_entries" XML, 0);
    wire_close(slow);
    trace_fini(&t);
}

TEST(connections_and_bytes_are_counted)
{
    struct lists *l = *state;
    struct samples *before = malloc(sizeof(*before));
    struct wire *wires[3];
    struct buf body;

    assert_non_null(before);
    LISTS_OPEN(l, "--threads", "2");
    samples_get(before, &l->http);
    for (int i = 0; i < 3; i++)
        assert_non_null(wires[i] = wire_connect("127.0.0.1", l->broker.port));
    samples_await_least(
        &now, &l->http, "tidings_connections_accepted_total",
        samples_value(before, "tidings_connections_accepted_total") + 3);
    samples_get(&now, &l->http); /* one may have come between the two rows */
    samples_assert(&now, "tidings_connections_accepted_total",
                   samples_value(before, "tidings_connections_accepted_total") +
                       3);
    samples_assert(&now, "tidings_connections",
                   samples_value(before, "tidings_connections") + 3);
    for (int i = 0; i < 3; i++)
        wire_close(wires[i]);
    samples_await_most(&now, &l->http, "tidings_connections",
                       samples_value(before, "tidings_connections"));

    buf_init(&body, 1 << 20);
    source_entries(&body, 1, 100, 1000);
    samples_get(before, &l->http);
    assert_int_equal(source_send(&l->http, LISTS_SET, "application/json",
                                 buf_slice(&body), NULL),
                     200);
    samples_get(&now, &l->http);
    samples_assert(&now, "tidings_received_bytes_total",
                   samples_value(before, "tidings_received_bytes_total") +
                       (double)body.size);
    assert_true(samples_value(&now, "tidings_sent_bytes_total") >
                samples_value(before, "tidings_sent_bytes_total") + 10000);
    buf_fini(&body);
    free(before);
}

/* An event stream is an answer, and a subscriber of its own kind. */
TEST(event_streams_are_counted)
{
#define EVENTS     "{transport=\"eventsource\"}"
#define EVENTS_1_0 "{transport=\"eventsource-1.0\"}"
#define ANSWERED   "tidings_http_responses_total{code=\"200\"}"
    struct lists *l = *state;
    struct events e, old;
    double before;

    LISTS_OPEN(l, "--heartbeat", "3600");
    source_post(&l->http, LISTS_SET, 1, 3, 0);
    samples_get(&now, &l->http);
    before = samples_value(&now, ANSWERED);
    events_open(&e, l->broker.port, "/sets/" LISTS_SET "/stream?after=0", NULL);
    events_until(&e, 3);
    events_open_1_0(&old, l->broker.port, "/sets/" LISTS_SET "/stream");
    events_next(&old);
    samples_get(&now, &l->http);
    samples_assert(&now, ANSWERED, before + 3); /* and the first /metrics */
    samples_assert(&now, "tidings_subscribers" EVENTS, 1);
    samples_assert(&now, "tidings_subscribers" EVENTS_1_0, 1);
    /* Counted when it is sent: a moment after it is read, perhaps. */
    samples_await_least(&now, &l->http, "tidings_messages_sent_total" EVENTS,
                        2);
    samples_await_least(&now, &l->http,
                        "tidings_messages_sent_total" EVENTS_1_0, 1);
    samples_assert(&now, "tidings_messages_sent_total" EVENTS, 2);
    samples_assert(&now, "tidings_push_latency_seconds_count", 0);

    source_post(&l->http, LISTS_SET, 4, 1, 0);
    events_until(&e, 4);
    events_until(&old, 4);
    samples_await_least(&now, &l->http, "tidings_push_latency_seconds_count",
                        2);
    events_close(&e);
    events_close(&old);
    samples_await_most(&now, &l->http, "tidings_subscribers" EVENTS, 0);
    samples_await_most(&now, &l->http, "tidings_subscribers" EVENTS_1_0, 0);
}

/* As other GETs: an open broker answers to its own names only. */
TEST(strangers_are_told_nothing)
{
    static const char *const foreign[] = {"Host: example.org", NULL};
    struct lists *l = *state;

    LISTS_OPEN(l, "--threads", "1");
    assert_int_equal(http_request(&l->http, "GET", "/metrics", foreign,
                                  (struct slice){NULL, 0}),
                     403);
    assert_int_equal(http_request(&l->http, "GET", "/readyz", foreign,
                                  (struct slice){NULL, 0}),
                     403);
    assert_int_equal(http_request(&l->http, "HEAD", "/metrics", NULL,
                                  (struct slice){NULL, 0}),
                     200);
    assert_int_equal(l->http.body.size, 0);
}
