/*
 * stage.h - dumps (tests/support/dumping.h) and Resource Lists (build_orders.h)
 * of a test: opened before it, ended after it.
 *
 *     FIXTURE(stage_open_dumping, stage_end_dumping);
 *     FIXTURE(stage_open_build_orders, stage_end_build_orders);
 */
#ifndef TESTS_UNIT_ARCHIVE_STAGE_H
#define TESTS_UNIT_ARCHIVE_STAGE_H

#include "tests/support/build_orders.h"
#include "tests/support/dumping.h"
#include "tests/support/tempdir.h"

extern struct dumping d;
extern struct build_orders w;

int stage_open_dumping(void **state);
int stage_end_dumping(void **state);

int stage_open_build_orders(void **state);
int stage_end_build_orders(void **state);

void stage_restart_build_orders(void);

/* List `number` is the current one when all work is done. */
#define assert_builds(number_)                                      \
    do {                                                            \
        build_orders_work(&w);                                      \
        assert_int_equal(build_orders_current(&w).number, number_); \
    } while (0)

/* Works until a list is being built. */
void stage_begin_list(void);

/* The file or folder `path` of the data directory is there. */
#define assert_there(state, path) \
    assert_int_equal(faccessat(tempdir_fd(state), path, F_OK, 0), 0)

#endif
