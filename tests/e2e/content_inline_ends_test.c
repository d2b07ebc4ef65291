/*
 * content_inline_ends_test.c - changes are posted together with the bytes of
 * their resources: many bytes, and posts that break off, or that something else
 * happens to meanwhile.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/faults.h"
#include "tests/support/inlined.h"
#include "tests/support/refusal.h"
#include "tests/support/sanitized.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define JSON   "application/json"
#define NDJSON "application/x-ndjson"
#define A      "http://example.com/a"
#define B      "http://example.com/b"

/* Held of it in memory are two blocks; 20 MB of all were measured. */
#if IS_SANITIZED
#define LARGE ((size_t)20 << 20)
#else
#define LARGE ((size_t)100 << 20)
#endif
#define LARGE_KIB ((size_t)60 * 1024)

/* More than what is looked at in one go. */
#define A_BLOCK ((size_t)600000)

/* Bitstreams of a post: more than a block of it. */
#define MANY 1000

/* Size */

TEST(a_large_content_takes_bounded_memory, inlined_open, inlined_close)
{
    struct inlined *s = *state;
    struct multipart_body m;
    char *large = malloc(LARGE);
    uint32_t random = 1;

    assert_non_null(large);
    for (size_t i = 0; i < LARGE; i++) {
        random = random * 1664525 + 1013904223;
        large[i] = (char)(random >> 24);
    }
    multipart_body_open(&m, JSON, ENTRY(A, "created"));
    multipart_body_add(&m, A, NULL, (struct slice){large, LARGE});
    inlined_send_with(s, &m, NULL);
    inlined_assert_posted(s, 1, 1);
    print_message("%zu bytes: %zu KiB\n", LARGE, broker_rss_kib(&s->broker));
    if (!IS_SANITIZED)
        assert_true(broker_rss_kib(&s->broker) < LARGE_KIB);
    inlined_assert_kept(s, (struct slice){large, LARGE});
    inlined_assert_state(s, 1, 1);
    free(large);
}

/* Ends */

/* Begins a post of so many bytes. */
static struct wire *
announce(struct inlined *s, const char *header, size_t size)
{
    struct wire *w = wire_connect("127.0.0.1", s->broker.port);

    assert_non_null(w);
    assert_true(wire_send_format(w,
                                 "POST " DEMO_CHANGES " HTTP/1.1\r\n"
                                 "Host: 127.0.0.1:%u\r\n"
                                 "Content-Type: " MULTIPART_TYPE "\r\n"
                                 "%sContent-Length: %zu\r\n\r\n",
                                 s->broker.port, header, size));
    return w;
}

/* Begins a post, and returns when some of a content is on the disk. */
static struct wire *
begin_post(struct inlined *s, const struct multipart_body *m,
           const char *header)
{
    struct wire *w = announce(s, header, m->bytes.size);

    assert_true(wire_send(w, m->bytes.data, m->bytes.size - 100));
    while (inlined_n_arriving(s) == 0)
        ;
    return w;
}

/* More than a block: it is written while the rest is awaited. */
static void
make_long(struct multipart_body *m)
{
    static char bytes[2000000];

    memset(bytes, 'x', sizeof(bytes));
    multipart_body_open(m, JSON,
                        "[" ENTRY(A, "created") "," ENTRY(B, "created") "]");
    multipart_body_add(m, A, NULL, SLICE("hello\n"));
    multipart_body_add(m, B, NULL, (struct slice){bytes, sizeof(bytes)});
    multipart_body_close(m);
}

TEST(a_connection_that_breaks_leaves_nothing, inlined_open, inlined_close)
{
    struct inlined *s = *state;
    struct multipart_body m;
    struct wire *w;

    make_long(&m);
    w = begin_post(s, &m, "");
    wire_abort(w);
    while (inlined_n_arriving(s) > 0)
        ;

    inlined_assert_state(s, 0, 0);
    inlined_post_as(s, DEMO_CHANGES, MULTIPART_TYPE, NULL, buf_slice(&m.bytes));
    inlined_assert_posted(s, 1, 2);
    inlined_assert_state(s, 2, 2);
    multipart_body_free(&m);
}

/* Nobody is told. There is much to be placed, so that the connection breaks
 * while that is done. */
TEST(what_has_arrived_whole_is_kept_without_a_connection, inlined_open,
     inlined_close)
{
    struct inlined *s = *state;
    struct multipart_body m;
    struct buf changes;
    struct wire *w;

    buf_init(&changes, SIZE_MAX);
    for (unsigned i = 0; i < MANY; i++)
        buf_add_format(&changes,
                       "{\"loc\":\"http://example.com/%u\","
                       "\"change\":\"created\"}\n",
                       i);
    buf_add(&changes, "", 1); /* terminated */
    multipart_body_open(&m, NDJSON, changes.data);
    for (unsigned i = 0; i < MANY; i++) {
        char loc[40], bytes[1000];

        snprintf(loc, sizeof(loc), "http://example.com/%u", i);
        snprintf(bytes, sizeof(bytes), "%0999u", i);
        multipart_body_add(&m, loc, NULL, slice_of(bytes));
    }
    multipart_body_close(&m);
    w = begin_post(s, &m, "");
    assert_true(wire_send(w, m.bytes.data + m.bytes.size - 100, 100));
    while (inlined_n_kept(s) == 0)
        ;
    wire_abort(w);
    while (inlined_last(s) == 0)
        ;

    inlined_assert_state(s, MANY, MANY);
    multipart_body_free(&m);
    buf_fini(&changes);
}

