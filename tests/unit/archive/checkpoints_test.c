/*
 * checkpoints_test.c - the checkpoints that streams send.
 */
#include "broker/archive/checkpoints.h"

#include "base/clock.h"
#include "broker/access/checkpoint_keys.h"
#include "tests/clock.h"
#include "tests/support/chores.h"
#include "tests/unit/archive/folded.h"

FIXTURE(world_setup, world_teardown);

static struct checkpoints c;

/* The thread does all that is due; returns what streams get, or NULL. */
static const char *
work(struct set *set)
{
    chore_look(&c.chore);
    while (chore_step(&c.chore))
        ;
    return set->checkpoint;
}

/* Made at once when a stream asks, and each --checkpoint-every as long as one
 * wants it; then freed. */
TEST(makes_them_while_streams_want_them)
{
    struct registry *registry = world.sets.registry;
    struct set *set = sets_post(&world.sets, "demo", 1, 3);
    int64_t every_us = world.sets.config.checkpoint_every_us, us = 0;
    struct buf text = {.max = 4096};
    int64_t first_us;

    assert_int_equal(checkpoint_keys_open(&registry->checkpoint_keys,
                                          world.sets.config.data, true, NULL),
                     STATUS_OK);
    checkpoints_init(&c, registry);
    assert_null(work(set));

    atomic_fetch_add(&set->checkpoints_wanted, 2);
    assert_non_null(work(set));
    assert_int_equal(set->checkpoint_size, 3);
    first_us = set->checkpoint_us;
    assert_false(registry_checkpoint(set, 2, &text, &us));
    assert_true(registry_checkpoint(set, 3, &text, &us));
    assert_int_equal(us, first_us);
    assert_non_null(slice_find(buf_slice(&text), "\"checkpoint\":\""));
    buf_fini(&text);

    sets_post(&world.sets, "demo", 4, 1);
    clock_pass_us(every_us - 1);
    work(set);
    assert_int_equal(set->checkpoint_us, first_us);
    clock_pass_us(1);
    work(set);
    assert_int_equal(set->checkpoint_us, first_us + every_us);
    assert_int_equal(set->checkpoint_size, 4);

    atomic_fetch_sub(&set->checkpoints_wanted, 1);
    assert_non_null(work(set));
    atomic_fetch_sub(&set->checkpoints_wanted, 1);
    assert_null(work(set));
    assert_int_equal(set->checkpoint_us, 0);
    atomic_fetch_add(&set->checkpoints_wanted, 1);
    assert_non_null(work(set)); /* at once */

    chore_end(&c.chore);
    checkpoint_keys_close(registry->checkpoint_keys);
    registry->checkpoint_keys = NULL;
}
