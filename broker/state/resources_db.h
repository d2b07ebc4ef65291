/*
 * resources_db.h - the file of a state: its rows and its properties.
 *
 *   resources  id, seq, entry
 *   keys       key (resource_key of the loc), id
 *   state      its only row: epoch, seq, us, digest, n, bytes, is_whole, began,
 *              whole_at
 *
 * A commit does not wait for the disk: the kernel has it, and survives kill -9.
 * After a power failure the file is as of an earlier commit. A checkpoint makes
 * commits firm (resources_db_sync).
 *
 * For one thread.
 */
#ifndef BROKER_STATE_RESOURCES_DB_H
#define BROKER_STATE_RESOURCES_DB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/db.h"
#include "broker/state/fold_batch.h"
#include "broker/state/resources.h"
#include "proto/digest.h"
#include "proto/position.h"
#include "proto/problem.h"
#include "proto/status.h"

enum resources_db_statement {
    F_BEGIN,
    F_COMMIT,
    F_ID,     /* of a key */
    F_SIZE,   /* of an entry */
    F_LAST,   /* the largest id */
    F_UPDATE, /* a row */
    F_INSERT,
    F_DELETE,
    F_INSERT_KEY,
    F_DELETE_KEY,
    F_STATE,
    F_FIND, /* by key */
    F_WALK, /* from an id on */
    RESOURCES_DB_STATEMENTS
};

struct resources_db {
    char path[4352];
    struct db db;
    sqlite3_stmt *statements[RESOURCES_DB_STATEMENTS];
    int wal_pages;                /* after the last commit */
    const atomic_bool *is_ending; /* lent: resources_heed; or NULL */
};

/* The only row of `state`. */
struct resources_db_at {
    char epoch[EPOCH_SIZE + 1]; /* "": none yet */
    struct resources_at at;
    struct digest digest; /* d(at.seq) */
    bool has_digest;      /* it is known */
    uint64_t whole_at;    /* it is whole when folded up to there; 0: unknown */
};

/* Opens the file at f->path, or makes it, and reads its state. Fails with
 * *is_ours false if it is damaged, or of a newer program; `why` has the
 * reason. */
MUST_CHECK enum status resources_db_open(struct resources_db *f,
                                         struct resources_db_at *state,
                                         bool *is_ours, struct problem *why);

/* Calls db_heed for this opening of the file and later ones. */
void resources_db_heed(struct resources_db *f, const atomic_bool *is_ending);

/* Closes without a change; allowed if not open. */
void resources_db_close(struct resources_db *f);

/* Deletes the file, which must be closed. */
MUST_CHECK enum status resources_db_unlink(struct resources_db *f,
                                           struct problem *why);

/* Writes all gathered changes and the row of `state` in one transaction;
 * updates the counts in state->at. May leave the gathering in another order. */
MUST_CHECK enum status resources_db_write(struct resources_db *f,
                                          struct fold_batch *g,
                                          struct resources_db_at *state,
                                          struct problem *why);

/* Makes all commits firm. */
MUST_CHECK enum status resources_db_sync(struct resources_db *f,
                                         struct problem *why);

/* Ends the statements and their read transaction: they lend nothing
 * afterwards. */
void resources_db_settle(struct resources_db *f);

#endif
