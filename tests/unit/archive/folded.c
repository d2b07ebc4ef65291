#include "tests/unit/archive/folded.h"

#include "tests/support/model.h"
#include "tests/test.h"

void
world_begin(struct world *w)
{
    sets_open(&w->sets);
    folding_init(&w->folding, w->sets.registry);
}

void
world_end(struct world *w)
{
    folding_fini(&w->folding);
    sets_close(&w->sets);
}

void
world_open(struct world *w, void **state)
{
    sets_configure(&w->sets, tempdir_path(state));
    w->sets.config.rotate_entries = 20;
    w->sets.config.remove_grace_us = 0;
    w->random = 3;
    world_begin(w);
}

void
world_post(struct world *w, const char *name, unsigned n, unsigned n_resources)
{
    struct sets_outcome o;
    struct buf json;

    buf_init(&json, 1 << 24);
    model_changes(&json, &w->random, n, n_resources);
    o = sets_post_body(&w->sets, name, "application/json", buf_slice(&json), 0);
    if (o.rc)
        fail_msg("%s", o.why.text);
    buf_fini(&json);
}

void
world_fold(struct world *w)
{
    folding_look(&w->folding);
    while (folding_some(&w->folding))
        ;
}

struct resources *
world_state(struct world *w, const char *name)
{
    struct resources *r;
    struct problem why = {""};

    if (folding_open(&w->folding, sets_find(&w->sets, name), &r, &why))
        fail_msg("%s", why.text);
    return r;
}

void
world_check(struct world *w, const char *name)
{
    struct resources *r = world_state(w, name);
    struct model m;

    assert_int_equal(resources_at(r)->seq, sets_head(&w->sets, name).last);
    model_init(&m);
    model_fold_log(&m, registry_log(w->sets.registry),
                   sets_find(&w->sets, name)->log, resources_at(r)->seq);
    model_check(&m, r);
    model_fini(&m);
}
