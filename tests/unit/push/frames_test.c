#include "broker/push/frames.h"

#include <stdlib.h>
#include <string.h>

#include "broker/push/websocket.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/sets/stage.h"

/* The set "demo", and the frames of a thread. */
static struct world {
    struct set *set;
    struct frames frames;
} w;

/* Posts `n` entries one by one. */
static void
post_each(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        w.set = sets_post(&s, "demo", i, 1);
        clock_pass_us(1000);
    }
}

/* There are five entries. */
static int
set_up(void **state)
{
    if (stage_open(state))
        return -1;
    post_each(5);
    frames_init(&w.frames);
    return 0;
}

static int
tear_down(void **state)
{
    frames_fini(&w.frames);
    assert_int_equal(w.frames.bytes, 0); /* nobody holds a frame any more */
    return stage_close(state);
}

FIXTURE(set_up, tear_down);

static const struct transport *
transport(const char *name, bool is_deflated)
{
    return transports_of_websocket(true, slice_of(name), is_deflated);
}

static struct frame_wish
wish_for(const char *name, uint64_t after, uint64_t upto)
{
    return (struct frame_wish){.set = w.set,
                               .transport = transport(name, false),
                               .after = after,
                               .upto = upto};
}

static struct frame *
make(const struct frame_wish *wish)
{
    struct frame *frame = NULL;

    assert_int_equal(
        frame_make(&frame, wish, LOG_DISK, &w.frames.deflater, NULL),
        STATUS_OK);
    assert_non_null(frame);
    return frame;
}

/* Makes and adopts the XML frame of the entries after `after` up to `upto`,
 * and lets go of it. */
static void
adopt(uint64_t after, uint64_t upto)
{
    struct frame_wish wish = wish_for("resourcesync.xml", after, upto);
    struct frame *frame = make(&wish);

    frames_adopt(&w.frames, frame);
    frame_unref(frame);
}

static bool
is_kept(const struct frame_wish *wish)
{
    struct frame *frame = frames_find(&w.frames, wish);

    frame_unref(frame);
    return frame != NULL;
}

/* True if the XML frame of those entries is kept. */
static bool
is_kept_at(uint64_t after, uint64_t upto)
{
    struct frame_wish wish = wish_for("resourcesync.xml", after, upto);

    return is_kept(&wish);
}

/* message.h, websocket.h: a frame is the message, as it goes out. */
TEST(holds_the_message_as_it_goes_out)
{
    const struct message_wish content = {.set = w.set,
                                         .form = MESSAGE_XML,
                                         .after = 2,
                                         .upto = 4,
                                         .max_bytes = 1 << 20};
    struct frame_wish wish = wish_for("resourcesync.xml", 2, 4);
    struct frame *frame = make(&wish);
    struct message message;
    struct buf wire;

    buf_init(&wire, SIZE_MAX);
    assert_int_equal(frame->last, 4);
    assert_int_equal(frame->owners, 1);
    assert_int_equal(message_open(&message, &content, NULL), STATUS_OK);
    websocket_wrap(&wire, &message, NULL);
    assert_int_equal(frame->size, wire.size);
    assert_memory_equal(frame->data, wire.data, wire.size);
    frame_unref(frame);
    message_close(&message);
    buf_fini(&wire);
}

/* design.md section 1: subscribers at the same place share one frame. */
TEST(gives_the_same_frame_to_all_at_one_place)
{
    struct frame_wish wish = wish_for("resourcesync.json", 2, UINT64_MAX);
    struct frame *frame, *found;

    assert_null(frames_find(&w.frames, &wish));
    frame = make(&wish);
    frames_adopt(&w.frames, frame);
    assert_int_equal(w.frames.bytes, frame->size);
    found = frames_find(&w.frames, &wish);
    assert_ptr_equal(found, frame);
    frame_unref(found);
    frame_unref(frame);
    assert_true(w.frames.bytes > 0); /* kept for others */
    assert_true(is_kept(&wish));
}

