/*
 * transport_messages_test.c - messages as they go out.
 */

#include <stdlib.h>
#include <string.h>

#include "broker/push/deflater.h"
#include "broker/push/transports.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/sets/stage.h"

/* The set "demo", and the deflater of a thread. */
static struct world {
    struct set *set;
    struct deflater deflater;
} w;

/* Posts five entries one by one. */
static int
set_up(void **state)
{
    if (stage_open(state))
        return -1;
    for (unsigned i = 0; i < 5; i++) {
        w.set = sets_post(&s, "demo", i, 1);
        clock_pass_us(1000);
    }
    return 0;
}

static int
tear_down(void **state)
{
    deflater_fini(&w.deflater);
    return stage_close(state);
}

FIXTURE(set_up, tear_down);

static struct shared_wish
wish_on(const struct transport *transport, uint64_t after, uint64_t upto)
{
    return (struct shared_wish){
        .channel = transports_channel(
            w.set, (unsigned)(transport - transport_rows), &w.deflater),
        .after = after,
        .upto = upto,
    };
}

static struct shared_wish
wish_for(const char *subprotocol, uint64_t after, uint64_t upto)
{
    return wish_on(transports_of_websocket(true, slice_of(subprotocol), false),
                   after, upto);
}

/* Makes a frame; the caller frees its data. */
static enum status
try_to_make(struct shared_message *frame, const struct shared_wish *wish,
            enum log_patience patience)
{
    *frame = (struct shared_message){.wish = *wish};
    return transports_make(frame, patience, NULL);
}

static struct shared_message
make(const struct shared_wish *wish)
{
    struct shared_message frame;

    assert_int_equal(try_to_make(&frame, wish, LOG_DISK), STATUS_OK);
    return frame;
}

static void
assert_same_bytes(const struct shared_message *a,
                  const struct shared_message *b)
{
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->data, b->data, a->size);
}

/* message.h, websocket.h: a frame is the message, as it goes out. */
TEST(holds_the_message_as_it_goes_out)
{
    const struct message_wish content = {.set = w.set,
                                         .form = MESSAGE_XML,
                                         .after = 2,
                                         .upto = 4,
                                         .max_bytes = 1 << 20};
    struct shared_wish wish = wish_for("resourcesync.xml", 2, 4);
    struct shared_message frame = make(&wish);
    struct message message;
    struct buf wire;

    buf_init(&wire, SIZE_MAX);
    assert_int_equal(frame.last, 4);
    assert_int_equal(message_open(&message, &content, NULL), STATUS_OK);
    transports_frame(&wire, &message, NULL);
    assert_int_equal(frame.size, wire.size);
    assert_memory_equal(frame.data, wire.data, wire.size);
    free(frame.data);
    message_close(&message);
    buf_fini(&wire);
}

/* A released frame can be made again, from memory or disk: then its rest can be
 * sent. */
TEST(is_the_same_when_it_is_made_again)
{
    struct shared_wish wish = wish_for("resourcesync.json", 1, UINT64_MAX);
    struct shared_message first, again;

    first = make(&wish);
    sets_post(&s, "demo", 9, 3);
    stage_restart();
    w.set = sets_find(&s, "demo");
    wish = wish_for("resourcesync.json", 1, first.last);
    assert_int_equal(try_to_make(&again, &wish, LOG_MEMORY), STATUS_AGAIN);
    assert_null(again.data);
    again = make(&wish);
    assert_int_equal(again.last, 5);
    assert_same_bytes(&first, &again);
    free(first.data);
    free(again.data);
}

/* a place that the log does not have gives no frame. */
TEST(makes_no_frame_ahead_of_the_log)
{
    struct shared_wish wish = wish_for("resourcesync.json", 6, UINT64_MAX);
    struct shared_message frame;

    assert_int_equal(try_to_make(&frame, &wish, LOG_DISK), STATUS_GONE);
    assert_null(frame.data);
}

