/*
 * stage.h - the registry `s` of a test: configured with the defaults and opened
 * before the test, closed after it.
 *
 *     FIXTURE(stage_open, stage_close);
 *
 *     TEST(has_options_of_its_own, stage_configure, stage_close)
 *     {
 *         s.config.rotate_entries = 4;
 *         sets_open(&s);
 *         ...
 */
#ifndef TESTS_UNIT_SETS_STAGE_H
#define TESTS_UNIT_SETS_STAGE_H

#include "tests/support/sets.h"
#include "tests/support/tempdir.h"

extern struct sets s;

int stage_configure(void **state);
int stage_open(void **state);
int stage_close(void **state);

/* Closes the registry and opens it again. */
void stage_restart(void);

#endif
