/*
 * longpoll_test.c - change memory that waits: a request with wait= is answered
 * when there is more, or when its time is over.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/notice.h"
#include "tests/support/patience.h"
#include "tests/support/source.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define CHANGES "/sets/news/changes"

/* Longer than any test. */
#define LONG "300"

#define CROWD 1000

/* A broker whose set "news" has three entries. */
struct stage {
    struct broker broker;
    struct http http;
};

static int
set_up_with(void **state, const char *rotate, const char *tail_bytes,
            const char *message_bytes)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, "--threads", "2", "--rotate-entries", rotate,
                "--tail-bytes", tail_bytes, "--message-bytes", message_bytes,
                NULL);
    http_open(&s->http, s->broker.url);
    source_post(&s->http, "news", 1, 3, 0);
    return 0;
}

static int
set_up(void **state)
{
    return set_up_with(state, "10", "1M", "1M");
}

static int
set_up_roomy(void **state)
{
    return set_up_with(state, "50000", "64M", "16M");
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

static void
ask(struct wire *w, const char *query)
{
    assert_non_null(w);
    assert_true(wire_send_format(
        w, "GET " CHANGES "?%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", query));
}

/* Asks on a new connection. */
static struct wire *
asked(const struct stage *s, const char *query)
{
    struct wire *w = wire_connect("127.0.0.1", s->broker.port);

    ask(w, query);
    return w;
}

/* The same, for who asks from now on: it came in one packet with another
 * request, which is answered. */
static struct wire *
asked_in_time(const struct stage *s, const char *query)
{
    struct wire *w = wire_connect("127.0.0.1", s->broker.port);
    struct wire_answer a;

    assert_non_null(w);
    assert_true(wire_send_format(
        w,
        "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        "GET " CHANGES "?%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        query));
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 200);
    return w;
}

/* The answer is a page with the entries after `after` up to `last`. */
static void
expect_page(struct wire *w, uint64_t after, uint64_t last)
{
    struct wire_answer a;
    struct notice n = {.n = 0};
    char tail[32];

    assert_true(wire_answer(w, &a, false));
    if (a.status != 200)
        fail_msg("status %u: %s", a.status, a.body);
    notice_read(&n, NOTICE_JSON, (struct slice){a.body, a.body_size});
    assert_int_equal(n.after, after);
    assert_int_equal(n.last, last);
    assert_int_equal(n.n, last - after);
    snprintf(tail, sizeof(tail), "-%u", (unsigned)last);
    assert_non_null(n.next);
    assert_true(strlen(n.next) > strlen(tail));
    assert_string_equal(n.next + strlen(n.next) - strlen(tail), tail);
    notice_free(&n);
}

/* The answer is a page of a filter, whose `next` ends with `tail`: it covers
 * from `after` to `last`, and has the entries whose seqs are `seqs`, up to 0.
 */
static void
expect_filtered(struct wire *w, uint64_t after, uint64_t last,
                const uint64_t *seqs, const char *tail)
{
    struct wire_answer a;
    struct notice n = {.n = 0};
    char type[40] = "";
    bool is_xml;

    assert_true(wire_answer(w, &a, false));
    if (a.status != 200)
        fail_msg("status %u: %s", a.status, a.body);
    wire_header(&a, "Content-Type", type, sizeof(type));
    is_xml = !strcmp(type, "application/xml");
    notice_read(&n, is_xml ? NOTICE_XML : NOTICE_JSON,
                (struct slice){a.body, a.body_size});
    notice_check_filtered(&n);
    assert_int_equal(n.after, after);
    assert_int_equal(n.last, last);
    for (size_t i = 0; i < n.n; i++)
        assert_int_equal(n.entries[i].seq, seqs[i]);
    assert_int_equal(seqs[n.n], 0);
    if (!is_xml) {
        assert_true(strlen(n.next) > strlen(tail));
        assert_string_equal(n.next + strlen(n.next) - strlen(tail), tail);
    }
    notice_free(&n);
}

static void
post_deleted(struct stage *s)
{
    assert_int_equal(source_send(&s->http, "news", "application/json",
                                 SLICE("{\"loc\":\"http://example.com/r/1\","
                                       "\"change\":\"deleted\"}"),
                                 NULL),
                     200);
}

/* Is there no answer so far? */
static bool
is_waiting(struct wire *w)
{
    char byte;
    bool is_silent;

    wire_set_wait(w, 0);
    is_silent = wire_read_some(w, &byte, 1) < 0;
    wire_set_wait(w, PATIENCE_MS);
    return is_silent;
}

