#include "broker/push/frames.h"

#include <stdlib.h>
#include <string.h>

#include "broker/push/websocket.h"
#include "tests/clock.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* A set with `n` posts of one entry each, and the frames of a thread. */
struct world {
    struct sets sets;
    struct set *set;
    struct frames frames;
};

static void
world_open(struct world *w, void **state, unsigned n)
{
    sets_configure(&w->sets, tempdir_path(state));
    sets_open(&w->sets);
    for (unsigned i = 0; i < n; i++) {
        w->set = sets_post(&w->sets, "demo", i, 1);
        clock_pass_us(1000);
    }
    frames_init(&w->frames);
}

static void
world_close(struct world *w)
{
    frames_fini(&w->frames);
    assert_int_equal(w->frames.bytes, 0); /* nobody holds a frame any more */
    sets_close(&w->sets);
}

static const struct transport *
transport(const char *name)
{
    bool is_named;

    return transports_of_websocket(true, slice_of(name), &is_named);
}

static struct frame_wish
wish_for(const struct world *w, const char *name, uint64_t after, uint64_t upto)
{
    return (struct frame_wish){.set = w->set,
                               .transport = transport(name),
                               .after = after,
                               .upto = upto};
}

static struct frame *
make(const struct frame_wish *wish)
{
    struct frame *frame = NULL;

    assert_int_equal(frame_make(&frame, wish, LOG_DISK, NULL), STATUS_OK);
    assert_non_null(frame);
    return frame;
}

/* Makes and adopts the XML frame of the entries after `after` up to `upto`,
 * and lets go of it. */
static void
adopt(struct world *w, uint64_t after, uint64_t upto)
{
    struct frame_wish wish = wish_for(w, "resourcesync.xml", after, upto);
    struct frame *frame = make(&wish);

    frames_adopt(&w->frames, frame);
    frame_unref(frame);
}

static bool
is_kept(struct world *w, const struct frame_wish *wish)
{
    struct frame *frame = frames_find(&w->frames, wish);

    frame_unref(frame);
    return frame != NULL;
}

