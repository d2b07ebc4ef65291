/*
 * statefile.h - the file of a state: its rows, and what it is of.
 *
 *   resources  id, seq, entry
 *   keys       key (resource_key of the loc), id
 *   state      the one row: epoch, seq, us, digest, n, bytes, is_whole, began,
 *              whole_at
 *
 * A commit does not wait for the disk: the kernel has it, and kill -9 takes
 * none of it; after a power failure the file is as of an earlier commit. A
 * checkpoint makes it firm (statefile_sync).
 *
 * One thread.
 */
#ifndef BROKER_STATE_STATEFILE_H
#define BROKER_STATE_STATEFILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/db.h"
#include "broker/state/gathering.h"
#include "broker/state/resources.h"
#include "proto/hash.h"
#include "proto/position.h"
#include "proto/problem.h"
#include "proto/status.h"

enum statefile_statement {
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
    F_WALK, /* from behind an id on */
    STATEFILE_STATEMENTS
};

struct statefile {
    char path[4352];
    struct db db;
    sqlite3_stmt *statements[STATEFILE_STATEMENTS];
    int wal_pages;                /* after the last commit */
    const atomic_bool *is_ending; /* lent: resources_heed; NULL: nobody asks */
};

/* What the one row tells. */
struct statefile_at {
    char epoch[EPOCH_SIZE + 1]; /* "": there is none yet */
    struct resources_at at;
    struct digest digest; /* d(at.seq) */
    bool has_digest;      /* it is known */
    uint64_t whole_at;    /* folded up to there it is whole; 0: nobody knows */
};

/* Opens the file at f->path, or makes it, and reads its row. *is_ours: false:
 * it is damaged, or a newer program's; `why` says so, and it fails. */
MUST_CHECK enum status statefile_open(struct statefile *f,
                                      struct statefile_at *state, bool *is_ours,
                                      struct problem *why);

/* db_heed, of this opening of the file and those to come. */
void statefile_heed(struct statefile *f, const atomic_bool *is_ending);

/* Leaves what was committed as it is; harmless if it is not open. */
void statefile_close(struct statefile *f);

/* Takes it off the disk; it is closed. */
MUST_CHECK enum status statefile_unlink(struct statefile *f,
                                        struct problem *why);

/* Writes all that was gathered, and the row that tells of it, in one
 * transaction; counts in state->at what changed. The gathering is in any order,
 * and may be in another one afterwards. */
MUST_CHECK enum status statefile_write(struct statefile *f, struct gathering *g,
                                       struct statefile_at *state,
                                       struct problem *why);

/* Makes firm all that was committed. */
MUST_CHECK enum status statefile_sync(struct statefile *f, struct problem *why);

/* Lets go of what a statement lent, and of its read transaction. */
void statefile_settle(struct statefile *f);

#endif
