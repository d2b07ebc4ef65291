/*
 * store_sets.h - the sets in tidings.db: a row each, with what is rewritten
 * seldom: settings, sizes. A commit of entries touches no row of a set.
 *
 * The log thread's, on its connection.
 */
#ifndef BROKER_STORE_STORE_SETS_H
#define BROKER_STORE_STORE_SETS_H

#include "base/db.h"
#include "broker/log/engine.h"
#include "proto/problem.h"
#include "proto/status.h"

/* Steps of the database's versions (store.c has them all, in order). */
#define STORE_SETS_STEP_SETTINGS                                         \
    "ALTER TABLE sets ADD COLUMN settings TEXT NOT NULL DEFAULT '';"     \
    "ALTER TABLE sets ADD COLUMN changed_us INTEGER NOT NULL DEFAULT 0;" \
    "ALTER TABLE sets ADD COLUMN file_bytes INTEGER NOT NULL DEFAULT 0;"

/* A removed set leaves a tombstone, by name, and trash, by id: ids are never
 * given twice while rows of them are left, names are. */
#define STORE_SETS_STEP_REMOVAL                                             \
    "ALTER TABLE sets ADD COLUMN start_list INTEGER NOT NULL DEFAULT 1;"    \
    "CREATE TABLE tombstones(name TEXT PRIMARY KEY, list INTEGER NOT NULL," \
    " removed_us INTEGER NOT NULL);"                                        \
    "CREATE TABLE trash(id INTEGER PRIMARY KEY, set_id INTEGER NOT NULL,"   \
    " name TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,"   \
    " is_whole INTEGER NOT NULL, due_us INTEGER NOT NULL);"                 \
    "CREATE INDEX trash_by_due ON trash(due_us);"

/* first_list 0: start_list. */
#define STORE_SETS_STEP_RETENTION                                        \
    "ALTER TABLE sets ADD COLUMN first_list INTEGER NOT NULL DEFAULT 0;" \
    "ALTER TABLE sets ADD COLUMN earliest INTEGER NOT NULL DEFAULT 0;"

/* The acceptance time of a batch; NULL: older than this step. */
#define STORE_SETS_STEP_ACCEPTED \
    "ALTER TABLE batches ADD COLUMN accepted_us INTEGER;"

/* The seq before the first entry of the commit of a batch, or of a list's last
 * entry; NULL: older than this step. */
#define STORE_SETS_STEP_COMMITS                            \
    "ALTER TABLE batches ADD COLUMN commit_after INTEGER;" \
    "ALTER TABLE lists ADD COLUMN commit_after INTEGER;"

enum { STORE_SETS_STATEMENTS = 12 };

struct store_batches;
struct store_generations;

struct store_sets {
    struct db *db;    /* lent */
    uint32_t next_id; /* the next birth's; moves when births are committed */
    sqlite3_stmt *statements[STORE_SETS_STATEMENTS];
};

/* Prepares what is needed; `db` has all steps. */
MUST_CHECK enum status store_sets_init(struct store_sets *s, struct db *db,
                                       struct problem *why);
void store_sets_fini(struct store_sets *s); /* harmless before it */

/* Reports every set with its head: see struct engine_ops. */
MUST_CHECK enum status store_sets_load(struct store_sets *s,
                                       struct store_generations *generations,
                                       engine_set_fn *on_set, void *user,
                                       struct problem *why);

/* Each applies an act of its kind, within the transaction of a commit. */
MUST_CHECK enum status store_sets_birth(struct store_sets *s,
                                        const struct act *act,
                                        struct problem *why);
MUST_CHECK enum status store_sets_settings(struct store_sets *s,
                                           const struct act *act,
                                           struct problem *why);
MUST_CHECK enum status store_sets_removal(struct store_sets *s,
                                          const struct act *act,
                                          struct problem *why);
MUST_CHECK enum status store_sets_retirement(struct store_sets *s,
                                             const struct act *act,
                                             struct problem *why);

/* Notes that a transaction with `n` births was committed. */
void store_sets_committed(struct store_sets *s, size_t n);

/* Forgets the rows of the lists whose files are gone, and a slice of the
 * batches of a removed set. */
MUST_CHECK enum status store_sets_purge(struct store_sets *s,
                                        const struct act *act,
                                        struct store_batches *batches,
                                        struct problem *why);
MUST_CHECK enum status store_sets_file_bytes(struct store_sets *s, uint32_t set,
                                             uint64_t bytes,
                                             struct problem *why);

#endif
