#include "tests/unit/archive/stage.h"

#include "tests/test.h"

struct dumping d;
struct renewals w;

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
stage_open_renewals(void **state)
{
    if (tempdir_setup(state))
        return -1;
    renewals_open(&w, state);
    return 0;
}

int
stage_end_renewals(void **state)
{
    if (w.sets.registry)
        renewals_end(&w);
    return tempdir_teardown(state);
}

void
stage_restart_renewals(void)
{
    renewals_end(&w);
    renewals_begin(&w);
}

void
stage_begin_list(void)
{
    renewals_look(&w);
    while (!w.renewal.build)
        assert_true(renewals_round(&w));
}
