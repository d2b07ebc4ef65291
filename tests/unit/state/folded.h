/*
 * folded.h - a log of batches, a state that is folded from it, and a model of
 * the resources, for tests of the state.
 *
 *     FIXTURE(folded_setup, folded_teardown);
 *
 *     struct folded *w = *state;
 *
 *     folded_open(w, 4, 50, 20);
 *     folded_to(w, folded_last(w));
 *     folded_check(w);
 */
#ifndef TESTS_UNIT_STATE_FOLDED_H
#define TESTS_UNIT_STATE_FOLDED_H

#include <stddef.h>
#include <stdint.h>

#include "broker/state/resources.h"
#include "tests/support/model.h"
#include "tests/support/tempdir.h"

#define EPOCH "0123456789abcdef"

/* Batches of a log at most. */
#define BATCHES 60

struct folded {
    struct tempdir dir;
    struct resources *resources;
    struct batch *batches[BATCHES];
    size_t n_batches;
    struct model model;
    uint64_t random;
};

int folded_setup(void **state);
int folded_teardown(void **state);

/* `n_batches` of random sizes up to `n`, of so many resources. */
void folded_open(struct folded *w, size_t n_batches, unsigned n,
                 unsigned n_resources);

/* The state alone, as a process begins and ends; closed and opened again. */
void folded_open_state(struct folded *w);
void folded_close_state(struct folded *w);
void folded_reopen(struct folded *w);

/* The batch that holds entry `seq`. */
const struct batch *folded_batch(const struct folded *w, uint64_t seq);
uint64_t folded_last(const struct folded *w);

/* Folds behind `seq` what one batch has, up to `last`; returns how far. */
uint64_t folded_on(struct folded *w, uint64_t seq, uint64_t last);
void folded_commit(struct folded *w);

/* Both, from where the state is up to `last`. */
void folded_to(struct folded *w, uint64_t last);

/* The same up to the end of batch `i`. */
void folded_to_batch(struct folded *w, size_t i);

/* The model is taken to where the state is; then they are the same. */
void folded_check(struct folded *w);

/* Folds the rest and checks. */
void folded_check_all(struct folded *w);

#endif
