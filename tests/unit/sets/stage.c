#include "tests/unit/sets/stage.h"

struct sets s;

int
stage_configure(void **state)
{
    if (tempdir_setup(state))
        return -1;
    sets_configure(&s, tempdir_path(state));
    return 0;
}

int
stage_open(void **state)
{
    if (stage_configure(state))
        return -1;
    sets_open(&s);
    return 0;
}

/* A test that failed may have left it closed. */
int
stage_close(void **state)
{
    if (s.registry)
        sets_close(&s);
    return tempdir_teardown(state);
}

void
stage_restart(void)
{
    sets_close(&s);
    sets_open(&s);
}
