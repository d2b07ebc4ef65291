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
#include "broker/store/segments.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/status.h"

/* Connections kept for the next reader: as many as the worker pool has threads,
 * and more. */
#define STORE_QUERIES_MAX 16

/* The first member of struct store. */
struct store_queries {
    struct engine engine;
    const char *path; /* of tidings.db */
    struct segments *segments;
    atomic_size_t *forms;  /* account of new batches */
    pthread_mutex_t mutex; /* guards the next two */
    struct db *idle[STORE_QUERIES_MAX];
    size_t n_idle;
    uint32_t unfiled_after; /* the set that find_unfiled gave last */
};

/* All pointers are lent. */
void store_queries_init(struct store_queries *s, const char *path,
                        struct segments *segments, atomic_size_t *forms);
void store_queries_fini(struct store_queries *s);

/* Its operations; the writer (store.c) has the others. */
extern const struct engine_ops store_queries_ops;

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

/* An order that waits (generation_is_order). It is in no archive yet. */
#define GENERATION_IS_ORDER "(kind = 0 AND parts = 0 AND due_us IS NULL)"

struct digest store_column_digest(sqlite3_stmt *s, int n);
uint64_t store_column_u64(sqlite3_stmt *s, int n);

/* A value for a parameter of a statement; a text and bytes are lent. */
struct store_value {
    enum { STORE_NUMBER, STORE_TEXT, STORE_BYTES } type;

    int64_t number;
    struct slice bytes;
};

static inline struct store_value
store_i64(int64_t number)
{
    return (struct store_value){STORE_NUMBER, number, {NULL, 0}};
}

static inline struct store_value
store_u64(uint64_t number)
{
    return store_i64((int64_t)number);
}

static inline struct store_value
store_text(struct slice text)
{
    return (struct store_value){STORE_TEXT, 0, text};
}

static inline struct store_value
store_bytes(struct slice bytes)
{
    return (struct store_value){STORE_BYTES, 0, bytes};
}

static inline struct store_value
store_digest(const struct digest *digest)
{
    return store_bytes(
        (struct slice){(const char *)digest->bytes, DIGEST_SIZE});
}

/* Binds a value to each parameter, the first to ?1. */
void store_bind(sqlite3_stmt *s, const struct store_value *values);

#endif
