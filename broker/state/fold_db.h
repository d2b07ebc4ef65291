/*
 * fold_db.h - a database that is folded from the log of its set, each entry
 * exactly once: what a state (resources.h) and content (content.h) share.
 *
 *     (no file) --open--> seq 0 --add, commit--> seq n --add, commit--> ...
 *         ^                                                     |
 *         +-- another epoch or history, or damage: begun anew --+
 *
 * It is the first member of the struct that owns the rows.
 *
 * For one thread.
 */
#pragma once

#include <stdatomic.h>

#include "base/db.h"
#include "broker/log/batch.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/position.h"

struct fold_db;

/* What the owner provides. */
struct fold_kind {
    const struct db_kind *db;
    const char *file; /* its name, in the directory of the set */
    const char *begins_anew, *is_damaged; /* log lines */
    size_t size;                          /* of the owner's struct */

    /* The limits of gathering for one commit. */
    size_t max_entries, max_bytes;

    /* Reads the only row of `state`: epoch, at, and the owner's columns. */
    enum status (*read)(struct fold_db *f, struct problem *why);

    /* Writes the first row of a new file, whose next entry is at.seq + 1. */
    enum status (*begin)(struct fold_db *f, struct problem *why);

    /* Gathers entry `seq`, a fragment with its stamp at `stamp`, as one of the
     * owner's rows. STATUS_MEMORY */
    enum status (*gather)(struct fold_db *f, struct slice fragment,
                          uint32_t stamp, uint64_t seq);

    /* Writes the gathered entries and their mark in one transaction, and then
     * moves `at` to the mark. */
    enum status (*commit)(struct fold_db *f, struct problem *why);

    /* Brings commits to the disk, if it is time. NULL: each one is there. */
    enum status (*keep)(struct fold_db *f, struct problem *why);

    /* Frees what lends from the file, which is about to be changed or
     * closed. */
    void (*release)(struct fold_db *f);
};

/* A position in the log. */
struct fold_mark {
    uint64_t seq;         /* every entry up to it is folded, no later one */
    int64_t us;           /* T(seq) */
    struct digest digest; /* d(seq) */
    bool has_digest;      /* it is known */
};

struct fold_db {
    uint64_t versions; /* of content: its limit (content.h) */
    const struct fold_kind *kind;
    char dir[4352]; /* of the set */
    struct db db;
    const atomic_bool *is_ending; /* lent; NULL: it never is */
    char epoch[EPOCH_SIZE + 1];   /* head.origin; "": none yet */
    struct fold_mark at;          /* as of the last commit */
    struct fold_mark gathered;    /* with the gathered entries */
    void *rows;                   /* of these, the owner's; `n` of them */
    size_t n, capacity;
    struct buf texts; /* of the rows */
    bool is_same_log; /* its digest was compared with the log's */
    bool has_failed;  /* a change: close it */
};

/* Opens the file in `dir`, or begins it. An existing file is deleted if it is
 * of another epoch (of a removed set with that name), damaged, or made by a
 * newer program; the last two cause a warning. STATUS_IO, STATUS_BUSY: a full
 * disk. */
MUST_CHECK enum status fold_db_open(struct fold_db **f,
                                    const struct fold_kind *kind,
                                    const char *dir, const char *epoch,
                                    struct problem *why);

/* Frees it, and deletes a file that was found damaged: the next open begins it
 * anew. NULL is allowed. */
void fold_db_close(struct fold_db *f);

/* When *is_ending is true the present call gives up soon, without any effect,
 * with STATUS_STOPPED; then the database can only be closed. Lent. */
void fold_db_heed(struct fold_db *f, const atomic_bool *is_ending);

/* Deletes everything: the next entry to be folded is `after` + 1. */
MUST_CHECK enum status fold_db_begin(struct fold_db *f, uint64_t after,
                                     struct problem *why);

/* Gathers the entries behind the last gathered one up to `last`, from a batch
 * that has the first of them and `last`. STATUS_AGAIN: the log is not the one
 * that was folded before (an older copy has replaced it); the database has
 * begun anew, at its first entry. STATUS_MEMORY: nothing is gathered. */
MUST_CHECK enum status fold_db_add(struct fold_db *f, const struct batch *batch,
                                   uint64_t last, struct problem *why);

/* Folds the gathered entries in one transaction. If it fails none is folded,
 * unless the commit succeeded and only the work after it failed: look at `at`.
 * STATUS_AGAIN: the file was damaged, and has begun anew. After any other
 * failure, here or in the functions of the owner that change rows, close it. */
MUST_CHECK enum status fold_db_commit(struct fold_db *f, struct problem *why);

/* True if a commit is due: as many entries are gathered as the kind allows. */
bool fold_db_is_full(const struct fold_db *f);

/* True if a change has failed, or a query has found damage: close it then. */
bool fold_db_has_failed(const struct fold_db *f);

/* Frees the gathered entries. */
void fold_db_forget(struct fold_db *f);

/* Ends a change with the result `rc`, whose reason is in *reason. A damaged
 * file begins anew: STATUS_AGAIN. After any other failure but STATUS_NOT_FOUND
 * `has_failed` is set. */
MUST_CHECK enum status fold_db_settle(struct fold_db *f, enum status rc,
                                      const struct problem *reason,
                                      struct problem *why);
