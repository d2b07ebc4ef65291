/*
 * folded.h - a log of batches, a state that is folded from it, and a model of
 * what there is, for tests of the state.
 */
#ifndef TESTS_UNIT_STATE_FOLDED_H
#define TESTS_UNIT_STATE_FOLDED_H

#include <stddef.h>
#include <stdint.h>

#include "broker/state/resources.h"
#include "tests/support/model.h"

#define EPOCH "0123456789abcdef"

/* Batches of a log at most. */
#define BATCHES 60

struct folded {
    const char *dir;
    struct resources *resources;
    struct batch *batches[BATCHES];
    size_t n_batches;
    struct model model;
    uint64_t random;
};

/* `n_batches` of random sizes up to `n`, of so many resources. */
void folded_open(struct folded *w, void **state, size_t n_batches, unsigned n,
                 unsigned n_resources);
void folded_close(struct folded *w);

/* The state alone, as a process begins; closed and opened again. */
void folded_open_state(struct folded *w);
void folded_reopen(struct folded *w);

/* The batch that holds entry `seq`. */
const struct batch *folded_batch(const struct folded *w, uint64_t seq);
uint64_t folded_last(const struct folded *w);

/* Folds behind `seq` what one batch has, up to `last`; returns how far. */
uint64_t folded_on(struct folded *w, uint64_t seq, uint64_t last);
void folded_commit(struct folded *w);

/* Both, from where the state is up to `last`. */
void folded_to(struct folded *w, uint64_t last);

/* The model is taken to where the state is; then they are the same. */
void folded_check(struct folded *w);

#endif