/* Another place, transport or set is another frame. */
TEST(tells_frames_apart_by_set_place_and_transport)
{
    struct frame_wish wish = wish_for("resourcesync.json", 2, UINT64_MAX);

    adopt(2, UINT64_MAX);
    assert_true(is_kept_at(2, UINT64_MAX));
    assert_false(is_kept_at(3, UINT64_MAX));
    assert_false(is_kept(&wish));
    w.set = sets_post(&s, "other", 1, 5);
    assert_false(is_kept_at(2, UINT64_MAX));
}

/* A wish for the entries up to a certain one gets a frame that ends there: the
 * rest of a begun frame must be the same bytes. */
TEST(serves_a_limited_wish_only_by_a_frame_that_ends_there)
{
    adopt(1, 3);
    assert_true(is_kept_at(1, 3));
    assert_false(is_kept_at(1, 4));
    assert_false(is_kept_at(1, 2));
    assert_true(is_kept_at(1, UINT64_MAX));
    adopt(1, 5);
    assert_true(is_kept_at(1, 3));
    assert_true(is_kept_at(1, 5));
}

/* Of two at one place the newer, which says more, is found. */
TEST(finds_the_newest_frame_first)
{
    struct frame_wish wish = wish_for("resourcesync.xml", 1, UINT64_MAX);
    struct frame *frame;

    adopt(1, 3);
    adopt(1, 5);
    frame = frames_find(&w.frames, &wish);
    assert_int_equal(frame->last, 5);
    frame_unref(frame);
}

/* Heartbeats carry the clock, and an empty frame says that there was nothing at
 * that moment: neither is kept, both count while they live. */
TEST(keeps_neither_heartbeats_nor_empty_frames)
{
    struct frame_wish empty = wish_for("resourcesync.json", 5, UINT64_MAX);
    struct frame_wish beat = empty;
    struct frame *a, *b;

    beat.is_heartbeat = true;
    a = make(&beat);
    b = make(&empty);
    assert_int_equal(a->last, 5);
    assert_int_equal(b->last, 5);
    frames_adopt(&w.frames, a);
    frames_adopt(&w.frames, b);
    assert_int_equal(w.frames.bytes, a->size + b->size);
    assert_null(frames_find(&w.frames, &beat));
    assert_null(frames_find(&w.frames, &empty));
    frame_unref(a);
    frame_unref(b);
    assert_int_equal(w.frames.bytes, 0);
}

/* A heartbeat is not served by a message that stands at its place. */
TEST(serves_no_heartbeat_from_what_is_kept)
{
    struct frame_wish beat = wish_for("resourcesync.xml", 2, UINT64_MAX);

    adopt(2, UINT64_MAX);
    beat.is_heartbeat = true;
    assert_false(is_kept(&beat));
}

/* Design rule 8: as many as there is room for, the oldest goes first. */
TEST(keeps_the_last_frames)
{
    uint64_t n = FRAMES_KEPT + 10;

    post_each(FRAMES_KEPT + 6);
    for (uint64_t after = 0; after < n; after++)
        adopt(after, after + 1);
    for (uint64_t after = 0; after < n; after++)
        assert_int_equal(is_kept_at(after, UINT64_MAX), after >= 10);
    assert_int_equal(w.frames.kept_bytes, w.frames.bytes);
}

/* Bounded in bytes, too; the newest stays in any case. */
TEST(keeps_frames_within_their_bytes)
{
    uint64_t kept = 0;

    w.set = sets_post_heavy(&s, "demo", 1, 20, 240000);
    for (uint64_t after = 5; after < 25; after++) {
        adopt(after, after + 1);
        assert_true(w.frames.kept_bytes <= FRAMES_KEPT_BYTES);
        assert_true(is_kept_at(after, UINT64_MAX));
    }
    for (uint64_t after = 5; after < 25; after++)
        kept += is_kept_at(after, UINT64_MAX);
    assert_in_range(kept, FRAMES_KEPT_BYTES / 260000,
                    FRAMES_KEPT_BYTES / 240000);
}

/* A frame that is in use outlives its place in the ring, and counts until its
 * last owner lets go. */
