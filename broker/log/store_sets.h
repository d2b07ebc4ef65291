/*
 * store_sets.h - the sets in tidings.db: a row each, with what is rewritten
 * seldom: settings, sizes. A commit of entries touches no row of a set.
 *
 * The log thread's, on its connection.
 */
#ifndef BROKER_LOG_STORE_SETS_H
#define BROKER_LOG_STORE_SETS_H

#include "broker/base/db.h"
#include "broker/log/engine.h"
#include "proto/problem.h"
#include "proto/status.h"

/* Steps of the database's versions (store.c has them all, in order). */
#define STORE_SETS_STEP_SETTINGS                                         \
    "ALTER TABLE sets ADD COLUMN settings TEXT NOT NULL DEFAULT '';"     \
    "ALTER TABLE sets ADD COLUMN changed_us INTEGER NOT NULL DEFAULT 0;" \
    "ALTER TABLE sets ADD COLUMN file_bytes INTEGER NOT NULL DEFAULT 0;"

enum { STORE_SETS_STATEMENTS = 3 };

struct store_sets {
    struct db *db; /* lent */
    sqlite3_stmt *statements[STORE_SETS_STATEMENTS];
};

/* Prepares what is needed; `db` has all steps. */
MUST_CHECK enum status store_sets_init(struct store_sets *s, struct db *db,
                                       struct problem *why);
void store_sets_fini(struct store_sets *s); /* harmless before it */

/* Tells every set with its head: see struct engine_ops. */
MUST_CHECK enum status store_sets_load(struct store_sets *s,
                                       engine_set_fn *on_set, void *user,
                                       struct problem *why);

/* Parts of a commit, within its transaction. */
MUST_CHECK enum status store_sets_birth(struct store_sets *s,
                                        const struct engine_birth *birth,
                                        struct problem *why);
MUST_CHECK enum status
store_sets_settings(struct store_sets *s,
                    const struct engine_settings *settings,
                    struct problem *why);
MUST_CHECK enum status store_sets_file_bytes(struct store_sets *s, uint32_t set,
                                             uint64_t bytes,
                                             struct problem *why);

#endif
