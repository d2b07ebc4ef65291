#include "broker/hub/bodies.h"

#include "tests/test.h"
#include "tests/unit/hub_engine/engine.h"

#define BUDGET ((size_t)64 << 10)

static struct shared_body *
made(struct bodies *bodies, const struct topic *topic, uint64_t after,
     uint64_t upto)
{
    struct topic_wish wish = {
        .after = after, .upto = upto, .patience = LOG_DISK};
    struct shared_body *body;
    uint64_t last;

    assert_int_equal(shared_body_make(&body, topic, &wish, &last, NULL),
                     STATUS_OK);
    bodies_adopt(bodies, body);
    return body;
}

static struct shared_body *
found(struct bodies *bodies, const struct topic *topic, uint64_t after,
      uint64_t upto)
{
    struct topic_wish wish = {.after = after, .upto = upto};
    uint64_t head;

    assert_true(topic_head(topic, &head));
    return bodies_find(bodies, topic, &wish, head);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* what was let go of is made again, byte for byte, whatever came
 * meanwhile and whoever merged it. */
TEST(are_the_same_whenever_they_are_made)
{
    struct shared_body *first, *again;
    struct bodies bodies;
    struct topic *topic;

    engine_open(state);
    bodies_init(&bodies, BUDGET);
    sets_post(&e.sets, "demo", 0, 3);
    sets_post(&e.sets, "demo", 3, 3);
    topic = topic_for(TOPIC_CHANGES, "demo");
    first = made(&bodies, topic, 1, UINT64_MAX);
    assert_int_equal(first->last, 6);
    sets_post(&e.sets, "demo", 6, 3);
    again = made(&bodies, topic, 1, 6);
    assert_ptr_not_equal(first, again);
    assert_true(
        slice_equal(shared_body_slice(first), shared_body_slice(again)));
    bodies_settle(&bodies, first);
    bodies_settle(&bodies, again);
    bodies_fini(&bodies);
    topic_release(topic);
    engine_close();
}

/* One that nobody holds is found for a while; one that does not have all that
 * waits is not, but for who wants that range. */
TEST(are_found_as_long_as_they_serve)
{
    struct shared_body *body;
    struct bodies bodies;
    struct topic *topic;

    engine_open(state);
    bodies_init(&bodies, BUDGET);
    sets_post(&e.sets, "demo", 0, 3);
    topic = topic_for(TOPIC_CHANGES, "demo");
    body = made(&bodies, topic, 0, UINT64_MAX);
    bodies_settle(&bodies, body);
    assert_ptr_equal(found(&bodies, topic, 0, UINT64_MAX), body);
    bodies_settle(&bodies, body);
    assert_null(found(&bodies, topic, 1, UINT64_MAX));
    sets_post(&e.sets, "demo", 3, 1);
    assert_null(found(&bodies, topic, 0, UINT64_MAX));
    assert_ptr_equal(found(&bodies, topic, 0, 3), body);
    bodies_settle(&bodies, body);
    bodies_fini(&bodies);
    topic_release(topic);
    engine_close();
}

/* A body that is full serves also when there is more behind it. */
TEST(are_found_where_they_are_full)
{
    struct shared_body *body;
    struct bodies bodies;
    struct topic *topic;

    engine_configure(state);
    e.sets.config.message_bytes = 32 << 10;
    engine_start();
    bodies_init(&bodies, BUDGET);
    sets_post_heavy(&e.sets, "demo", 0, 20, 5000);
    topic = topic_for(TOPIC_CHANGES, "demo");
    body = made(&bodies, topic, 0, UINT64_MAX);
    assert_in_range(body->last, 1, 19);
    bodies_settle(&bodies, body);
    assert_ptr_equal(found(&bodies, topic, 0, UINT64_MAX), body);
    bodies_settle(&bodies, body);
    bodies_fini(&bodies);
    topic_release(topic);
    engine_close();
}

/* Whoever has found one may go on making others before it holds it. */
TEST(stay_while_they_are_looked_at)
{
    struct shared_body *body;
    struct bodies bodies;
    struct topic *topic;

    engine_open(state);
    bodies_init(&bodies, BUDGET);
    sets_post(&e.sets, "demo", 0, BODIES_KEPT + 2);
    topic = topic_for(TOPIC_CHANGES, "demo");
    body = made(&bodies, topic, 0, 1);
    bodies_settle(&bodies, body);
    assert_ptr_equal(found(&bodies, topic, 0, 1), body);
    for (uint64_t after = 1; after < BODIES_KEPT + 2; after++)
        bodies_settle(&bodies, made(&bodies, topic, after, after + 1));
    assert_ptr_equal(found(&bodies, topic, 0, 1), body);
    bodies_settle(&bodies, body);
    bodies_settle(&bodies, body);
    bodies_fini(&bodies);
    topic_release(topic);
    engine_close();
}

/* W-092: what is held counts once, for suspects too; these have room up to a
 * half, and share what they hold already. */
TEST(count_while_they_are_held)
{
    struct shared_body *a, *b;
    struct bodies bodies;
    struct topic *topic;

    engine_open(state);
    sets_post_heavy(&e.sets, "demo", 0, 1, 20000);
    sets_post_heavy(&e.sets, "demo", 1, 1, 20000);
    topic = topic_for(TOPIC_CHANGES, "demo");
    bodies_init(&bodies, 40000);
    a = made(&bodies, topic, 0, 1);
    b = made(&bodies, topic, 1, 2);
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
    bodies_fini(&bodies);
    topic_release(topic);
    engine_close();
}

/* Few are kept that nobody holds: by number, and by bytes. */
TEST(are_not_kept_for_long)
{
    struct bodies bodies;
    struct topic *topic;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 2 * BODIES_KEPT);
    topic = topic_for(TOPIC_CHANGES, "demo");
    bodies_init(&bodies, BUDGET);
    for (unsigned i = 0; i < 2 * BODIES_KEPT; i++)
        bodies_settle(&bodies, made(&bodies, topic, i, i + 1));
    assert_int_equal(bodies.n_idle, BODIES_KEPT);
    assert_null(found(&bodies, topic, 0, 1));
    sets_post_heavy(&e.sets, "demo", 1000, 1, 60000);
    for (unsigned i = 0; i < BODIES_KEPT; i++)
        bodies_settle(&bodies, made(&bodies, topic, i, 2 * BODIES_KEPT + 1));
    assert_in_range(bodies.idle_bytes, 1, BODIES_KEPT_BYTES);
    bodies_fini(&bodies);
    topic_release(topic);
    engine_close();
}
