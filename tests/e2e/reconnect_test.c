/*
 * reconnect_test.c - readers that were away: stopped, or cut off by the
 * broker's end, all at once.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/command.h"
#include "tests/support/crowd.h"
#include "tests/support/http.h"
#include "tests/support/patience.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define SUBSCRIBERS 1000
#define ENTRIES_MAX 4000

/* More than all buffers between broker and reader take. */
#define POSTS_MISSED 20
#define ENTRIES_EACH 100
#define ENTRY_SIZE   12000

/* The entries of all lists up to number `n`, as bytes. */
static void
add_entries(struct http *h, unsigned n, struct buf *to)
{
    for (unsigned i = 1; i <= n; i++) {
        const char *start, *end;
        struct slice list;
        char path[80];

        snprintf(path, sizeof(path), "/sets/news/changes/%012u.xml", i);
        assert_int_equal(http_get(h, path), 200);
        list = buf_slice(&h->body);
        start = memmem(list.data, list.size, "/>\n<url>", 8);
        end = memmem(list.data, list.size, "</urlset>\n", 10);
        assert_non_null(start);
        assert_non_null(end);
        buf_add(to, start + 3, (size_t)(end - start - 3));
    }
    assert_false(to->failed);
}

/* everybody comes back at once, each with a
 * position of its own, some far behind; nobody misses or hears twice. What is
 * asked for is no longer in memory, and partly in closed lists. */
TEST(all_come_back_at_once_after_a_restart)
{
    struct crowd *c = crowd_new(SUBSCRIBERS, ENTRIES_MAX);
    struct receipt r;
    struct broker b;
    struct buf entries;
    struct http h;
    char path[128];
    uint64_t last = 0;

    broker_open(&b, "--heartbeat", "3600", "--rotate-entries", "150", NULL);
    http_open(&h, b.url);
    r = source_post(&h, "news", 1, 1, 0);
    for (size_t i = 0; i < SUBSCRIBERS; i++)
        crowd_join(c, b.port, "/sets/news/stream?after=0",
                   i % 2 ? NOTICE_JSON : NOTICE_XML, false);
    snprintf(path, sizeof(path), "/sets/news/stream?after=%.*s-",
             (int)strcspn(r.position, "-"), r.position);

    for (unsigned round = 0; round < 2; round++) {
        /* Of every ten, one less goes on each time. */
        for (unsigned step = 0; step < 10; step++) {
            last = source_post(&h, "news", (unsigned)last + 1, 30, 500).last;
            crowd_read_until(c, last, PATIENCE_MS);
            for (size_t i = step; i < SUBSCRIBERS; i += 10)
                crowd_stop_reading(c, i);
        }
        if (round == 0)
            broker_kill9(&b);
        else
            broker_stop(&b);
        broker_restart(&b);
        last = source_post(&h, "news", (unsigned)last + 1, 40, 500).last;
        for (size_t i = 0; i < SUBSCRIBERS; i++)
            crowd_rejoin(c, i, b.port, path);
        crowd_read_until(c, last, PATIENCE_MS);
        for (size_t i = 0; i < SUBSCRIBERS; i++)
            assert_int_equal(crowd_last(c, i), last);
    }

    /* What all of them got is what the lists say. */
    buf_init(&entries, (size_t)1 << 26);
    add_entries(&h, (unsigned)((last - 1) / 150) + 1, &entries);
    assert_true(slice_equal(crowd_text(c, NOTICE_XML), buf_slice(&entries)));
    buf_fini(&entries);
    crowd_free(c);
    http_close(&h);
    broker_stop(&b);
    broker_close(&b);
}

/* A process that was stopped, and goes on, gets everything;
 * meanwhile nobody waits for it. R-310 */
TEST(a_reader_that_was_stopped_gets_everything, broker_setup, broker_teardown)
{
    struct broker *b = broker_of(state);
    struct command *c = calloc(1, sizeof(*c));
    uint64_t last = 1;
    char url[128];
    struct http h;

    const char *const argv[] = {
        BIN_DIR "/tidings", "follow", url, "--from-start",
        "--format",         "text",   NULL};

    assert_non_null(c);
    snprintf(url, sizeof(url), "%s/sets/news", b->url);
    http_open(&h, b->url);
    source_post(&h, "news", 1, 1, 0);
    command_start(c, argv);
    assert_int_equal(strtoull(command_line(c), NULL, 10), 1);

    kill(c->pid, SIGSTOP);
    for (unsigned i = 0; i < POSTS_MISSED; i++)
        last = source_post(&h, "news", (unsigned)last + 1, ENTRIES_EACH,
                           ENTRY_SIZE)
                   .last;
    kill(c->pid, SIGCONT);
    for (uint64_t seq = 2; seq <= last; seq++) {
        const char *line = command_line(c);
        char loc[64];

        assert_int_equal(strtoull(line, NULL, 10), seq);
        snprintf(loc, sizeof(loc), " created http://example.com/r/%" PRIu64,
                 seq);
        assert_non_null(strstr(line, loc));
    }
    kill(c->pid, SIGTERM);
    command_end(c);
    free(c);
    http_close(&h);
}
