/*
 * readiness_test.c - /healthz says that the process answers, /readyz that posts
 * are taken, or why they are not.
 *
 * A full disk: tests/crash/disk_full_test.c.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <sqlite3.h>

#include "tests/support/jsonpath.h"
#include "tests/support/lists.h"
#include "tests/support/patience.h"
#include "tests/support/samples.h"
#include "tests/support/source.h"
#include "tests/support/wire.h"
#include "tests/test.h"

static void
await_status(struct http *h, const char *path, long status)
{
    struct timespec pause = {0, LISTS_LOOK_MS * 1000000};

    for (int left_ms = PATIENCE_MS; left_ms > 0; left_ms -= LISTS_LOOK_MS) {
        if (http_get(h, path) == status)
            return;
        nanosleep(&pause, NULL);
    }
    fail_msg("%s stays %ld", path, h->status);
}

static void
assert_text(struct http *h, const char *text)
{
    struct slice body = buf_slice(&h->body);

    assert_string_equal(http_header(h, "Content-Type"), "text/plain");
    if (!slice_is(body, text))
        fail_msg("it says \"%.*s\"", SLICE_ARG(body));
}

FIXTURE(lists_setup, lists_teardown);

TEST(a_broker_that_is_well_is_ready)
{
    struct lists *l = *state;

    LISTS_OPEN(l, "--threads", "1");
    assert_int_equal(http_get(&l->http, "/readyz"), 200);
    assert_text(&l->http, "ready\n");
    assert_int_equal(http_get(&l->http, "/healthz"), 200);
    assert_text(&l->http, "ok\n");
    assert_int_equal(http_request(&l->http, "HEAD", "/readyz", NULL,
                                  (struct slice){NULL, 0}),
                     200);
    assert_int_equal(http_post(&l->http, "/readyz", "text/plain", SLICE("x")),
                     405);
}

/* What closed cannot be written to files: the log only grows. */
TEST(lists_that_cannot_be_filed_are_a_reason_until_they_can)
{
    struct lists *l = *state;
    struct jsonpath j;
    const char *detail;

    LISTS_OPEN(l, "--threads", "1");
    lists_obstruct(l);
    source_post(&l->http, LISTS_SET, 1, 2, 0);
    source_rotate(&l->http, LISTS_SET);

    await_status(&l->http, "/readyz", 503);
    assert_string_equal(http_header(&l->http, "Content-Type"),
                        "application/problem+json");
    assert_string_equal(http_header(&l->http, "Retry-After"), "1");
    jsonpath_open(&j, buf_slice(&l->http.body));
    detail = jsonpath_text(&j, "detail");
    assert_memory_equal(detail, "not ready: ", 11);
    assert_string_equal(jsonpath_text(&j, "reasons.0"), detail + 11);
    assert_non_null(strstr(detail, "cannot be written to their files"));
    jsonpath_close(&j);
    assert_int_equal(http_get(&l->http, "/healthz"), 200);

    lists_clear(l);
    await_status(&l->http, "/readyz", 200);
    lists_await_file(l, 1);
}

/* Has the last event of the log happened an hour from now? */
static void
move_last_time(const struct lists *l)
{
    sqlite3 *db = NULL;
    char path[400];

    snprintf(path, sizeof(path), "%s/tidings.db", l->broker.data);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "UPDATE batches SET last_us = last_us + "
                                  "3600500000 WHERE id = (SELECT max(id) FROM "
                                  "batches)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_changes(db), 1);
    sqlite3_close(db);
}

/* log.md, Times: a last time ahead of the clock is shown in /readyz; posts are
 * taken all the same, in order. */
TEST(a_clock_behind_the_log_is_a_warning)
{
    struct lists *l = *state;
    struct receipt before, after;

    LISTS_OPEN(l, "--threads", "1");
    before = source_post(&l->http, LISTS_SET, 1, 2, 0);
    broker_stop(&l->broker);
    move_last_time(l);
    broker_restart(&l->broker);

    assert_int_equal(http_get(&l->http, "/readyz"), 200);
    assert_true(slice_starts(buf_slice(&l->http.body),
                             "ready\nwarning: the last event time is 3"));
    after = source_post(&l->http, LISTS_SET, 3, 1, 0);
    assert_int_equal(after.last, 3);
    assert_true(strcmp(after.datetime, before.datetime) > 0);
    assert_int_equal(http_get(&l->http, "/readyz"), 200);
}

/* A connection that the broker keeps. */
static struct wire *
asker(struct lists *l)
{
    struct wire *w = wire_connect("127.0.0.1", l->broker.port);
    struct wire_answer a;

    assert_non_null(w);
    assert_true(wire_request(w, "GET", "/readyz", NULL, NULL, &a));
    assert_int_equal(a.status, 200);
    return w;
}

static bool
says_close(const struct wire_answer *a)
{
    char says[16];

    return wire_header(a, "Connection", says, sizeof(says)) &&
           !strcmp(says, "close");
}

/* While the broker ends, a connection that it still has hears of it. */
TEST(a_broker_that_ends_is_not_ready)
{
    static struct samples now;
    struct lists *l = *state;
    struct wire *held, *asks, *asks_later;
    struct wire_answer a;

    LISTS_OPEN(l, "--threads", "1");
    /* A post that is not whole holds up the end. */
    held = wire_connect("127.0.0.1", l->broker.port);
    asks = asker(l);
    asks_later = asker(l);
    assert_true(wire_send_text(held, "POST /sets/news/changes HTTP/1.1\r\n"
                                     "Host: localhost\r\n"
                                     "Content-Type: application/json\r\n"
                                     "Content-Length: 10\r\n\r\n["));
    samples_await_least(&now, &l->http, "tidings_ingest_bytes", 1);
    kill(l->broker.pid, SIGTERM);
    do
        assert_true(wire_request(asks, "GET", "/readyz", NULL, NULL, &a));
    while (a.status == 200 && !says_close(&a));
    if (a.status == 200) { /* the end came between question and answer */
        struct wire *last = asks;

        asks = asks_later;
        asks_later = last;
        assert_true(wire_request(asks, "GET", "/readyz", NULL, NULL, &a));
    }

    assert_int_equal(a.status, 503);
    assert_non_null(strstr(a.body, "\"detail\":\"the server is stopping\""));
    assert_true(says_close(&a));
    assert_true(wire_is_ended(asks));
    wire_close(held);
    wire_close(asks);
    wire_close(asks_later);
    assert_int_equal(broker_wait(&l->broker), 0);
}
