#include "broker/hub/bodies.h"

#include "tests/test.h"
#include "tests/unit/hub_engine/engine.h"

#define BUDGET ((size_t)64 << 10)

static struct bodies bodies;
static struct topic *topic;

static struct shared_body *
made(uint64_t after, uint64_t upto)
{
    struct topic_wish wish = {
        .after = after, .upto = upto, .patience = LOG_DISK};
    struct shared_body *body;
    uint64_t last;

    assert_int_equal(shared_body_make(&body, topic, &wish, &last, NULL),
                     STATUS_OK);
    bodies_adopt(&bodies, body);
    return body;
}

static struct shared_body *
found(uint64_t after, uint64_t upto)
{
    struct topic_wish wish = {.after = after, .upto = upto};
    uint64_t head;

    assert_true(topic_head(topic, &head));
    return bodies_find(&bodies, topic, &wish, head);
}

/* Of the set "demo", which has entries. */
static void
open_bodies(size_t budget)
{
    topic = topic_for(TOPIC_CHANGES, "demo");
    bodies_init(&bodies, budget);
}

static int
close_bodies(void **state)
{
    bodies_fini(&bodies);
    topic_release(topic);
    return engine_teardown(state);
}

FIXTURE(engine_setup, close_bodies);

/* the hub drops a body and makes it again: it has the same bytes,
 * also if sources have posted meanwhile. */
TEST(are_the_same_whenever_they_are_made)
{
    struct shared_body *first, *again;

    post(3);
    post(3);
    open_bodies(BUDGET);
    first = made(1, UINT64_MAX);
    assert_int_equal(first->last, 6);
    post(3);
    again = made(1, 6);
    assert_ptr_not_equal(first, again);
    assert_true(
        slice_equal(shared_body_slice(first), shared_body_slice(again)));
    bodies_settle(&bodies, first);
    bodies_settle(&bodies, again);
}

/* The cache finds an unheld body for a while. It finds no body that lacks newer
 * entries, except for a request of that very range. */
TEST(are_found_as_long_as_they_serve)
{
    struct shared_body *body;

    post(3);
    open_bodies(BUDGET);
    body = made(0, UINT64_MAX);
    bodies_settle(&bodies, body);
    assert_ptr_equal(found(0, UINT64_MAX), body);
    bodies_settle(&bodies, body);
    assert_null(found(1, UINT64_MAX));
    post(1);
    assert_null(found(0, UINT64_MAX));
    assert_ptr_equal(found(0, 3), body);
    bodies_settle(&bodies, body);
}

/* A body that is full serves also when there is more behind it. */
TEST(are_found_where_they_are_full, engine_configure, close_bodies)
{
    struct shared_body *body;

    e.sets.config.message_bytes = 32 << 10;
    engine_start();
    post_heavy(20, 5000);
    open_bodies(BUDGET);
    body = made(0, UINT64_MAX);
    assert_in_range(body->last, 1, 19);
    bodies_settle(&bodies, body);
    assert_ptr_equal(found(0, UINT64_MAX), body);
    bodies_settle(&bodies, body);
}

/* The hub finds a body and makes others before it holds the first: the first
 * stays. */
TEST(stay_while_they_are_looked_at)
{
    struct shared_body *body;

    post(BODIES_KEPT + 2);
    open_bodies(BUDGET);
    body = made(0, 1);
    bodies_settle(&bodies, body);
    assert_ptr_equal(found(0, 1), body);
    for (uint64_t after = 1; after < BODIES_KEPT + 2; after++)
        bodies_settle(&bodies, made(after, after + 1));
    assert_ptr_equal(found(0, 1), body);
    bodies_settle(&bodies, body);
    bodies_settle(&bodies, body);
}

/* W-092: a held body counts once, for suspects too. Suspects may hold up to a
 * half, and share bodies that they hold already. */
TEST(count_while_they_are_held)
{
    struct shared_body *a, *b;

    post_heavy(1, 20000);
    post_heavy(1, 20000);
    open_bodies(40000);
    a = made(0, 1);
    b = made(1, 2);
    assert_int_equal(bodies.held_bytes, 0);

    bodies_hold(&bodies, a, false);
    bodies_hold(&bodies, a, false);
    assert_int_equal(bodies.held_bytes, a->size);
    assert_int_equal(bodies.suspect_bytes, 0);
    assert_true(bodies_have_room(&bodies, NULL, true));
    bodies_hold(&bodies, a, true);
    assert_int_equal(bodies.held_bytes, a->size);
    assert_int_equal(bodies.suspect_bytes, a->size);
    assert_false(bodies_have_room(&bodies, NULL, true));
    assert_false(bodies_have_room(&bodies, b, true));
    assert_true(bodies_have_room(&bodies, a, true));
    assert_true(bodies_have_room(&bodies, NULL, false));
    bodies_hold(&bodies, b, false);
    assert_false(bodies_have_room(&bodies, NULL, false));
    assert_true(bodies_have_room(&bodies, b, false));

    bodies_release(&bodies, a, false);
    bodies_release(&bodies, a, false);
    assert_int_equal(bodies.held_bytes, a->size + b->size);
    bodies_release(&bodies, a, true);
    bodies_release(&bodies, b, false);
    assert_int_equal(bodies.held_bytes, 0);
    assert_int_equal(bodies.suspect_bytes, 0);
    bodies_settle(&bodies, a);
    bodies_settle(&bodies, b);
}

/* The number and the bytes of unheld bodies are limited. */
TEST(are_not_kept_for_long)
{
    post(2 * BODIES_KEPT);
    open_bodies(BUDGET);
    for (unsigned i = 0; i < 2 * BODIES_KEPT; i++)
        bodies_settle(&bodies, made(i, i + 1));
    assert_int_equal(bodies.n_idle, BODIES_KEPT);
    assert_null(found(0, 1));
    post_heavy(1, 60000);
    for (unsigned i = 0; i < BODIES_KEPT; i++)
        bodies_settle(&bodies, made(i, 2 * BODIES_KEPT + 1));
    assert_in_range(bodies.idle_bytes, 1, BODIES_KEPT_BYTES);
}
