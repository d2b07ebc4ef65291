/*
 * folded.h - sets with random changes, and their folding, for tests of it.
 */
#ifndef TESTS_UNIT_ARCHIVE_FOLDED_H
#define TESTS_UNIT_ARCHIVE_FOLDED_H

#include <stdio.h>

#include "broker/archive/state_fold.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

struct world {
    struct sets sets;
    struct state_fold folding;
    uint64_t random;
};

extern struct world world;

/* A fixture: lists of 20 entries, no grace. Or only configured, for a test that
 * begins by itself. */
int world_setup(void **state);
int world_teardown(void **state);
int world_configure(void **state);

/* _end and _begin: as a restart. */
void world_begin(void);
void world_end(void);

/* `n` random changes of so many resources. */
void world_post(const char *name, unsigned n, unsigned n_resources);

void world_fold(void);
struct resources *world_state(const char *name);

/* The state is at the head, and what a log that goes back to its beginning
 * says. */
void world_check(const char *name);

#endif