static bool
is_kept_at(struct world *w, uint64_t after)
{
    struct frame_wish wish = wish_for(w, "resourcesync.xml", after, UINT64_MAX);

    return is_kept(w, &wish);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* message.h, websocket.h: a frame is the message, as it goes out. */
TEST(holds_the_message_as_it_goes_out)
{
    struct message_wish content = {
        .form = MESSAGE_XML, .after = 2, .upto = 4, .max_bytes = 1 << 20};
    struct frame_wish wish;
    struct buf message, wire;
    struct frame *frame;
    struct world w;
    uint64_t last;

    world_open(&w, state, 5);
    buf_init(&message, SIZE_MAX);
    buf_init(&wire, SIZE_MAX);
    wish = wish_for(&w, "resourcesync.xml", 2, 4);
    frame = make(&wish);
    assert_int_equal(frame->last, 4);
    assert_int_equal(frame->owners, 1);
    content.set = w.set;
    assert_int_equal(message_write(&message, &content, &last, NULL), STATUS_OK);
    websocket_wrap(&wire, buf_slice(&message), NULL);
    assert_int_equal(frame->size, wire.size);
    assert_memory_equal(frame->data, wire.data, wire.size);
    frame_unref(frame);
    buf_fini(&message);
    buf_fini(&wire);
    world_close(&w);
}

/* design.md section 1: subscribers at the same place share one frame. */
TEST(gives_the_same_frame_to_all_at_one_place)
{
    struct frame_wish wish;
    struct frame *frame, *found;
    struct world w;

    world_open(&w, state, 5);
    wish = wish_for(&w, "resourcesync.json", 2, UINT64_MAX);
    assert_null(frames_find(&w.frames, &wish));
    frame = make(&wish);
    frames_adopt(&w.frames, frame);
    assert_int_equal(w.frames.bytes, frame->size);
    found = frames_find(&w.frames, &wish);
    assert_ptr_equal(found, frame);
    frame_unref(found);
    frame_unref(frame);
    assert_true(w.frames.bytes > 0); /* kept for others */
    assert_true(is_kept(&w, &wish));
    world_close(&w);
}

/* Another place, transport or set is another frame. */
TEST(tells_frames_apart_by_set_place_and_transport)
{
    struct frame_wish wish;
    struct world w;

    world_open(&w, state, 5);
    adopt(&w, 2, UINT64_MAX);
    wish = wish_for(&w, "resourcesync.xml", 2, UINT64_MAX);
    assert_true(is_kept(&w, &wish));
    wish.after = 3;
    assert_false(is_kept(&w, &wish));
    wish = wish_for(&w, "resourcesync.json", 2, UINT64_MAX);
    assert_false(is_kept(&w, &wish));
    wish = wish_for(&w, "resourcesync.xml", 2, UINT64_MAX);
    wish.set = sets_post(&w.sets, "other", 1, 5);
    assert_false(is_kept(&w, &wish));
    world_close(&w);
}

/* Who wishes for the entries up to a certain one gets a frame that ends
 * there: the rest of what was begun must be the same bytes. */
TEST(serves_a_limited_wish_only_by_a_frame_that_ends_there)
{
    struct frame_wish wish;
    struct world w;

    world_open(&w, state, 5);
    adopt(&w, 1, 3);
    wish = wish_for(&w, "resourcesync.xml", 1, 3);
    assert_true(is_kept(&w, &wish));
    wish.upto = 4;
    assert_false(is_kept(&w, &wish));
    wish.upto = 2;
    assert_false(is_kept(&w, &wish));
    wish.upto = UINT64_MAX;
    assert_true(is_kept(&w, &wish));
    adopt(&w, 1, 5);
    wish.upto = 3;
    assert_true(is_kept(&w, &wish));
    wish.upto = 5;
    assert_true(is_kept(&w, &wish));
    world_close(&w);
}

/* Of two at one place the newer, which says more, is found. */
TEST(finds_the_newest_frame_first)
{
    struct frame_wish wish;
    struct frame *frame;
    struct world w;

    world_open(&w, state, 5);
    adopt(&w, 1, 3);
    adopt(&w, 1, 5);
    wish = wish_for(&w, "resourcesync.xml", 1, UINT64_MAX);
    frame = frames_find(&w.frames, &wish);
    assert_int_equal(frame->last, 5);
    frame_unref(frame);
    world_close(&w);
}

/* Heartbeats carry the clock, and an empty frame says that there was nothing at
 * that moment: neither is kept, both count while they live. */
TEST(keeps_neither_heartbeats_nor_empty_frames)
{
    struct frame_wish beat, empty;
    struct frame *a, *b;
    struct world w;

    world_open(&w, state, 3);
    beat = wish_for(&w, "resourcesync.json", 3, UINT64_MAX);
    beat.is_heartbeat = true;
    empty = wish_for(&w, "resourcesync.json", 3, UINT64_MAX);
    a = make(&beat);
    b = make(&empty);
    assert_int_equal(a->last, 3);
    assert_int_equal(b->last, 3);
    frames_adopt(&w.frames, a);
    frames_adopt(&w.frames, b);
    assert_int_equal(w.frames.bytes, a->size + b->size);
    assert_null(frames_find(&w.frames, &beat));
    assert_null(frames_find(&w.frames, &empty));
    frame_unref(a);
    frame_unref(b);
    assert_int_equal(w.frames.bytes, 0);
    world_close(&w);
}

/* A heartbeat is not served by a message that stands at its place. */
TEST(serves_no_heartbeat_from_what_is_kept)
{
    struct frame_wish beat;
    struct world w;

    world_open(&w, state, 5);
    adopt(&w, 2, UINT64_MAX);
    beat = wish_for(&w, "resourcesync.xml", 2, UINT64_MAX);
    beat.is_heartbeat = true;
    assert_false(is_kept(&w, &beat));
    world_close(&w);
}

/* Design rule 8: as many as there is room for, the oldest goes first. */
TEST(keeps_the_last_frames)
{
    struct world w;
    uint64_t n = FRAMES_KEPT + 10;

    world_open(&w, state, FRAMES_KEPT + 11);
    for (uint64_t after = 0; after < n; after++)
        adopt(&w, after, after + 1);
    for (uint64_t after = 0; after < n; after++)
        assert_int_equal(is_kept_at(&w, after), after >= 10);
    assert_int_equal(w.frames.kept_bytes, w.frames.bytes);
    world_close(&w);
}

/* Bounded in bytes, too; the newest stays in any case. */
TEST(keeps_frames_within_their_bytes)
{
    struct world w;
    uint64_t kept = 0;

    world_open(&w, state, 1);
    w.set = sets_post_heavy(&w.sets, "demo", 1, 20, 240000);
    for (uint64_t after = 1; after < 21; after++) {
        adopt(&w, after, after + 1);
        assert_true(w.frames.kept_bytes <= FRAMES_KEPT_BYTES);
        assert_true(is_kept_at(&w, after));
    }
    for (uint64_t after = 1; after < 21; after++)
        kept += is_kept_at(&w, after);
    assert_in_range(kept, FRAMES_KEPT_BYTES / 260000,
                    FRAMES_KEPT_BYTES / 240000);
    world_close(&w);
}

/* A frame that is in use outlives its place in the ring, and counts until its
 * last owner lets go. */
TEST(counts_a_frame_until_its_last_owner_lets_go)
{
    struct frame_wish wish;
    struct frame *mine;
    struct world w;
    size_t size;

    world_open(&w, state, FRAMES_KEPT + 3);
    wish = wish_for(&w, "resourcesync.xml", 0, 1);
    mine = make(&wish);
    size = mine->size;
    frames_adopt(&w.frames, mine);
    for (uint64_t after = 1; after < FRAMES_KEPT + 2; after++)
        adopt(&w, after, after + 1);
    assert_false(is_kept_at(&w, 0));
    assert_int_equal(w.frames.bytes, w.frames.kept_bytes + size);
    frame_ref(mine);
    frame_unref(mine);
    assert_int_equal(w.frames.bytes, w.frames.kept_bytes + size);
    frame_unref(mine);
    assert_int_equal(w.frames.bytes, w.frames.kept_bytes);
    frame_unref(NULL);
    world_close(&w);
}

/* A frame can be made anew after it was let go, from wherever the log has it:
 * the rest of it can then be sent. */
TEST(is_the_same_when_it_is_made_again)
{
    struct frame_wish wish;
    struct frame *first, *again = NULL;
    struct world w;

    world_open(&w, state, 5);
    wish = wish_for(&w, "resourcesync.json", 1, UINT64_MAX);
    first = make(&wish);
    sets_post(&w.sets, "demo", 9, 3);
    sets_close(&w.sets);
    sets_open(&w.sets);
    w.set = sets_find(&w.sets, "demo");
    wish = wish_for(&w, "resourcesync.json", 1, first->last);
    assert_int_equal(frame_make(&again, &wish, LOG_MEMORY, NULL), STATUS_AGAIN);
    assert_null(again);
    again = make(&wish);
    assert_int_equal(again->last, 5);
    assert_int_equal(again->size, first->size);
    assert_memory_equal(again->data, first->data, first->size);
    frame_unref(first);
    frame_unref(again);
    world_close(&w);
}

/* a place that the log does not have gives no frame. */
TEST(makes_no_frame_ahead_of_the_log)
{
    struct frame_wish wish;
    struct frame *frame = NULL;
    struct world w;

    world_open(&w, state, 5);
    wish = wish_for(&w, "resourcesync.json", 6, UINT64_MAX);
    assert_int_equal(frame_make(&frame, &wish, LOG_DISK, NULL), STATUS_GONE);
    assert_null(frame);
    world_close(&w);
}

static struct filter_class *
enter(struct world *w, const char *query)
{
    struct filter_class *class;
    struct filter f;

    assert_int_equal(filter_read(&f, slice_of(query), NULL), STATUS_OK);
    assert_int_equal(
        filters_enter(registry_filters(w->sets.registry), &f, &class, NULL),
        STATUS_OK);
    return class;
}

/* frames.h: where nothing passes the frame is empty, and serves all of its
 * class who look on from there, wherever their last message ended. */
TEST(an_empty_frame_serves_its_class)
{
    struct filter_class *none, *other;
    struct frame_wish wish, theirs;
    struct frame *frame;
    struct world w;

    world_open(&w, state, 5);
    none = enter(&w, "change=deleted");
    other = enter(&w, "change=created");
    wish = wish_for(&w, "resourcesync.xml", 1, UINT64_MAX);
    wish.filter = none;
    wish.reached = 3;
    frame = make(&wish);
    assert_int_equal(frame->size, 0);
    assert_int_equal(frame->last, 5);
    frames_adopt(&w.frames, frame);
    frame_unref(frame);

    assert_true(is_kept(&w, &wish));
    theirs = wish;
    theirs.after = 2;
    assert_true(is_kept(&w, &theirs));
    theirs.after = 3;
    theirs.reached = 0;
    assert_true(is_kept(&w, &theirs));
    theirs.after = 4;
    assert_false(is_kept(&w, &theirs));
    theirs = wish;
    theirs.reached = 2;
    assert_false(is_kept(&w, &theirs));
    theirs = wish;
    theirs.filter = other;
    assert_false(is_kept(&w, &theirs));
    theirs.filter = NULL;
    assert_false(is_kept(&w, &theirs));
    filters_leave(none);
    filters_leave(other);
    world_close(&w);
}

/* A frame with entries says where it begins: it is for who is there. */
TEST(a_filtered_frame_serves_who_stands_where_it_begins)
{
    struct filter_class *all;
    struct frame_wish wish, theirs;
    struct frame *frame;
    struct world w;

    world_open(&w, state, 5);
    all = enter(&w, "change=updated&change=created");
    wish = wish_for(&w, "resourcesync.json", 1, UINT64_MAX);
    wish.filter = all;
    frame = make(&wish);
    assert_true(frame->size > 0);
    frames_adopt(&w.frames, frame);
    frame_unref(frame);
    assert_true(is_kept(&w, &wish));
    theirs = wish;
    theirs.after = 0;
    theirs.reached = 1;
    assert_false(is_kept(&w, &theirs));
    theirs = wish;
    theirs.upto = 5;
    assert_true(is_kept(&w, &theirs));
    theirs.upto = 4;
    assert_false(is_kept(&w, &theirs));

    filters_leave(all); /* the frame stays, its class's address may be new */
    all = enter(&w, "change=updated&change=created");
    wish.filter = all;
    assert_false(is_kept(&w, &wish));
    filters_leave(all);
    world_close(&w);
}

static int64_t
committed_us(const struct world *w, uint64_t seq)
{
    struct batch *b = NULL;
    int64_t us;

    assert_int_equal(log_read(registry_log(w->sets.registry), w->set->log,
                              seq - 1, LOG_MEMORY, &b, NULL),
                     STATUS_OK);
    us = b->committed_us;
    batch_unref(b);
    return us;
}

/* metrics.h: how long a change took to its subscribers begins with its commit,
 * not with that of something else that was passed over long ago. */
TEST(a_frame_is_as_old_as_what_it_was_made_for)
{
    struct frame_wish wish;
    struct frame *frame;
    struct world w;

    world_open(&w, state, 5);
    assert_true(committed_us(&w, 2) < committed_us(&w, 5));
    wish = wish_for(&w, "resourcesync.json", 1, UINT64_MAX);
    frame = make(&wish);
    assert_int_equal(frame->committed_us, committed_us(&w, 2));
    frame_unref(frame);

    wish.filter = enter(&w, "prefix=http://example.com/r/4");
    wish.reached = 4;
    frame = make(&wish);
    assert_int_equal(frame->last, 5);
    assert_true(frame->size > 0);
    assert_int_equal(frame->committed_us, committed_us(&w, 5));
    frame_unref(frame);
    filters_leave(wish.filter);
    world_close(&w);
}

/* since=: the greeting is at the last entry that is not later. */
TEST(a_greeting_finds_its_moment)
{
    struct frame_wish wish;
    struct frame *frame;
    struct batch *b;
    struct world w;
    int64_t us;

    world_open(&w, state, 5);
    assert_int_equal(log_read(registry_log(w.sets.registry), w.set->log, 2,
                              LOG_DISK, &b, NULL),
                     STATUS_OK);
    us = batch_time(b, 3);
    batch_unref(b);
    wish = wish_for(&w, "resourcesync.xml", 5, UINT64_MAX);
    wish.is_heartbeat = true;
    wish.has_since = true;
    wish.since_us = us;
    frame = make(&wish);
    assert_int_equal(frame->last, 3);
    assert_non_null(
        memmem(frame->data, frame->size, "td:after=\"3\" td:last=\"3\"", 24));
    frame_unref(frame);
    world_close(&w);
}