static double
now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* what is there is answered at once; what comes, when it comes. */
TEST(is_answered_when_there_is_more, set_up, tear_down)
{
    struct stage *s = *state;
    struct wire *w = asked(s, "after=1&wait=" LONG);

    expect_page(w, 1, 3);
    for (uint64_t last = 3; last < 9; last += 2) {
        char query[64];

        snprintf(query, sizeof(query), "after=%u&wait=" LONG, (unsigned)last);
        ask(w, query);
        assert_int_equal(http_get(&s->http, "/healthz"), 200);
        assert_true(is_waiting(w));
        source_post(&s->http, "news", 0, 2, 0);
        expect_page(w, last, last + 2);
    }
    wire_close(w);
}

/* when the time is over, the page is empty and `next` is where it
 * was. */
TEST(is_answered_empty_when_the_time_is_over, set_up, tear_down)
{
    static const struct {
        const char *query;
        double least_s;
    } cases[] = {{"after=3&wait=0", 0},
                 {"after=3&wait=0.3", 0.3},
                 {"after=3&wait=1", 1},
                 {"after=3&wait=0.000001", 0}};
    struct stage *s = *state;

    for (size_t i = 0; i < 4; i++) {
        double start_s = now_s();
        struct wire *w = asked(s, cases[i].query);

        expect_page(w, 3, 3);
        assert_true(now_s() - start_s >= cases[i].least_s);
        wire_close(w);
    }
}

/* Each waits for its own time, whoever asks before and after it. */
TEST(waits_for_each_as_long_as_it_asked, set_up, tear_down)
{
    static const char *const waits[] = {"250", "1.5", "0.5", "300", "1"};
    static const int over[] = {2, 4, 1};
    struct stage *s = *state;
    double start_s = now_s();
    struct wire *w[5];

    for (int i = 0; i < 5; i++) {
        char query[64];

        snprintf(query, sizeof(query), "after=3&wait=%s", waits[i]);
        w[i] = asked(s, query);
    }
    for (int i = 0; i < 3; i++) {
        expect_page(w[over[i]], 3, 3);
        assert_true(now_s() - start_s >= strtod(waits[over[i]], NULL));
    }
    assert_true(is_waiting(w[0]));
    assert_true(is_waiting(w[3]));
    for (int i = 0; i < 5; i++)
        wire_close(w[i]);
}

TEST(refuses_what_is_no_time_to_wait, set_up, tear_down)
{
    static const char *const waits[] = {
        "", "x", "-1", "300.1", "1e2", "%zz", "99999999999999999999", "1."};
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        char path[128];
        long status;

        snprintf(path, sizeof(path), CHANGES "?after=3&wait=%s", waits[i]);
        status = http_get(&s->http, path);
        if (status != 400 && strcmp(waits[i], "%zz")) /* the library's 403 */
            fail_msg("wait=%s: %ld", waits[i], status);
    }
    assert_int_equal(http_get(&s->http, CHANGES "?after=3&wait=301"), 400);
    assert_non_null(
        memmem(s->http.body.data, s->http.body.size, "0 to 300 seconds", 16));
}

/* what cannot be served is not waited for. */
TEST(does_not_wait_for_what_cannot_come, set_up, tear_down)
{
    struct stage *s = *state;

    assert_int_equal(http_get(&s->http, CHANGES "?after=4&wait=" LONG), 410);
    assert_int_equal(http_get(&s->http, CHANGES "?after=x&wait=" LONG), 400);
    assert_int_equal(http_get(&s->http, "/sets/none/changes?wait=" LONG), 404);
}

/* what does not pass wakes it, but is no answer; the page that
 * comes in the end covers it all the same, from the client's position on, also
 * where that has left memory meanwhile, and in either form. */
