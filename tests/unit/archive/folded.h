/*
 * folded.h - sets with random changes, and what folds them, for tests of
 * folding.
 */
#ifndef TESTS_UNIT_ARCHIVE_FOLDED_H
#define TESTS_UNIT_ARCHIVE_FOLDED_H

#include <stdio.h>

#include "broker/archive/folding.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

struct world {
    struct sets sets;
    struct folding folding;
    uint64_t random;
};

void world_begin(struct world *w);
void world_end(struct world *w);

/* Lists of 20 entries. */
void world_open(struct world *w, void **state);

/* `n` random changes of so many resources. */
void world_post(struct world *w, const char *name, unsigned n,
                unsigned n_resources);

void world_fold(struct world *w);
struct resources *world_state(struct world *w, const char *name);

/* The state is at the head, and what a log that goes back to its beginning
 * says. */
void world_check(struct world *w, const char *name);

#endif