/* */
TEST(a_crash_leaves_nothing_half_kept, inlined_open, inlined_close)
{
    struct inlined *s = *state;
    struct multipart_body m;
    struct wire *w;

    make_long(&m);
    w = begin_post(s, &m, "");
    broker_kill9(&s->broker);
    wire_close(w);
    assert_int_not_equal(inlined_n_arriving(s), 0);
    broker_restart(&s->broker);

    inlined_assert_state(s, 0, 0);
    inlined_post_as(s, DEMO_CHANGES, MULTIPART_TYPE, NULL, buf_slice(&m.bytes));
    inlined_assert_posted(s, 1, 2);
    broker_kill9(&s->broker);
    broker_restart(&s->broker);
    inlined_assert_state(s, 2, 2);
    inlined_assert_kept(s, SLICE("hello\n"));
    multipart_body_free(&m);
}

TEST(a_broker_that_ends_meanwhile_leaves_nothing, inlined_open, inlined_close)
{
    struct inlined *s = *state;
    struct multipart_body m;
    struct wire *w;

    make_long(&m);
    w = begin_post(s, &m, "");
    broker_stop(&s->broker);
    wire_close(w);
    assert_int_equal(inlined_n_arriving(s), 0);
    assert_int_equal(inlined_n_kept(s), 0);
    broker_restart(&s->broker);
    inlined_assert_state(s, 0, 0);
    multipart_body_free(&m);
}

/* A repeat is not kept waiting for the end of the first one. */
TEST(a_repeat_that_comes_meanwhile_is_told_to_come_again, inlined_open,
     inlined_close)
{
    struct inlined *s = *state;
    struct multipart_body m, again;
    struct wire_answer a;
    struct wire *w;

    make_long(&m);
    w = begin_post(s, &m, "Idempotency-Key: one\r\n");
    multipart_body_open(&again, JSON, ENTRY(A, "created"));
    multipart_body_add(&again, A, NULL, SLICE("hello\n"));
    inlined_send_with(s, &again, "Idempotency-Key: one");
    assert_refused(&s->http, 409, "is at work");
    assert_string_equal(http_header(&s->http, "Retry-After"), "1");

    assert_true(wire_send(w, m.bytes.data + m.bytes.size - 100, 100));
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 200);
    inlined_post_as(s, DEMO_CHANGES, MULTIPART_TYPE, "Idempotency-Key: one",
                    buf_slice(&m.bytes));
    inlined_assert_posted(s, 1, 2);
    inlined_assert_state(s, 2, 2);
    wire_close(w);
    multipart_body_free(&m);
}

TEST(a_set_that_is_removed_meanwhile_keeps_nothing, inlined_open, inlined_close)
{
    struct inlined *s = *state;
    struct multipart_body m;
    struct wire_answer a;
    struct wire *w;

    make_long(&m);
    w = begin_post(s, &m, "");
    assert_int_equal(http_ask(&s->http, "DELETE", "/sets/demo", NULL), 204);
    assert_true(wire_send(w, m.bytes.data + m.bytes.size - 100, 100));
    assert_true(wire_answer(w, &a, false));

    assert_wire_refused(&a, 410, "");
    assert_int_equal(http_get(&s->http, "/sets/demo"), 410);
    assert_int_equal(inlined_n_arriving(s), 0);
    wire_close(w);
    multipart_body_free(&m);
}

#define MIB ((size_t)1 << 20)

static void
assert_no_room(struct inlined *s, const struct multipart_body *m, size_t size)
{
    struct wire *w = announce(s, "", size);
    struct wire_answer a;

    assert_true(wire_send(w, m->bytes.data, A_BLOCK));
    assert_true(wire_answer(w, &a, false));
    assert_wire_refused(&a, 503, "the disk has no room for");
    wire_close(w);
}

/* A post has its room from the beginning: others get what is left, and the log
 * needs some. */
TEST(what_others_bring_is_counted_as_if_it_were_there)
{
    struct multipart_body m;
    struct faults faults;
    struct inlined *s;
    struct wire *w;

    faults_open(&faults);
    inlined_open(state);
    s = *state;
    faults_set_disk(&faults, (int64_t)(1000 * MIB));
    make_long(&m);
    assert_no_room(s, &m, 950 * MIB);
    assert_int_equal(inlined_n_arriving(s), 0);
    for (unsigned i = 0; i < 2; i++) {
        w = announce(s, "", 600 * MIB);
        assert_true(wire_send(w, m.bytes.data, m.bytes.size - 100));
        while (inlined_n_arriving(s) == 0)
            ;
        assert_no_room(s, &m, 500 * MIB);
        wire_abort(w);
        while (inlined_n_arriving(s) > 0)
            ;
    }
    inlined_assert_state(s, 0, 0);
    multipart_body_free(&m);
    inlined_close(state);
    faults_close(&faults);
}
