/*
 * store_batches.h - batches and closed lists in tidings.db: a row each.
 *
 * When the file of a list is on the disk, its batches are there twice. From
 * then on their set owes them: each commit deletes a slice of the rows of one
 * set, so that no commit takes long for it.
 *
 * The log thread's, on its connection.
 */
#ifndef BROKER_STORE_STORE_BATCHES_H
#define BROKER_STORE_STORE_BATCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/db.h"
#include "broker/log/act.h"
#include "proto/problem.h"
#include "proto/status.h"

enum { STORE_BATCHES_STATEMENTS = 6 };

struct store_debt {
    uint32_t set;
    uint64_t upto; /* seq of the last entry that may go */
};

struct store_batches {
    struct db *db; /* lent */
    sqlite3_stmt *statements[STORE_BATCHES_STATEMENTS];
    struct store_debt *debts; /* the first is paid next */
    size_t n_debts, capacity;
    size_t *debt_of; /* by set: the place in `debts`, from 1; 0: none */
    size_t n_of;
};

/* Prepares its statements; `db` has all steps. */
MUST_CHECK enum status store_batches_init(struct store_batches *s,
                                          struct db *db, struct problem *why);
void store_batches_fini(struct store_batches *s); /* harmless before it */

/* Each applies an act of its kind, within the transaction of a commit. at_us:
 * the acceptance time of the batch. */
MUST_CHECK enum status store_batches_add(struct store_batches *s,
                                         const struct act *act, int64_t at_us,
                                         struct problem *why);
MUST_CHECK enum status store_batches_end_list(struct store_batches *s,
                                              const struct act *act,
                                              struct problem *why);
MUST_CHECK enum status store_batches_file_list(struct store_batches *s,
                                               const struct act *act,
                                               struct problem *why);

/* Deletes a slice of the batches of a set up to entry `upto`, within the
 * transaction of a commit; *is_paid: nothing was left. */
MUST_CHECK enum status store_batches_forget(struct store_batches *s,
                                            uint32_t set, uint64_t upto,
                                            bool *is_paid, struct problem *why);

/* The same for the first set that owes some; *is_paid is false if none does. */
MUST_CHECK enum status store_batches_pay(struct store_batches *s, bool *is_paid,
                                         struct problem *why);

/* When the transaction is on the disk: the first debt was paid. The last one
 * takes its place. */
void store_batches_paid(struct store_batches *s);

/* Notes that a set owes its batches up to entry `upto`. STATUS_MEMORY. */
MUST_CHECK enum status store_batches_owe(struct store_batches *s, uint32_t set,
                                         uint64_t upto);

/* Reads which batches a set owes: those up to its first list without a file,
 * even if later lists have files. */
MUST_CHECK enum status store_batches_note_filed(struct store_batches *s,
                                                uint32_t set,
                                                struct problem *why);

#endif
