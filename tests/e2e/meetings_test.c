/*
 * meetings_test.c - where removal meets what is under way: keys, requests that
 * wait, event streams, posts that are arriving.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/demo.h"
#include "tests/support/events.h"
#include "tests/support/gzip.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/refusal.h"
#include "tests/support/source.h"
#include "tests/support/wire.h"
#include "tests/test.h"

/* Keys */

/* Posts one entry with a key; the position that was told. */
static void
post_with_key(struct http *h, const char *key, char to[64])
{
    char line[80];
    const char *const headers[] = {"Content-Type: application/json", line,
                                   NULL};
    struct jsonpath j;
    struct buf body;

    snprintf(line, sizeof(line), "Idempotency-Key: \"%s\"", key);
    buf_init(&body, 4096);
    source_entries(&body, 1, 1, 0);
    assert_int_equal(
        http_request(h, "POST", DEMO_CHANGES, headers, buf_slice(&body)), 200);
    buf_fini(&body);
    jsonpath_open(&j, buf_slice(&h->body));
    snprintf(to, 64, "%s", jsonpath_text(&j, "position"));
    jsonpath_close(&j);
}

/* A key belongs to the log that its post is in: a repeat after the set was made
 * again is a post, also after a restart that finds nothing of the old one. */
TEST(a_key_of_a_removed_set_is_new_to_the_next_one)
{
    char first[64], second[64], again[64], now[64];
    struct broker b;
    struct http h;

    broker_open(&b, "--remove-grace", "0", NULL);
    http_open(&h, b.url);
    post_with_key(&h, "k", first);
    for (int round = 0; round < 3; round++) {
        demo_remove(&h);
        if (round > 0) {
            demo_await_no_folder(&b);
            broker_kill9(&b);
            broker_restart(&b);
        }
        post_with_key(&h, "k", second);
        assert_string_not_equal(first, second);
        assert_string_equal(strchr(second, '-'), "-1");
        post_with_key(&h, "k", again);
        assert_string_equal(second, again);
        demo_position(&h, now);
        assert_string_equal(second, now);
        memcpy(first, second, sizeof(first));
    }
    http_close(&h);
    broker_close(&b);
}

/* A post with a key and a removal in one round of the log, in either order:
 * what was answered is there, or went with the set as a whole. */
TEST(a_key_that_waits_behind_a_removal_is_kept_once, broker_setup,
     broker_teardown)
{
    struct broker *b = broker_of(state);
    struct http h;

    http_open(&h, b->url);
    for (unsigned round = 0; round < 40; round++) {
        struct wire *removal = wire_connect("127.0.0.1", b->port);
        struct wire *post = wire_connect("127.0.0.1", b->port);
        char key[20], told[64], again[64], now[64];
        struct wire_answer a;
        struct jsonpath j;
        struct buf body;

        snprintf(key, sizeof(key), "k%u", round);
        buf_init(&body, 4096);
        source_entries(&body, 1, 1, 0);
        source_post(&h, "demo", 1, 1, 0);
        assert_non_null(removal);
        assert_non_null(post);
        if (round % 4 != 3)
            assert_true(wire_send_text(removal, "DELETE /sets/demo HTTP/1.1\r\n"
                                                "Host: 127.0.0.1\r\n\r\n"));
        assert_true(wire_send_format(
            post,
            "POST " DEMO_CHANGES " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            "Content-Type: application/json\r\nIdempotency-Key: \"%s\"\r\n"
            "Content-Length: %zu\r\n\r\n%.*s",
            key, body.size, (int)body.size, body.data));
        if (round % 4 == 3)
            assert_true(wire_send_text(removal, "DELETE /sets/demo HTTP/1.1\r\n"
                                                "Host: 127.0.0.1\r\n\r\n"));
        assert_true(wire_answer(removal, &a, false));
        assert_int_equal(a.status, 204);
        assert_true(wire_answer(post, &a, false));
        assert_int_equal(a.status, 200);
        jsonpath_open(&j, (struct slice){a.body, a.body_size});
        snprintf(told, sizeof(told), "%s", jsonpath_text(&j, "position"));
        jsonpath_close(&j);

        if (http_get(&h, "/sets/demo") == 410) { /* the removal was later */
            post_with_key(&h, key, again);
            assert_string_not_equal(told, again);
        } else {
            demo_position(&h, now);
            assert_string_equal(told, now);
            assert_string_equal(strchr(told, '-'), "-1");
            post_with_key(&h, key, again);
            assert_string_equal(told, again);
        }
        buf_fini(&body);
        wire_close(removal);
        wire_close(post);
    }
    http_close(&h);
}

/* Who waits */

/* Filtered or not, behind a position or a time. Those that come too late to
 * wait are refused with the same status. */