TEST(counts_a_frame_until_its_last_owner_lets_go)
{
    struct frame_wish wish = wish_for("resourcesync.xml", 0, 1);
    struct frame *mine = make(&wish);
    size_t size = mine->size;

    post_each(FRAMES_KEPT - 2);
    frames_adopt(&w.frames, mine);
    for (uint64_t after = 1; after < FRAMES_KEPT + 2; after++)
        adopt(after, after + 1);
    assert_false(is_kept_at(0, UINT64_MAX));
    assert_int_equal(w.frames.bytes, w.frames.kept_bytes + size);
    frame_ref(mine);
    frame_unref(mine);
    assert_int_equal(w.frames.bytes, w.frames.kept_bytes + size);
    frame_unref(mine);
    assert_int_equal(w.frames.bytes, w.frames.kept_bytes);
    frame_unref(NULL);
}

/* A released frame can be made again, from memory or disk: then its rest can be
 * sent. */
TEST(is_the_same_when_it_is_made_again)
{
    struct frame_wish wish = wish_for("resourcesync.json", 1, UINT64_MAX);
    struct frame *first, *again = NULL;

    first = make(&wish);
    sets_post(&s, "demo", 9, 3);
    stage_restart();
    w.set = sets_find(&s, "demo");
    wish = wish_for("resourcesync.json", 1, first->last);
    assert_int_equal(
        frame_make(&again, &wish, LOG_MEMORY, &w.frames.deflater, NULL),
        STATUS_AGAIN);
    assert_null(again);
    again = make(&wish);
    assert_int_equal(again->last, 5);
    assert_int_equal(again->size, first->size);
    assert_memory_equal(again->data, first->data, first->size);
    frame_unref(first);
    frame_unref(again);
}

/* a place that the log does not have gives no frame. */
TEST(makes_no_frame_ahead_of_the_log)
{
    struct frame_wish wish = wish_for("resourcesync.json", 6, UINT64_MAX);
    struct frame *frame = NULL;

    assert_int_equal(
        frame_make(&frame, &wish, LOG_DISK, &w.frames.deflater, NULL),
        STATUS_GONE);
    assert_null(frame);
}

static struct filter_class *
enter(const char *query)
{
    struct filter_class *class;
    struct filter f;

    assert_int_equal(filter_read(&f, slice_of(query), NULL), STATUS_OK);
    assert_int_equal(
        filters_enter(registry_filters(s.registry), &f, NULL, &class, NULL),
        STATUS_OK);
    return class;
}

/* frames.h: where nothing passes the frame is empty, and serves all of its
 * class who look on from there, wherever their last message ended. */
TEST(an_empty_frame_serves_its_class)
{
    struct filter_class *none = enter("change=deleted"),
                        *other = enter("change=created");

    const struct {
        uint64_t after, reached;
        struct filter_class *filter;
        bool is_kept;
    } rows[] = {
        {1, 3, none, true},  {2, 3, none, true},  {3, 0, none, true},
        {4, 0, none, false}, {1, 2, none, false}, {1, 3, other, false},
        {1, 3, NULL, false},
    };
    struct frame_wish wish = wish_for("resourcesync.xml", 1, UINT64_MAX);
    struct frame *frame;

    wish.filter = none;
    wish.reached = 3;
    frame = make(&wish);
    assert_int_equal(frame->size, 0);
    assert_int_equal(frame->last, 5);
    frames_adopt(&w.frames, frame);
    frame_unref(frame);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        wish.after = rows[i].after;
        wish.reached = rows[i].reached;
        wish.filter = rows[i].filter;
        if (is_kept(&wish) != rows[i].is_kept)
            fail_msg("row %zu is not so", i);
    }
    filters_leave(none);
    filters_leave(other);
}

/* A frame with entries serves only readers at the place where it begins. */
TEST(a_filtered_frame_serves_who_stands_where_it_begins)
{
    struct filter_class *all = enter("change=updated&change=created");
    struct frame_wish wish = wish_for("resourcesync.json", 1, UINT64_MAX);
    struct frame_wish theirs;
    struct frame *frame;

    wish.filter = all;
    frame = make(&wish);
    assert_true(frame->size > 0);
    frames_adopt(&w.frames, frame);
    frame_unref(frame);
    assert_true(is_kept(&wish));
    theirs = wish;
    theirs.after = 0;
    theirs.reached = 1;
    assert_false(is_kept(&theirs));
    theirs = wish;
    theirs.upto = 5;
    assert_true(is_kept(&theirs));
    theirs.upto = 4;
    assert_false(is_kept(&theirs));

    filters_leave(all); /* the frame stays, its class's address may be new */
    all = enter("change=updated&change=created");
    wish.filter = all;
    assert_false(is_kept(&wish));
    filters_leave(all);
}

