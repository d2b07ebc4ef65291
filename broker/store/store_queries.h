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
#define STORE_READERS_MAX 16

struct store_readers {
    const char *path;
    atomic_size_t *forms_account;
    pthread_mutex_t mutex; /* guards the next two */
    struct reader_connection *idle[STORE_READERS_MAX];
    size_t n_idle;
    uint64_t unfiled_after; /* the set that store_readers_unfiled gave last */
};

void store_readers_init(struct store_readers *r, const char *path,
                        atomic_size_t *forms_account);
void store_readers_fini(struct store_readers *r);

/* See struct engine_ops. `header` and `marks` may be NULL. */
MUST_CHECK enum status store_readers_read(struct store_readers *r, uint32_t set,
                                          uint64_t after, struct batch **batch,
                                          struct problem *why);
MUST_CHECK enum status store_readers_lists(struct store_readers *r,
                                           uint32_t set, uint64_t number,
                                           struct list_info *lists, size_t *n,
                                           struct problem *why);
MUST_CHECK enum status store_readers_list(struct store_readers *r, uint32_t set,
                                          uint64_t number,
                                          struct list_info *info,
                                          struct buf *header,
                                          struct problem *why);
MUST_CHECK enum status store_readers_list_of(struct store_readers *r,
                                             uint32_t set, uint64_t seq,
                                             struct list_info *info,
                                             struct buf *marks,
                                             struct problem *why);
MUST_CHECK enum status store_readers_seek(struct store_readers *r, uint32_t set,
                                          const struct list_info *info,
                                          uint64_t offset,
                                          struct list_place *place,
                                          struct problem *why);
MUST_CHECK enum status store_readers_unfiled(struct store_readers *r,
                                             uint32_t *set,
                                             struct list_info *info,
                                             struct buf *header,
                                             struct problem *why);

MUST_CHECK enum status store_readers_trash(struct store_readers *r,
                                           int64_t now_us,
                                           struct engine_trash *trash,
                                           struct problem *why);

MUST_CHECK enum status store_readers_generations(struct store_readers *r,
                                                 uint32_t set,
                                                 struct generation_page *page,
                                                 struct problem *why);
MUST_CHECK enum status store_readers_due(struct store_readers *r,
                                         int64_t now_us,
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
