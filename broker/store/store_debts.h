/*
 * store_debts.h - sets whose batches are both in files of closed lists and in
 * rows: the log deletes these rows, a slice in each commit.
 *
 * The log thread's.
 */
#ifndef BROKER_STORE_STORE_DEBTS_H
#define BROKER_STORE_STORE_DEBTS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"

struct debt {
    uint32_t set;
    uint64_t upto; /* seq of the last entry that may go */
};

struct store_debts {
    struct debt *all; /* the first is paid next */
    size_t n, capacity;
    size_t *of; /* by set: the place in `all`, from 1; 0: none */
    size_t n_of;
};

/* STATUS_MEMORY. */
MUST_CHECK enum status store_debts_add(struct store_debts *d, uint32_t set,
                                       uint64_t upto);

/* Removes the first, which is paid; the last takes its place. */
void store_debts_drop(struct store_debts *d);

void store_debts_fini(struct store_debts *d);

#endif
