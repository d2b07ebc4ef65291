/*
 * push_messages_test.c - what the messages to subscribers say: a chain without
 * gap or overlap, the same for everybody, within its limits, never ahead of the
 * Change List.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/follower.h"
#include "tests/support/http.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define STREAM "/sets/news/stream"

static const char *const subprotocols[] = {"resourcesync.json",
                                           "resourcesync.xml"};

/* the chain; follower.c looks at every message and every joint. */
TEST(messages_follow_one_another_without_gap_or_overlap, broker_setup,
     broker_teardown)
{
    static const size_t sizes[] = {1, 1, 7, 300, 1, 2500, 2};
    struct broker *b = broker_of(state);
    struct follower f[2];
    struct http h;
    uint64_t last = 1;

    http_open(&h, b->url);
    source_post(&h, "news", 0, 1, 0);
    for (size_t i = 0; i < 2; i++)
        follower_open(&f[i], b->port, STREAM "?after=0", subprotocols[i]);
    for (unsigned i = 0; i < 350; i++) {
        size_t n = sizes[i % 7];

        last = source_post(&h, "news", i, i % 50 < 7 ? n : 1, 0).last;
        if (i % 5 == 0) /* else several wait and may be merged */
            for (size_t k = 0; k < 2; k++)
                follower_until(&f[k], last);
    }
    for (size_t i = 0; i < 2; i++) {
        follower_until(&f[i], last);
        assert_true(f[i].n_messages >= 70);
        follower_close(&f[i]);
    }
    http_close(&h);
}

/* Reads messages up to `last` into `out`; returns how many. */
static size_t
collect(struct follower *f, uint64_t last, struct notice *out, size_t max)
{
    size_t n = 0;

    while (f->notice.last < last) {
        follower_news(f);
        assert_true(n < max);
        notice_read(&out[n++], f->form, buf_slice(&f->text));
    }
    return n;
}

/* both forms tell the same entries, in messages of the same coverage
 * with the same times and digests. */
TEST(xml_and_json_say_the_same, broker_setup, broker_teardown)
{
    struct broker *b = broker_of(state);
    struct notice json[8], xml[8];
    struct follower f[2];
    struct http h;
    uint64_t last = 0;

    http_open(&h, b->url);
    source_post(&h, "news", 0, 1, 0);
    for (size_t i = 0; i < 2; i++) {
        follower_open(&f[i], b->port, STREAM, subprotocols[i]);
        follower_next(&f[i]);
    }
    for (unsigned i = 0; i < 8; i++) {
        last = source_post(&h, "news", i, 1 + 3 * i, 0).last;
        assert_int_equal(collect(&f[0], last, &json[i], 1), 1);
        assert_int_equal(collect(&f[1], last, &xml[i], 1), 1);

        assert_int_equal(json[i].after, xml[i].after);
        assert_int_equal(json[i].n, xml[i].n);
        assert_string_equal(json[i].epoch, xml[i].epoch);
        assert_string_equal(json[i].from, xml[i].from);
        assert_string_equal(json[i].until, xml[i].until);
        assert_string_equal(json[i].digest, xml[i].digest);
        for (size_t k = 0; k < json[i].n; k++) {
            const struct notice_entry *j = &json[i].entries[k];
            const struct notice_entry *x = &xml[i].entries[k];

            assert_string_equal(j->loc, x->loc);
            assert_string_equal(j->change, x->change);
            assert_string_equal(j->datetime, x->datetime);
        }
        notice_free(&json[i]);
        notice_free(&xml[i]);
    }
    for (size_t i = 0; i < 2; i++)
        follower_close(&f[i]);
    http_close(&h);
}

/* a message is a function of its coverage, for whoever gets it,
 * live on any thread or hours later. */
TEST(the_same_coverage_has_the_same_bytes)
{
    enum { FOLLOWERS = 8, POSTS = 20 };

    struct follower f[FOLLOWERS], late;
    struct buf sent[POSTS][2];
    struct receipt posted;
    struct broker b;
    struct http h;
    char path[160];

    broker_open(&b, "--threads", "4", NULL);
    http_open(&h, b.url);
    source_post(&h, "news", 0, 1, 0);
    for (size_t i = 0; i < FOLLOWERS; i++) {
        follower_open(&f[i], b.port, STREAM, subprotocols[i % 2]);
        follower_next(&f[i]);
    }
    for (unsigned i = 0; i < POSTS; i++) {
        /* Up to 40 KB: a larger one may come in two messages to one and in one
         * to another, as its JSON is ready or not. */
        posted = source_post(&h, "news", i, 1 + i % 4, i % 3 * 5000);
        for (size_t k = 0; k < FOLLOWERS; k++) {
            struct buf *bytes = &sent[i][k % 2];

            assert_int_equal(follower_news(&f[k])->last, posted.last);
            if (k < 2) {
                buf_init(bytes, (size_t)8 << 20);
                buf_add_slice(bytes, buf_slice(&f[k].text));
            }
            assert_true(slice_equal(buf_slice(&f[k].text), buf_slice(bytes)));
        }
    }

    /* The last post, for one who comes later. */
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), STREAM "?after=%" PRIu64,
                 posted.first - 1);
        follower_open(&late, b.port, path, subprotocols[i]);
        follower_news(&late);
        assert_true(
            slice_equal(buf_slice(&late.text), buf_slice(&sent[POSTS - 1][i])));
        follower_close(&late);
    }
    for (unsigned i = 0; i < POSTS; i++)
        for (size_t k = 0; k < 2; k++)
            buf_fini(&sent[i][k]);
    for (size_t i = 0; i < FOLLOWERS; i++)
        follower_close(&f[i]);
    http_close(&h);
    broker_stop(&b);
    broker_close(&b);
}

