/*
 * store_queries.h - tidings.db as its readers see it.
 *
 * A few connections, each in one hand at a time; a reader holds its statement
 * for one batch or one list, no longer, so that checkpoints are not held up.
 * Any thread that may block.
 */
#ifndef BROKER_STORE_STORE_QUERIES_H
#define BROKER_STORE_STORE_QUERIES_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/db.h"
#include "broker/log/batch.h"
#include "broker/log/engine.h"
#include "broker/log/head.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/status.h"

/* Connections kept for the next reader: as many as the worker pool has threads,
 * and more. */
#define STORE_QUERIES_MAX 16

/* The first member of struct store. */
struct store_queries {
    struct engine engine;
    const char *path;      /* of tidings.db */
    atomic_size_t *forms;  /* account of new batches */
    pthread_mutex_t mutex; /* guards the next two */
    struct db *idle[STORE_QUERIES_MAX];
    size_t n_idle;
    uint32_t unfiled_after; /* the set that store_queries_unfiled gave last */
};

/* Both pointers are lent. */
void store_queries_init(struct store_queries *s, const char *path,
                        atomic_size_t *forms);
void store_queries_fini(struct store_queries *s);

/* Operations of struct engine_ops. `header` and `marks` may be NULL. */
MUST_CHECK enum status store_queries_read(struct engine *engine, uint32_t set,
                                          uint64_t after, struct batch **batch,
                                          struct problem *why);
MUST_CHECK enum status store_queries_lists(struct engine *engine, uint32_t set,
                                           uint64_t number,
                                           struct list_info *lists, size_t *n,
                                           struct problem *why);
MUST_CHECK enum status store_queries_list(struct engine *engine, uint32_t set,
                                          uint64_t number,
                                          struct list_info *info,
                                          struct buf *header,
                                          struct problem *why);
MUST_CHECK enum status store_queries_list_of(struct engine *engine,
                                             uint32_t set, uint64_t seq,
                                             struct list_info *info,
                                             struct buf *marks,
                                             struct problem *why);
MUST_CHECK enum status store_queries_seek(struct engine *engine, uint32_t set,
                                          const struct list_info *info,
                                          uint64_t offset,
                                          struct list_place *place,
                                          struct problem *why);
MUST_CHECK enum status store_queries_unfiled(struct engine *engine,
                                             uint32_t *set,
                                             struct list_info *info,
                                             struct buf *header,
                                             struct problem *why);
MUST_CHECK enum status store_queries_trash(struct engine *engine,
                                           int64_t now_us,
                                           struct engine_trash *trash,
                                           struct problem *why);
MUST_CHECK enum status store_queries_generations(struct engine *engine,
                                                 uint32_t set,
                                                 struct generation_page *page,
                                                 struct problem *why);
MUST_CHECK enum status store_queries_due(struct engine *engine, int64_t now_us,
                                         struct due_generation *due,
                                         struct problem *why);

/* Columns of rows, for readers and the writer alike */

/* The columns that store_column_list reads. */
#define LIST_COLUMNS \
    "number, after, last, from_us, until_us, bytes, before, digest, filed"

struct list_info store_column_list(sqlite3_stmt *s);

/* The columns that store_column_generation reads. */
#define GENERATION_COLUMNS                                                     \
    "kind, number, after, seq, from_us, at_us, completed_us, n, parts, bytes," \
    " is_archived"

struct generation store_column_generation(sqlite3_stmt *s);
struct digest store_column_digest(sqlite3_stmt *s, int n);
uint64_t store_column_u64(sqlite3_stmt *s, int n);
void store_bind_u64(sqlite3_stmt *s, int n, uint64_t number);

/* Prepares n statements. */
MUST_CHECK enum status store_prepare(struct db *db, sqlite3_stmt **statements,
                                     const char *const *sql, int n,
                                     struct problem *why);
void store_finalize(sqlite3_stmt **statements, int n);

#endif