static struct filter_class *
enter(const char *query)
{
    struct filter_class *class;
    struct filter f;

    assert_int_equal(filter_read(&f, slice_of(query), NULL), STATUS_OK);
    assert_int_equal(
        filters_enter(&s.registry->filters, &f, NULL, false, &class, NULL),
        STATUS_OK);
    return class;
}

/* Where nothing passes the frame is empty. */
TEST(an_empty_frame_says_how_far_nothing_passes)
{
    struct shared_wish wish = wish_for("resourcesync.xml", 1, UINT64_MAX);
    struct shared_message frame;

    wish.filter = enter("change=deleted");
    wish.reached = 3;
    frame = make(&wish);
    assert_int_equal(frame.size, 0);
    assert_int_equal(frame.last, 5);
    filters_leave(wish.filter);
}

static int64_t
committed_us(uint64_t seq)
{
    struct batch *b = NULL;
    int64_t us;

    assert_int_equal(
        log_read(s.registry->log, w.set->log, seq - 1, LOG_MEMORY, &b, NULL),
        STATUS_OK);
    us = b->committed_us;
    batch_unref(b);
    return us;
}

/* metrics.h: how long a change took to its subscribers begins with its commit,
 * not with that of something else that was passed over long ago. */
TEST(a_frame_is_as_old_as_what_it_was_made_for)
{
    struct shared_wish wish = wish_for("resourcesync.json", 1, UINT64_MAX);
    struct shared_message frame = make(&wish);

    assert_true(committed_us(2) < committed_us(5));
    assert_int_equal(frame.committed_us, committed_us(2));
    free(frame.data);

    wish.filter = enter("prefix=http://example.com/r/4");
    wish.reached = 4;
    frame = make(&wish);
    assert_int_equal(frame.last, 5);
    assert_true(frame.size > 0);
    assert_int_equal(frame.committed_us, committed_us(5));
    free(frame.data);
    filters_leave(wish.filter);
}

/* since=: the greeting is at the last entry that is not later. */
TEST(a_greeting_finds_its_moment)
{
    struct shared_wish wish;
    struct shared_message frame;
    struct batch *b;
    int64_t us;

    assert_int_equal(
        log_read(s.registry->log, w.set->log, 2, LOG_DISK, &b, NULL),
        STATUS_OK);
    us = batch_time(b, 3);
    batch_unref(b);
    wish = wish_for("resourcesync.xml", 5, UINT64_MAX);
    wish.is_heartbeat = true;
    wish.since_us = us;
    frame = make(&wish);
    assert_int_equal(frame.last, 3);
    assert_non_null(
        memmem(frame.data, frame.size, "td:after=\"3\" td:last=\"3\"", 24));
    free(frame.data);
}

/* A service thread leaves a large message to the worker pool, where another
 * deflater makes the same bytes. */
TEST(leaves_a_large_message_to_compress_to_the_worker_pool)
{
    const struct transport *deflated =
        transports_of_websocket(true, SLICE("resourcesync.xml"), true);
    struct shared_wish plainly = wish_for("resourcesync.xml", 5, UINT64_MAX),
                       wish = wish_on(deflated, 5, UINT64_MAX),
                       small = wish_on(deflated, 1, 5);
    struct shared_message plain, first, again;

    w.set = sets_post_heavy(&s, "demo", 1, 1, DEFLATER_AT_ONCE);
    assert_int_equal(try_to_make(&plain, &plainly, LOG_MEMORY), STATUS_OK);
    assert_int_equal(try_to_make(&first, &wish, LOG_MEMORY), STATUS_AGAIN);
    assert_null(first.data);
    first = make(&wish);
    assert_true(first.size < plain.size);
    free(first.data);
    free(plain.data);

    assert_int_equal(try_to_make(&first, &small, LOG_MEMORY), STATUS_OK);
    again = make(&small);
    assert_same_bytes(&first, &again);
    free(first.data);
    free(again.data);
}