static int64_t
committed_us(uint64_t seq)
{
    struct batch *b = NULL;
    int64_t us;

    assert_int_equal(log_read(registry_log(s.registry), w.set->log, seq - 1,
                              LOG_MEMORY, &b, NULL),
                     STATUS_OK);
    us = b->committed_us;
    batch_unref(b);
    return us;
}

/* metrics.h: how long a change took to its subscribers begins with its commit,
 * not with that of something else that was passed over long ago. */
TEST(a_frame_is_as_old_as_what_it_was_made_for)
{
    struct frame_wish wish = wish_for("resourcesync.json", 1, UINT64_MAX);
    struct frame *frame = make(&wish);

    assert_true(committed_us(2) < committed_us(5));
    assert_int_equal(frame->committed_us, committed_us(2));
    frame_unref(frame);

    wish.filter = enter("prefix=http://example.com/r/4");
    wish.reached = 4;
    frame = make(&wish);
    assert_int_equal(frame->last, 5);
    assert_true(frame->size > 0);
    assert_int_equal(frame->committed_us, committed_us(5));
    frame_unref(frame);
    filters_leave(wish.filter);
}

/* since=: the greeting is at the last entry that is not later. */
TEST(a_greeting_finds_its_moment)
{
    struct frame_wish wish;
    struct frame *frame;
    struct batch *b;
    int64_t us;

    assert_int_equal(
        log_read(registry_log(s.registry), w.set->log, 2, LOG_DISK, &b, NULL),
        STATUS_OK);
    us = batch_time(b, 3);
    batch_unref(b);
    wish = wish_for("resourcesync.xml", 5, UINT64_MAX);
    wish.is_heartbeat = true;
    wish.has_since = true;
    wish.since_us = us;
    frame = make(&wish);
    assert_int_equal(frame->last, 3);
    assert_non_null(
        memmem(frame->data, frame->size, "td:after=\"3\" td:last=\"3\"", 24));
    frame_unref(frame);
}

/* The compressed frame stands beside the plain one, each
 * made once. */
TEST(keeps_a_compressed_frame_beside_the_plain_one)
{
    struct frame_wish wish = wish_for("resourcesync.json", 2, UINT64_MAX);
    struct frame *plain, *deflated, *found;

    plain = make(&wish);
    frames_adopt(&w.frames, plain);
    wish.transport = transport("resourcesync.json", true);
    assert_null(frames_find(&w.frames, &wish));
    deflated = make(&wish);
    assert_int_equal(deflated->last, plain->last);
    assert_in_range(deflated->size, 1, plain->size - 1);
    frames_adopt(&w.frames, deflated);
    assert_int_equal(w.frames.bytes, plain->size + deflated->size);

    found = frames_find(&w.frames, &wish);
    assert_ptr_equal(found, deflated);
    frame_unref(found);
    frame_unref(deflated);
    frame_unref(plain);
}

/* A service thread leaves a large message to the worker pool, where another
 * deflater makes the same bytes. */
TEST(leaves_a_large_message_to_compress_to_the_worker_pool)
{
    struct frame_wish wish = wish_for("resourcesync.xml", 5, UINT64_MAX);
    struct frame *plain = NULL, *first, *again, *none = NULL;

    w.set = sets_post_heavy(&s, "demo", 1, 1, DEFLATER_AT_ONCE);
    assert_int_equal(
        frame_make(&plain, &wish, LOG_MEMORY, &w.frames.deflater, NULL),
        STATUS_OK);
    wish.transport = transport("resourcesync.xml", true);
    assert_int_equal(
        frame_make(&none, &wish, LOG_MEMORY, &w.frames.deflater, NULL),
        STATUS_AGAIN);
    assert_null(none);
    first = make(&wish);
    again = make(&wish);
    assert_true(first->size < plain->size);
    assert_int_equal(first->size, again->size);
    assert_memory_equal(first->data, again->data, again->size);
    frame_unref(plain);
    frame_unref(first);
    frame_unref(again);
}