TEST(requests_that_wait_on_a_removed_set_are_answered, broker_setup,
     broker_teardown)
{
    static const char *const paths[] = {
        DEMO_CHANGES "?after=3&wait=60",
        DEMO_CHANGES "?after=0&wait=60&prefix=http://nobody/",
        DEMO_CHANGES "?since=2100-01-01&wait=60&tag=x",
    };

    enum { N = sizeof(paths) / sizeof(paths[0]) };
    struct broker *b = broker_of(state);
    char position[64], path[120];
    struct wire_answer a;
    struct wire *w[N];
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "demo", 1, 3, 0);
    for (size_t i = 0; i < N; i++) {
        w[i] = wire_ask(b->port, paths[i]);
        assert_non_null(w[i]);
    }
    for (unsigned i = 0; i < 20; i++)
        source_post(&h, "other", 1, 1, 0); /* they wait by then, likely */
    demo_remove(&h);
    for (size_t i = 0; i < N; i++) {
        assert_true(wire_answer(w[i], &a, false));
        assert_wire_refused(&a, 410, "was removed");
        wire_close(w[i]);
    }

    /* There is a set of that name again before they look. */
    for (int round = 0; round < 20; round++) {
        source_post(&h, "demo", 1, 3, 0);
        demo_position(&h, position);
        snprintf(path, sizeof(path), DEMO_CHANGES "?after=%s&wait=60",
                 position);
        for (size_t i = 0; i < N; i++) {
            w[i] = wire_ask(b->port, path);
            assert_non_null(w[i]);
        }
        source_post(&h, "other", 1, 1, 0);
        demo_remove(&h);
        source_post(&h, "demo", 1, 3, 0);
        for (size_t i = 0; i < N; i++) {
            assert_true(wire_answer(w[i], &a, false));
            assert_int_equal(a.status, 410);
            wire_close(w[i]);
        }
    }
    http_close(&h);
}

/* An EventSource hears why, comes back by itself, is refused; or, when there is
 * a set of that name again, is told once that its position is gone. */
TEST(event_streams_of_a_removed_set_end_and_are_not_taken_up, broker_setup,
     broker_teardown)
{
    static const char stream[] = "/sets/demo/stream";
    struct broker *b = broker_of(state);
    struct events plain, filtered;
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "demo", 1, 3, 0);
    events_open(&plain, b->port, stream, NULL);
    events_next(&plain);
    events_open(&filtered, b->port, "/sets/demo/stream?prefix=http://nobody/",
                NULL);
    events_next(&filtered);
    source_post(&h, "demo", 4, 1, 0);
    events_until(&plain, 4);
    demo_remove(&h);
    events_end(&plain, "removed");
    events_end(&filtered, "removed");
    assert_string_not_equal(plain.last_id, "gone");

    http_ask(&h, "GET", stream, "Accept: text/event-stream", NULL);
    assert_refused(&h, 410, "was removed");
    source_post(&h, "demo", 1, 1, 0);
    events_again(&plain, false);
    events_end(&plain, "gone");
    assert_string_equal(plain.last_id, "gone");
    assert_non_null(
        memmem(plain.data.data, plain.data.size, "\"earliest\":", 11));
    events_close(&plain);
    events_close(&filtered);
    http_close(&h);
}

/* Posts that are arriving */

/* It is posted when it is whole: to the set that there is then. */
TEST(a_post_that_arrives_during_a_removal_begins_the_next_set, broker_setup,
     broker_teardown)
{
    struct broker *b = broker_of(state);
    struct wire *w = wire_connect("127.0.0.1", b->port);
    struct buf entries, body;
    struct wire_answer a;
    struct jsonpath j;
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "demo", 1, 3, 0);
    buf_init(&entries, 1 << 20);
    buf_init(&body, 1 << 20);
    source_entries(&entries, 10, 500, 100);
    gzip_add(&body, buf_slice(&entries));
    assert_non_null(w);
    assert_true(wire_send_format(
        w,
        "POST " DEMO_CHANGES " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Content-Type: application/json\r\nContent-Encoding: gzip\r\n"
        "Idempotency-Key: \"g\"\r\nContent-Length: %zu\r\n\r\n",
        body.size));
    assert_true(wire_send(w, body.data, body.size / 2));
    demo_remove(&h);
    http_get(&h, DEMO_CHANGES);
    assert_refused(&h, 410, "was removed");
    assert_true(
        wire_send(w, body.data + body.size / 2, body.size - body.size / 2));
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 200);
    jsonpath_open(&j, (struct slice){a.body, a.body_size});
    assert_int_equal(jsonpath_number(&j, "first"), 1);
    assert_int_equal(jsonpath_number(&j, "last"), 500);
    jsonpath_close(&j);
    assert_int_equal(http_get(&h, DEMO_CHANGES "?after=0"), 200);
    jsonpath_open(&j, buf_slice(&h.body));
    assert_int_equal(jsonpath_count(&j, "changes"), 500);
    jsonpath_close(&j);
    buf_fini(&entries);
    buf_fini(&body);
    wire_close(w);
    http_close(&h);
}
