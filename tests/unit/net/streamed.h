/*
 * streamed.h - streams of the server of served.h, WebSockets and answers
 * without end: their handlers count, and keep the last stream for the test.
 *
 *     FIXTURE(streamed_open, streamed_close);
 *
 * One service thread, so `last` is on that of served_on_service.
 */
#ifndef TESTS_UNIT_NET_STREAMED_H
#define TESTS_UNIT_NET_STREAMED_H

#include "tests/unit/net/served.h"

static atomic_uint n_opened, n_gone, n_rooms;
static struct stream *last; /* of one stream at a time; on its service thread */

static inline void
streamed_ignore(struct stream *stream, void *user)
{
    (void)stream;
    (void)user;
}

static inline void
streamed_keep(struct stream *stream, void *user)
{
    (void)user;
    last = stream;
    atomic_fetch_add(&n_opened, 1);
}

static inline void
streamed_on_room(struct stream *stream, void *user)
{
    (void)stream;
    (void)user;
    atomic_fetch_add(&n_rooms, 1);
}

static inline void
streamed_on_gone(struct stream *stream, void *user)
{
    (void)stream;
    (void)user;
    last = NULL;
    atomic_fetch_add(&n_gone, 1);
}

/* A stream with another beginning than to say nothing. */
#define STREAMED(on_open)                           \
    {                                               \
        on_open, streamed_on_room, streamed_on_gone \
    }

static const struct stream_handlers streamed_quiet = STREAMED(streamed_keep);

/* As long as a frame can be: a WebSocket's message, or any bytes. */
static char large[STREAM_FRAME_MAX];

#define LARGE_HEADER 4

static inline int
streamed_open(void **state)
{
    (void)state;
    served_open_with(1, 10000000);
    served.stream_handlers = served.long_handlers = &streamed_quiet;
    last = NULL;
    atomic_store(&n_opened, 0);
    atomic_store(&n_gone, 0);
    atomic_store(&n_rooms, 0);
    memset(large, 'y', sizeof(large));
    assert_int_equal(stream_frame_header((uint8_t *)large,
                                         sizeof(large) - LARGE_HEADER, true,
                                         true),
                     LARGE_HEADER);
    return 0;
}

static inline int
streamed_close(void **state)
{
    served_close(state);
    assert_int_equal(atomic_load(&n_opened), atomic_load(&n_gone));
    return 0;
}

/* Full speed, until the socket takes no more. */
static atomic_uint n_written;
static bool is_choked;

static inline void
streamed_write_until_choked(void)
{
    enum stream_result result = STREAM_SENT;

    for (int i = 0; i < 1000 && result == STREAM_SENT; i++) {
        result = stream_write(last, large, sizeof(large));
        atomic_fetch_add(&n_written, 1);
    }
    is_choked = result == STREAM_CHOKED;
}

/* Returns how many `large` there are to read. */
static inline unsigned
streamed_choke(void)
{
    atomic_store(&n_written, 0);
    served_on_service(streamed_write_until_choked);
    assert_true(is_choked);
    return atomic_load(&n_written);
}

/* Makes a WebSocket of the connection. */
static inline struct wire *
streamed_upgrade(struct wire *w, const char *subprotocols)
{
    unsigned n = atomic_load(&n_opened);
    struct wire_answer a;

    assert_true(wire_upgrade(w, "/stream", subprotocols, &a));
    served_await(&n_opened, n + 1);
    return w;
}

#endif
