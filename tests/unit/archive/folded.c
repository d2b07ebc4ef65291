#include "tests/unit/archive/folded.h"

#include "tests/support/chores.h"
#include "tests/support/model.h"
#include "tests/test.h"

void
world_begin(void)
{
    sets_open(&world.sets);
    state_fold_init(&world.folding, world.sets.registry);
    world.folding.rest_us = FOLD_AT_ONCE;
}

void
world_end(void)
{
    chore_end(&world.folding.chore);
    sets_close(&world.sets);
}

struct world world;

int
world_configure(void **state)
{
    if (tempdir_setup(state))
        return -1;
    sets_configure(&world.sets, tempdir_path(state));
    world.random = 3;
    return 0;
}

int
world_setup(void **state)
{
    if (world_configure(state))
        return -1;
    world.sets.config.rotate_entries = 20;
    world.sets.config.remove_grace_us = 0;
    world_begin();
    return 0;
}

int
world_teardown(void **state)
{
    if (world.sets.registry)
        world_end();
    return tempdir_teardown(state);
}

void
world_post(const char *name, unsigned n, unsigned n_resources)
{
    struct sets_outcome o;
    struct buf json;

    buf_init(&json, 1 << 24);
    model_changes(&json, &world.random, n, n_resources);
    o = sets_post_body(&world.sets, name, "application/json", buf_slice(&json),
                       0);
    if (o.rc)
        fail_msg("%s", o.why.text);
    buf_fini(&json);
}

void
world_fold(void)
{
    chore_look(&world.folding.chore);
    while (chore_step(&world.folding.chore))
        ;
}

struct resources *
world_state(const char *name)
{
    struct resources *r;
    struct problem why = {""};

    if (state_fold_open(&world.folding, sets_find(&world.sets, name), &r, &why))
        fail_msg("%s", why.text);
    return r;
}

void
world_check(const char *name)
{
    struct resources *r = world_state(name);
    struct model m;

    assert_int_equal(resources_at(r)->seq, sets_head(&world.sets, name).last);
    model_init(&m);
    model_fold_log(&m, world.sets.registry->log,
                   sets_find(&world.sets, name)->log, resources_at(r)->seq);
    model_check(&m, r);
    model_fini(&m);
}