TEST(goes_on_waiting_where_nothing_passes, set_up, tear_down)
{
    struct stage *s = *state;
    struct wire *json = asked(s, "after=1&change=deleted&wait=" LONG);
    struct wire *xml = wire_connect("127.0.0.1", s->broker.port);
    uint64_t last = 3;

    assert_non_null(xml);
    assert_true(wire_send_text(
        xml, "GET " CHANGES "?after=2&change=deleted&wait=" LONG " HTTP/1.1\r\n"
             "Host: 127.0.0.1\r\nAccept: application/xml\r\n\r\n"));
    for (unsigned i = 0; i < 30; i++) {
        last = source_post(&s->http, "news", i, 1000, 300).last;
        assert_int_equal(http_get(&s->http, "/healthz"), 200);
        assert_true(is_waiting(json));
        assert_true(is_waiting(xml));
    }
    assert_int_equal(last, 30003);
    post_deleted(s);
    expect_filtered(json, 1, 30004, (uint64_t[]){30004, 0},
                    "-30004&change=deleted");
    expect_filtered(xml, 2, 30004, (uint64_t[]){30004, 0}, NULL);

    /* And on the same connection, further on. */
    ask(json, "after=30004&change=deleted&wait=" LONG);
    source_post(&s->http, "news", 1, 5, 0);
    assert_true(is_waiting(json));
    post_deleted(s);
    expect_filtered(json, 30004, 30010, (uint64_t[]){30010, 0},
                    "-30010&change=deleted");
    wire_close(json);
    wire_close(xml);
}

/* then it says how far it has looked, which is further than where
 * the client was; so it does when the broker ends. */
TEST(says_how_far_it_has_looked_when_nobody_waits_any_longer, set_up, tear_down)
{
    struct stage *s = *state;
    struct wire *w = asked(s, "after=1&change=deleted&wait=0.4");

    expect_filtered(w, 1, 3, (uint64_t[]){0}, "-3&change=deleted");
    ask(w, "after=1&change=deleted&wait=" LONG);
    source_post(&s->http, "news", 4, 4, 0);
    assert_true(wire_await_threads(s->broker.port)); /* it waits */
    assert_true(is_waiting(w));
    kill(s->broker.pid, SIGTERM);
    expect_filtered(w, 1, 7, (uint64_t[]){0}, "-7&change=deleted");
    assert_true(wire_is_ended(w));
    wire_close(w);
    assert_int_equal(broker_wait(&s->broker), 0);
}

/* The moment is looked up once: it waits after the entry that was the last one
 * then, and its page begins there. */
TEST(waits_for_what_comes_after_a_moment, set_up, tear_down)
{
    struct stage *s = *state;
    struct wire *past = asked(s, "since=2001-01-01&wait=" LONG), *now, *quiet;
    struct receipt fourth;
    char query[100];

    expect_page(past, 0, 3);
    fourth = source_post(&s->http, "news", 4, 1, 0);
    now = asked_in_time(s, "since=9000&wait=" LONG);
    assert_true(is_waiting(now));
    snprintf(query, sizeof(query),
             "since=%s&tag=none&change=deleted&wait=" LONG, fourth.datetime);
    quiet = asked(s, query);
    snprintf(query, sizeof(query), "since=%s&change=deleted&wait=" LONG,
             fourth.datetime);
    ask(past, query);
    assert_true(wire_await_threads(s->broker.port)); /* it waits */
    assert_true(is_waiting(past));
    source_post(&s->http, "news", 5, 2, 0);
    expect_page(now, 4, 6);
    post_deleted(s);
    expect_filtered(past, 4, 7, (uint64_t[]){7, 0}, "-7&change=deleted");
    assert_true(is_waiting(quiet));
    wire_close(past);
    wire_close(now);
    wire_close(quiet);
}

/* A set's polls are its own. */
TEST(hears_of_its_own_set_only, set_up, tear_down)
{
    struct stage *s = *state;
    struct wire *w = asked(s, "after=3&wait=" LONG);

    source_post(&s->http, "other", 1, 5, 0);
    source_post(&s->http, "other", 1, 5, 0);
    assert_true(is_waiting(w));
    source_post(&s->http, "news", 1, 1, 0);
    expect_page(w, 3, 4);
    wire_close(w);
}

/* Lists that close meanwhile change nothing. */
TEST(goes_on_across_a_rotation, set_up, tear_down)
{
    struct stage *s = *state;
    struct wire *w = asked(s, "after=3&wait=" LONG);

    source_rotate(&s->http, "news");
    assert_true(is_waiting(w));
    source_post(&s->http, "news", 1, 20, 0);
    expect_page(w, 3, 23);
    wire_close(w);
}

/* one commit wakes them all, each with the whole of it; those that have
 * gone are forgotten, and those that wait cost little. */
