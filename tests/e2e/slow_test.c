/*
 * slow_test.c - those who do not read cost nothing: not the others, not memory,
 * not themselves.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/crowd.h"
#include "tests/support/http.h"
#include "tests/support/patience.h"
#include "tests/support/sanitized.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

/* As many as a large site has in a soak, and enough to tell here. */
#define SUBSCRIBERS test_size(120, 1200)
#define STALLED     test_size(30, 60)
#define POSTS       test_size(20, 50)

/* What is kept in memory; what the stalled ones miss is far more. */
#define TAIL_BYTES  "8M"
#define ENTRIES_MAX 4096

/* The tail; for each of two threads the frames that are under way, and those
 * that are kept for others; the log's cache for who is behind the tail; and 8
 * for the rest. A queue for each of the stalled ones would take 290 MB, and
 * 1.4 GB in a soak. */
#define GROWTH_KIB ((8 + 2 * (16 + 4) + 32 + 8) * 1024)

#define BODY_START    "/>\n<url>"
#define BODY_END_SIZE strlen("</urlset>\n")

/* The most that the system buffers for a socket on the sending side. */
static size_t
send_buffer_max(void)
{
    FILE *file = fopen("/proc/sys/net/ipv4/tcp_wmem", "re");
    size_t smallest, usual, largest;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu %zu %zu", &smallest, &usual, &largest),
                     3);
    fclose(file);
    return largest;
}

/* The entries of the open Change List, as bytes. */
static struct slice
entries_of_list(struct http *h)
{
    struct slice list;
    const char *start;

    assert_int_equal(http_get(h, "/sets/news/changes/000000000001.xml"), 200);
    list = buf_slice(&h->body);
    start = memmem(list.data, list.size, BODY_START, strlen(BODY_START));
    assert_non_null(start);
    start += 3;
    return (struct slice){start, (size_t)(list.data + list.size - start) -
                                     BODY_END_SIZE};
}

/* many subscribers, some of them not reading: the others get everything
 * at once, memory stays bounded, and those few get everything when they read
 * again. */
TEST(who_does_not_read_costs_nobody_anything)
{
    /* Two of five have 30 KB, one 300 KB, two 1 MB. */
    static const struct {
        size_t n, size;
    } posts[] = {{10, 3000}, {16, 65000}, {10, 3000}, {10, 30000}, {16, 65000}};

    size_t n_subscribers = SUBSCRIBERS, n_stalled = STALLED, n_posts = POSTS;
    struct crowd *c = crowd_new(n_subscribers, ENTRIES_MAX);
    size_t before_kib, most_kib = 0;
    struct broker b;
    struct http h;
    uint64_t last = 1;

    broker_open(&b, "--threads", "2", "--tail-bytes", TAIL_BYTES, "--heartbeat",
                "3600", NULL);
    http_open(&h, b.url);
    source_post(&h, "news", 0, 1, 0);
    /* Every fourth is an EventSource, every twelfth gets JSON by WebSocket; the
     * stalled ones are of all kinds. */
    for (size_t i = 0; i < n_subscribers; i++)
        if (i % 4 == 1)
            crowd_join_events(c, b.port, "/sets/news/stream?after=0",
                              i < n_stalled);
        else
            crowd_join(c, b.port, "/sets/news/stream?after=0",
                       i % 12 == 3 ? NOTICE_JSON : NOTICE_XML, i < n_stalled);
    crowd_read_until(c, last, PATIENCE_MS);
    for (size_t i = 0; i < n_stalled; i++)
        crowd_stop_reading(c, i);
    before_kib = broker_rss_kib(&b);

    for (unsigned i = 0; i < n_posts; i++) {
        size_t kib;

        last =
            source_post(&h, "news", i, posts[i % 5].n, posts[i % 5].size).last;
        crowd_read_until(c, last, PATIENCE_MS);
        kib = broker_rss_kib(&b);
        most_kib = kib > most_kib ? kib : most_kib;
    }
    print_message("the broker grew from %zu KiB to %zu KiB\n", before_kib,
                  most_kib);
    if (!IS_SANITIZED)
        assert_in_range(most_kib, 0, before_kib + GROWTH_KIB);

    /* They were truly stalled: more was sent than all buffers take. */
    for (size_t i = 0; i < n_stalled; i++) {
        assert_int_equal(crowd_last(c, i), 1);
        assert_true(crowd_text(c, NOTICE_XML).size >
                    send_buffer_max() + crowd_unread(c, i) + 65536);
    }
    for (size_t i = 0; i < n_stalled; i++)
        crowd_read_again(c, i);
    crowd_read_until(c, last, PATIENCE_MS);
    for (size_t i = 0; i < n_subscribers; i++)
        assert_int_equal(crowd_last(c, i), last);

    /* Nobody was closed, and what all of them got is the Change List. */
    crowd_read_until(c, source_post(&h, "news", 0, 1, 0).last, PATIENCE_MS);
    assert_true(slice_equal(crowd_text(c, NOTICE_XML), entries_of_list(&h)));
    {
        struct xpath x;

        xpath_open(&x, buf_slice(&h.body));
        assert_xpath_text(&x, "/s:urlset/rs:md/@td:digest",
                          crowd_digest(c, last + 1));
        assert_xpath_count(&x, "/s:urlset/s:url", last + 1);
        xpath_close(&x);
    }
    crowd_free(c);
    http_close(&h);
    broker_stop(&b);
    broker_close(&b);
}
