/*
 * store_generations.h - generations in tidings.db: a row each, until its files
 * are gone.
 *
 * The log thread's, on its connection.
 */
#ifndef BROKER_STORE_STORE_GENERATIONS_H
#define BROKER_STORE_STORE_GENERATIONS_H

#include "base/db.h"
#include "broker/log/engine.h"
#include "proto/problem.h"
#include "proto/status.h"

/* A step of the database's versions (store.c). due_us NULL: the generation is
 * current or archived. The name is the set's: files outlive a set. */
#define STORE_GENERATIONS_STEP                                               \
    "CREATE TABLE generations(id INTEGER PRIMARY KEY, set_id INTEGER NOT "   \
    "NULL,"                                                                  \
    " name TEXT NOT NULL, kind INTEGER NOT NULL, number INTEGER NOT NULL,"   \
    " after INTEGER NOT NULL, seq INTEGER NOT NULL,"                         \
    " from_us INTEGER NOT NULL, at_us INTEGER NOT NULL,"                     \
    " completed_us INTEGER NOT NULL,"                                        \
    " n INTEGER NOT NULL, parts INTEGER NOT NULL, bytes INTEGER NOT NULL,"   \
    " is_archived INTEGER NOT NULL, due_us INTEGER);"                        \
    "CREATE UNIQUE INDEX generations_by_number"                              \
    " ON generations(set_id, kind, number);"                                 \
    "CREATE INDEX generations_archived ON generations(set_id, kind, number)" \
    " WHERE is_archived;"                                                    \
    "CREATE INDEX generations_by_due ON generations(due_us)"                 \
    " WHERE due_us IS NOT NULL;"

enum { STORE_GENERATIONS_STATEMENTS = 7 };

struct store_generations {
    struct db *db; /* lent */
    sqlite3_stmt *statements[STORE_GENERATIONS_STATEMENTS];
};

/* Prepares its statements; `db` has all steps. */
MUST_CHECK enum status store_generations_init(struct store_generations *s,
                                              struct db *db,
                                              struct problem *why);
void store_generations_fini(struct store_generations *s);

/* Loads the generations of a set, of each kind, into `to`, which
 * head_number_lists has begun. */
MUST_CHECK enum status
store_generations_load(struct store_generations *s, uint32_t set,
                       struct generations to[GENERATION_KINDS],
                       struct problem *why);

/* Each applies an act of its kind, within the transaction of a commit; the last
 * one applies a removal to the generations of the set. */
MUST_CHECK enum status store_generations_switch(struct store_generations *s,
                                                const struct act *act,
                                                struct problem *why);
MUST_CHECK enum status store_generations_unarchive(struct store_generations *s,
                                                   const struct act *act,
                                                   struct problem *why);
MUST_CHECK enum status store_generations_swept(struct store_generations *s,
                                               const struct act *act,
                                               struct problem *why);
MUST_CHECK enum status store_generations_removal(struct store_generations *s,
                                                 const struct act *act,
                                                 struct problem *why);

#endif