/* a burst comes as a sequence of messages within the
 * limits, each in frames of at most 64 KB (follower.c), and all are there. */
static void
check_burst(const char *message_bytes, size_t limit)
{
    struct broker b;
    struct http h;

    broker_open(&b, "--message-bytes", message_bytes, NULL);
    http_open(&h, b.url);
    source_post(&h, "news", 0, 1, 0);
    for (size_t i = 0; i < 2; i++) {
        struct follower live, late;
        uint64_t last;

        follower_open(&live, b.port, STREAM, subprotocols[i]);
        follower_next(&live);
        last = source_post(&h, "news", 1, 20000, 0).last;
        follower_open(&late, b.port, STREAM "?after=0", subprotocols[i]);
        follower_next(&late);

        while (live.notice.last < last) {
            follower_news(&live);
            assert_true(live.text.size <= limit);
            assert_int_equal(live.n_frames, (live.text.size + 65531) / 65532);
        }
        assert_int_equal(live.notice.last, last);
        assert_true(live.n_messages >= 2000000 / limit);
        while (late.notice.last < last) {
            follower_news(&late);
            assert_true(late.text.size <= limit);
        }
        assert_string_equal(late.notice.digest, live.notice.digest);
        follower_close(&live);
        follower_close(&late);
    }
    http_close(&h);
    broker_stop(&b);
    broker_close(&b);
}

TEST(a_burst_comes_in_messages_of_at_most_1_mib)
{
    check_burst("1M", (size_t)1 << 20);
}

TEST(a_burst_comes_in_messages_as_small_as_asked_for)
{
    check_burst("512K", (size_t)512 << 10);
}

/* where bytes would allow more, entries do not. */
TEST(a_message_has_at_most_50000_entries)
{
    struct follower f;
    struct broker b;
    struct http h;
    uint64_t last;

    broker_open(&b, "--message-bytes", "16M", NULL);
    http_open(&h, b.url);
    source_post(&h, "news", 0, 40000, 0);
    last = source_post(&h, "news", 0, 40000, 0).last;
    for (size_t i = 0; i < 2; i++) {
        follower_open(&f, b.port, STREAM "?after=0", subprotocols[i]);
        assert_int_equal(follower_news(&f)->n, 50000);
        while (f.notice.last < last)
            assert_in_range(follower_news(&f)->n, 1, 50000);
        assert_int_equal(f.notice.last, last);
        follower_close(&f);
    }
    http_close(&h);
    broker_stop(&b);
    broker_close(&b);
}

/* Who lags gets fewer, larger messages, and still every entry. */
TEST(merges_what_waits_for_one_who_lags, broker_setup, broker_teardown)
{
    struct broker *b = broker_of(state);
    struct follower f[2];
    struct http h;
    uint64_t choked, last = 0;

    http_open(&h, b->url);
    source_post(&h, "news", 0, 1, 0);
    for (size_t i = 0; i < 2; i++) {
        follower_open_narrow(&f[i], b->port, STREAM, subprotocols[i]);
        follower_next(&f[i]);
    }
    /* More than the sockets take while nobody reads. */
    for (unsigned i = 0; i < 16; i++)
        choked = source_post(&h, "news", i, 15, 65000).last;
    for (unsigned i = 0; i < 200; i++)
        last = source_post(&h, "news", 1000 + i, 1, 0).last;
    assert_int_equal(last, choked + 200);

    for (size_t i = 0; i < 2; i++) {
        size_t before;

        while (f[i].notice.last < choked)
            follower_news(&f[i]);
        before = f[i].n_messages;
        while (f[i].notice.last < last)
            follower_news(&f[i]);
        assert_in_range(f[i].n_messages - before, 0, 20);
        follower_close(&f[i]);
    }
    http_close(&h);
}

/* whoever hears of a change finds it in the open Change List,
 * even before the post is answered. */
TEST(is_in_the_change_list_before_anyone_hears_of_it, broker_setup,
     broker_teardown)
{
    struct broker *b = broker_of(state);
    struct wire *w = wire_connect("127.0.0.1", b->port);
    struct wire_answer a;
    struct follower f[2];
    struct http h;

    assert_non_null(w);
    http_open(&h, b->url);
    source_post(&h, "news", 0, 1, 0);
    for (size_t i = 0; i < 2; i++) {
        follower_open(&f[i], b->port, STREAM, subprotocols[i]);
        follower_next(&f[i]);
    }
    for (unsigned i = 0; i < 100; i++) {
        char body[128], loc[64];

        snprintf(loc, sizeof(loc), "<loc>http://example.com/r/%u</loc>",
                 1000 + i);
        snprintf(body, sizeof(body),
                 "{\"loc\":\"http://example.com/r/%u\","
                 "\"change\":\"updated\"}",
                 1000 + i);
        assert_true(wire_send_format(
            w,
            "POST /sets/news/changes HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
            "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
            b->port, strlen(body), body));

        assert_int_equal(follower_news(&f[i % 2])->last, i + 2);
        assert_int_equal(http_get(&h, "/sets/news/changes/000000000001.xml"),
                         200);
        assert_non_null(memmem(h.body.data, h.body.size, loc, strlen(loc)));
        assert_true(wire_answer(w, &a, false));
        assert_int_equal(a.status, 200);
        assert_int_equal(follower_news(&f[1 - i % 2])->last, i + 2);
    }
    for (size_t i = 0; i < 2; i++)
        follower_close(&f[i]);
    wire_close(w);
    http_close(&h);
}
