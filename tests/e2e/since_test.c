/*
 * since_test.c - ?since=DATETIME: what happened later than that.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/follower.h"
#include "tests/support/jsonpath.h"
#include "tests/support/lists.h"
#include "tests/support/notice.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define SET     LISTS_SET
#define MEMORY  "/sets/" SET "/changes"
#define STREAM  "/sets/" SET "/stream"
#define TIDINGS BIN_DIR "/tidings"

#define POSTS 12

/* Where a page and a stream begin that ask for `since`: both at `after`. */
static void
assert_begins(struct lists *l, const char *since, uint64_t after)
{
    static const char *const subprotocols[] = {"resourcesync.json",
                                               "resourcesync.xml"};
    char path[256];
    struct notice n;

    snprintf(path, sizeof(path), MEMORY "?since=%s", since);
    assert_int_equal(http_get(&l->http, path), 200);
    notice_read(&n, NOTICE_JSON, buf_slice(&l->http.body));
    notice_check(&n);
    assert_int_equal(n.after, after);
    snprintf(path, sizeof(path), "<%s" MEMORY "?after=%s-%" PRIu64 ">;",
             l->broker.url, n.epoch, after);
    assert_memory_equal(http_header(&l->http, "Link"), path, strlen(path));
    notice_free(&n);

    snprintf(path, sizeof(path), STREAM "?since=%s", since);
    for (size_t i = 0; i < 2; i++) {
        struct follower f;

        follower_open(&f, l->broker.port, path, subprotocols[i]);
        assert_int_equal(follower_next(&f)->after, after); /* a heartbeat */
        follower_close(&f);
    }
}

/* Posts of one to three entries; receipts[i] is the last one's of post i. */
static void
post_all(struct lists *l, struct receipt receipts[POSTS])
{
    for (unsigned i = 0; i < POSTS; i++)
        receipts[i] = source_post(&l->http, SET, i * 3, 1 + i % 3, 0);
}

static void
assert_finds_all(struct lists *l, const struct receipt receipts[POSTS])
{
    for (size_t i = 0; i < POSTS; i++) {
        char before[33];
        size_t last;

        assert_begins(l, receipts[i].datetime, receipts[i].last);
        /* A microsecond earlier; where that is another digit, too. */
        snprintf(before, sizeof(before), "%s", receipts[i].datetime);
        last = strlen(before) - 2;
        if (before[last] > '0') {
            before[last]--;
            assert_begins(l, before, receipts[i].last - 1);
        }
    }
    assert_begins(l, "1999", 0);
    assert_begins(l, "2020-02-29", 0);
    assert_begins(l, "2020-02-29T12:00%2B01:00", 0);
    assert_begins(l, "2020-02-29T12:00:30.5+01:00", 0);
    assert_begins(l, "9998-12", receipts[POSTS - 1].last); /* now */
}

FIXTURE(lists_setup, lists_teardown);

/* design.md section 4: in memory, in the log, in closed lists' files. */
TEST(finds_the_moment_wherever_it_is_kept)
{
    struct receipt receipts[POSTS];
    struct lists *l = *state;

    LISTS_OPEN(l, "--rotate-entries", "4");
    lists_obstruct(l);
    post_all(l, receipts);
    assert_finds_all(l, receipts);
    broker_stop(&l->broker);
    broker_restart(&l->broker);
    assert_finds_all(l, receipts);
    lists_clear(l);
    lists_await_file(l, 5);
    broker_stop(&l->broker);
    broker_restart(&l->broker);
    assert_finds_all(l, receipts);
}

/* exactly what happened later, then on live. */
TEST(a_stream_goes_on_from_the_moment)
{
    struct receipt receipts[POSTS];
    struct lists *l = *state;
    struct follower f;
    char path[128];

    LISTS_OPEN(l, "--rotate-entries", "4");
    post_all(l, receipts);
    broker_stop(&l->broker);
    broker_restart(&l->broker);
    snprintf(path, sizeof(path), STREAM "?since=%s", receipts[3].datetime);
    follower_open(&f, l->broker.port, path, "resourcesync.json");
    assert_int_equal(follower_next(&f)->last, receipts[3].last);
    follower_until(&f, receipts[POSTS - 1].last);
    source_post(&l->http, SET, 1, 1, 0);
    follower_until(&f, receipts[POSTS - 1].last + 1);
    follower_close(&f);

    snprintf(path, sizeof(path), STREAM "?since=%s&change=deleted",
             receipts[3].datetime);
    follower_open(&f, l->broker.port, path, "resourcesync.json");
    assert_int_equal(follower_next(&f)->last, receipts[3].last);
    follower_close(&f);
}

/* tidings follow --since. */
TEST(a_follower_begins_at_the_moment)
{
    struct receipt receipts[POSTS];
    struct lists *l = *state;
    char url[128], line[128];
    struct command c;
    const char *const argv[] = {
        TIDINGS,   "follow", url, "--since", receipts[4].datetime,
        "--count", "1",      NULL};

    LISTS_OPEN(l, "--rotate-entries", "4");
    post_all(l, receipts);
    snprintf(url, sizeof(url), "%s/sets/" SET, l->broker.url);
    command_start(&c, argv);
    snprintf(line, sizeof(line), "%" PRIu64 " ", receipts[4].last + 1);
    assert_memory_equal(command_line(&c), line, strlen(line));
    assert_int_equal(command_end(&c), 0);
}

/* Hostile input gets a clear problem; of a stream, too. */
TEST(what_is_no_moment_is_refused)
{
    static const struct {
        const char *query, *why;
    } rows[] = {
        {"since=", "since: not a W3C Datetime: \"\""},
        {"since=yesterday", "since: not a W3C Datetime: \"yesterday\""},
        {"since=2026-02-30", "since: not a W3C Datetime: \"2026-02-30\""},
        {"since=1775067000", "since: not a W3C Datetime: \"1775067000\""},
        {"since=2026&after=0",
         "since and after contradict each other: give one"},
        {"after=0&since=2026",
         "since and after contradict each other: give one"},
    };

    struct lists *l = *state;
    struct jsonpath j;
    char path[128];

    LISTS_OPEN(l, "--heartbeat", "20");
    source_post(&l->http, SET, 1, 1, 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int k = 0; k < 2; k++) {
            snprintf(path, sizeof(path), "%s?%s", k ? STREAM : MEMORY,
                     rows[i].query);
            assert_int_equal(http_request(&l->http, "GET", path,
                                          k ? http_upgrade : NULL,
                                          (struct slice){NULL, 0}),
                             400);
            jsonpath_open(&j, buf_slice(&l->http.body));
            assert_string_equal(jsonpath_text(&j, "detail"), rows[i].why);
            jsonpath_close(&j);
        }
}
