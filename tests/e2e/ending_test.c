/*
 * ending_test.c - SIGTERM while everybody is busy: what was acknowledged is
 * kept, everybody is told, and the exit status is 0.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/follower.h"
#include "tests/support/http.h"
#include "tests/support/notice.h"
#include "tests/support/source.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define CHANGES "/sets/news/changes"
#define POSTERS 4

/* Posts one entry after the other until it gets none in any more. */
struct poster {
    unsigned number, port;
    atomic_uint n_acknowledged; /* relaxed: a figure to wait for */
    bool is_well_answered;
    pthread_t thread;
};

static void *
post_until_refused(void *user)
{
    struct poster *p = user;
    struct wire *w = wire_connect("127.0.0.1", p->port);
    struct wire_answer a = {.status = 200};
    unsigned n = 0;

    p->is_well_answered = w != NULL;
    while (w && a.status == 200) {
        char body[128];

        snprintf(body, sizeof(body),
                 "{\"loc\":\"http://example.com/%u/%u\","
                 "\"change\":\"created\"}",
                 p->number, n);
        if (!wire_request(w, "POST", CHANGES,
                          "Content-Type: application/json\r\n", body, &a))
            break; /* the connection has ended */
        if (a.status == 200)
            atomic_store(&p->n_acknowledged, ++n);
        else
            p->is_well_answered = a.status == 503;
    }
    wire_close(w);
    return NULL;
}

/* How many posts of each are there, which are in order: all pages of them. */
static void
count_kept(struct http *h, unsigned *kept)
{
    uint64_t after = 1;
    size_t n_entries;

    do {
        struct notice n;
        char path[100];

        snprintf(path, sizeof(path), CHANGES "?after=%" PRIu64, after);
        assert_int_equal(http_get(h, path), 200);
        notice_read(&n, NOTICE_JSON, buf_slice(&h->body));
        notice_check(&n);
        for (size_t i = 0; i < n.n; i++) {
            unsigned poster, number;

            assert_int_equal(sscanf(n.entries[i].loc,
                                    "http://example.com/%u/%u", &poster,
                                    &number),
                             2);
            assert_int_equal(number, kept[poster]++);
        }
        n_entries = n.n;
        after = n.last;
        notice_free(&n);
    } while (n_entries > 0);
}

static void
end_while_busy(int signal_number)
{
    struct poster posters[POSTERS];
    struct follower f[6];
    struct wire *half;
    struct broker b;
    struct http h;
    unsigned kept[POSTERS] = {0};

    broker_open(&b, "--threads", "2", NULL);
    http_open(&h, b.url);
    source_post(&h, "news", 1, 1, 0);
    for (size_t i = 0; i < 6; i++)
        follower_open(&f[i], b.port, "/sets/news/stream",
                      i % 2 ? "resourcesync.xml" : "resourcesync.json");
    half = wire_connect("127.0.0.1", b.port);
    assert_non_null(half);
    assert_true(wire_send_format(
        half,
        "POST " CHANGES " HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n[",
        b.port));
    for (unsigned i = 0; i < POSTERS; i++) {
        posters[i].number = i;
        posters[i].port = b.port;
        atomic_init(&posters[i].n_acknowledged, 0);
        assert_int_equal(pthread_create(&posters[i].thread, NULL,
                                        post_until_refused, &posters[i]),
                         0);
    }
    /* Everybody is at work when each follower has heard of 100 posts. */
    for (size_t i = 0; i < 6; i++)
        do
            follower_next(&f[i]);
        while (f[i].notice.last < 100);
    for (unsigned i = 0; i < POSTERS; i++) /* and all posters have begun */
        while (atomic_load(&posters[i].n_acknowledged) == 0)
            follower_next(&f[0]);

    kill(b.pid, signal_number);
    for (size_t i = 0; i < 6; i++) {
        follower_expect_close(&f[i], 1001);
        wire_send_frame(f[i].wire, WIRE_CLOSE, true, "\x03\xe9", 2);
        follower_close(&f[i]);
    }
    assert_int_equal(broker_wait(&b), 0);
    for (unsigned i = 0; i < POSTERS; i++) {
        pthread_join(posters[i].thread, NULL);
        assert_true(posters[i].is_well_answered);
        assert_true(atomic_load(&posters[i].n_acknowledged) > 0);
    }

    /* What was acknowledged is there, in order; and what was committed but not
     * told any more, at most one of each. */
    broker_restart(&b);
    count_kept(&h, kept);
    for (unsigned i = 0; i < POSTERS; i++)
        assert_in_range(kept[i], atomic_load(&posters[i].n_acknowledged),
                        atomic_load(&posters[i].n_acknowledged) + 1);
    wire_close(half);
    http_close(&h);
    broker_stop(&b);
    broker_close(&b);
}

TEST(sigterm_ends_it_well_in_the_middle_of_everything)
{
    end_while_busy(SIGTERM);
}

TEST(sigint_ends_it_well_in_the_middle_of_everything)
{
    end_while_busy(SIGINT);
}

/* Who does not read is told nothing, and does not keep it from ending. */
TEST(a_subscriber_that_does_not_read_does_not_keep_it_from_ending, broker_setup,
     broker_teardown)
{
    struct broker *b = broker_of(state);
    struct follower f[4];
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "news", 1, 1, 0);
    for (size_t i = 0; i < 4; i++) {
        follower_open_narrow(&f[i], b->port, "/sets/news/stream",
                             i % 2 ? "resourcesync.xml" : NULL);
        follower_next(&f[i]);
    }
    for (unsigned i = 0; i < 10; i++)
        source_post(&h, "news", i, 15, 65000);

    broker_stop(b);
    for (size_t i = 0; i < 4; i++)
        follower_close(&f[i]);
    http_close(&h);
}

/* The same log, after a rest: what a follower of yesterday had is still a
 * position, and its digest still the same. */
TEST(goes_on_after_a_restart_where_it_was, broker_setup, broker_teardown)
{
    struct broker *b = broker_of(state);
    struct notice before;
    struct follower f;
    struct http h;
    char path[160];

    http_open(&h, b->url);
    source_post(&h, "news", 1, 5, 0);
    follower_open(&f, b->port, "/sets/news/stream?after=0", NULL);
    follower_until(&f, 5);
    notice_read(&before, NOTICE_JSON, buf_slice(&f.text));
    follower_close(&f);
    broker_stop(b);
    broker_restart(b);

    snprintf(path, sizeof(path), "/sets/news/stream?after=%s-5", before.epoch);
    follower_open(&f, b->port, path, NULL);
    follower_next(&f);
    notice_check_chain(&before, &f.notice); /* R-287 over a restart */
    assert_string_equal(f.notice.digest, before.digest);
    source_post(&h, "news", 6, 1, 0);
    assert_int_equal(follower_next(&f)->last, 6);
    follower_close(&f);
    notice_free(&before);
    http_close(&h);
}
