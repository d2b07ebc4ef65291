#include "tests/unit/archive/stage.h"

#include "tests/test.h"

struct dumping d;
struct build_orders w;

int
stage_open_dumping(void **state)
{
    if (tempdir_setup(state))
        return -1;
    dumping_open(&d, state);
    return 0;
}

/* A test may have ended it. */
int
stage_end_dumping(void **state)
{
    if (d.sets.registry)
        dumping_end(&d);
    return tempdir_teardown(state);
}

int
stage_open_build_orders(void **state)
{
    if (tempdir_setup(state))
        return -1;
    build_orders_open(&w, state);
    return 0;
}

int
stage_end_build_orders(void **state)
{
    if (w.sets.registry)
        build_orders_end(&w);
    return tempdir_teardown(state);
}

void
stage_restart_build_orders(void)
{
    build_orders_end(&w);
    build_orders_begin(&w);
}

void
stage_begin_list(void)
{
    build_orders_look(&w);
    while (!w.schedule.build)
        assert_true(build_orders_round(&w));
}