TEST(wakes_a_crowd_and_forgets_who_has_gone, set_up, tear_down)
{
    static struct wire *w[CROWD];
    struct stage *s = *state;
    struct rlimit files;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    for (int i = 0; i < CROWD; i++)
        w[i] = asked(s, "after=3&wait=" LONG);
    for (int i = 0; i < CROWD; i += 3)
        wire_abort(w[i]);
    for (int i = 1; i < CROWD; i += 3)
        wire_close(w[i]);
    assert_int_equal(source_post(&s->http, "news", 1, 9, 0).last, 12);
    for (int i = 2; i < CROWD; i += 3) {
        expect_page(w[i], 3, 12);
        ask(w[i], "after=12&wait=" LONG);
    }
    source_post(&s->http, "news", 1, 1, 0);
    for (int i = 2; i < CROWD; i += 3) {
        expect_page(w[i], 12, 13);
        wire_close(w[i]);
    }
}

/* Pages of which the broker does not hold as many at a time (sets/registry.c).
 */
#define LARGE_CROWD 30
#define LARGE_PAGE  12000000

struct large {
    pthread_t id;
    struct wire *wire;
    struct wire_answer answer;
    bool is_answered;
};

/* All read at the same time: who has no page yet waits for those who have. */
static void *
read_large(void *argument)
{
    struct large *l = argument;

    l->is_answered = wire_answer(l->wire, &l->answer, false);
    return NULL;
}

/* Rule 5: what a crowd is woken for may be large; there is no room for all of
 * it at the same time where they read slowly, and whoever has time gets it a
 * little later. */
TEST(serves_a_crowd_that_is_woken_for_large_pages, set_up_roomy, tear_down)
{
    static struct large crowd[LARGE_CROWD];
    struct stage *s = *state;

    for (int i = 0; i < LARGE_CROWD; i++) {
        struct wire *w = wire_connect_narrow("127.0.0.1", s->broker.port);

        assert_non_null(w);
        crowd[i] = (struct large){.wire = w};
        wire_set_wait(w, 300000); /* for its turn */
        assert_true(wire_send_text(
            w, "GET " CHANGES "?after=3&wait=" LONG " HTTP/1.1\r\n"
               "Host: 127.0.0.1\r\nAccept: application/xml\r\n\r\n"));
    }
    assert_true(wire_await_threads(s->broker.port)); /* it waits */
    source_post(&s->http, "news", 1, 240, LARGE_PAGE / 240);
    for (int i = 0; i < LARGE_CROWD; i++)
        assert_int_equal(
            pthread_create(&crowd[i].id, NULL, read_large, &crowd[i]), 0);
    for (int i = 0; i < LARGE_CROWD; i++)
        pthread_join(crowd[i].id, NULL);

    assert_true(crowd[0].answer.body_size > LARGE_PAGE);
    for (int i = 0; i < LARGE_CROWD; i++) {
        const struct wire_answer *a = &crowd[i].answer,
                                 *first = &crowd[0].answer;

        assert_true(crowd[i].is_answered);
        if (a->status != 200)
            fail_msg("poll %d: status %u: %s", i, a->status, a->body);
        assert_true(slice_equal((struct slice){a->body, a->body_size},
                                (struct slice){first->body, first->body_size}));
    }
    for (int i = 0; i < LARGE_CROWD; i++)
        wire_close(crowd[i].wire);
}

/* The next request of the connection waits behind it. */
TEST(answers_what_is_pipelined_behind_it_afterwards, set_up, tear_down)
{
    struct stage *s = *state;
    struct wire *w = wire_connect("127.0.0.1", s->broker.port);
    struct wire_answer a;

    assert_non_null(w);
    assert_true(
        wire_send_text(w, "GET " CHANGES "?after=3&wait=" LONG " HTTP/1.1\r\n"
                          "Host: 127.0.0.1\r\n\r\n"
                          "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
    assert_int_equal(http_get(&s->http, "/healthz"), 200);
    assert_true(is_waiting(w));
    source_post(&s->http, "news", 1, 1, 0);
    expect_page(w, 3, 4);
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 200);
    wire_close(w);
}

/* Nobody waits for a broker that ends. */
TEST(is_answered_when_the_broker_ends, set_up, tear_down)
{
    struct stage *s = *state;
    struct wire *w[20];

    for (int i = 0; i < 20; i++)
        w[i] = asked(s, "after=3&wait=" LONG);
    assert_true(wire_await_threads(s->broker.port)); /* it waits */
    kill(s->broker.pid, SIGTERM);
    for (int i = 0; i < 20; i++) {
        expect_page(w[i], 3, 3);
        assert_true(wire_is_ended(w[i]));
        wire_close(w[i]);
    }
    assert_int_equal(broker_wait(&s->broker), 0);
    broker_restart(&s->broker);
    assert_int_equal(http_get(&s->http, CHANGES "?after=3&wait=0.1"), 200);
}
