/*
 * folds.h - the databases that are folded from the logs of sets (fold_db.h), of
 * one kind: keeps the few open that were used last, and gathers entries for
 * them.
 *
 * Archive thread.
 */
#pragma once

#include "broker/sets/registry.h"
#include "broker/state/fold_db.h"

/* Open at most. */
#define FOLDS_MAX 16

struct folds {
    const struct fold_kind *kind;
    uint64_t n_uses;

    struct folds_place {
        const struct set *set; /* NULL: free */
        struct fold_db *db;
        uint64_t used; /* the larger, the later */
    } places[FOLDS_MAX];
};

void folds_init(struct folds *folds, const struct fold_kind *kind);
void folds_fini(struct folds *folds); /* closes all */

/* Opens the database of a set that has that epoch, unless it is open and has
 * not failed; lent until the next call. If FOLDS_MAX are open, closes the one
 * used longest ago. */
MUST_CHECK enum status folds_open(struct folds *folds, const struct set *set,
                                  const char *epoch, struct fold_db **db,
                                  struct problem *why);

/* Closes the database of that set, if it is open. */
void folds_drop(struct folds *folds, const struct set *set);

/* Closes those of removed sets: a new set of the same name has its file in the
 * same place. */
void folds_drop_removed(struct folds *folds);

/* Folds entries of the set into its open database, up to `last` and as many as
 * one commit takes; those before an unreadable one, too. It begins anew if the
 * log no longer has the entries behind it: the log keeps retired lists that are
 * not folded, so the database was lost, or is older. STATUS_STOPPED: the log is
 * ending. */
MUST_CHECK enum status folds_advance(struct folds *folds, const struct set *set,
                                     uint64_t last, struct problem *why);
