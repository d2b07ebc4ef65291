/*
 * store_queries.h - tidings.db as its readers see it.
 *
 * A few connections, each in one hand at a time; a reader holds its statement
 * for one batch or one list, no longer, so that checkpoints are not held up.
 * Any thread that may block.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/db.h"
#include "broker/log/engine.h"
#include "broker/store/segments.h"

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

/* Columns of rows, and places for them, for readers and the writer alike */

/* Of a struct list_info. */
#define LIST_COLUMNS \
    "number, after, last, from_us, until_us, bytes, before, digest, filed"
#define LIST_PLACES(list)                                                    \
    &(list)->number, &(list)->after, &(list)->last, &(list)->from_us,        \
        &(list)->until_us, &(list)->bytes, &(list)->before, &(list)->digest, \
        &(list)->is_filed

/* Of a struct generation. */
#define GENERATION_COLUMNS                                                     \
    "kind, number, after, seq, from_us, at_us, completed_us, n, parts, bytes," \
    " is_archived"
#define GENERATION_PLACES(g)                                                \
    &(g)->kind, &(g)->number, &(g)->after, &(g)->seq, &(g)->from_us,        \
        &(g)->at_us, &(g)->completed_us, &(g)->n, &(g)->parts, &(g)->bytes, \
        &(g)->is_archived

/* An order that waits (generation_is_order). It is in no archive yet. */
#define GENERATION_IS_ORDER \
    "(kind < 2 AND parts = 0 AND bytes = 0 AND due_us IS NULL)"

/* A row of entries, which are in `body`, lent, or in a segment. */
struct stored_batch {
    uint64_t first, last;
    int64_t before_us, last_us;
    struct digest before, digest;
    struct slice body;
    struct segment_place place; /* number 0: no segment */
    size_t size;                /* in the segment */
};

#define BATCH_COLUMNS \
    "first, last, before_us, last_us, before, digest, body, segment, at, size"
#define BATCH_PLACES(b)                                                    \
    &(b)->first, &(b)->last, &(b)->before_us, &(b)->last_us, &(b)->before, \
        &(b)->digest, &(b)->body, &(b)->place.number, &(b)->place.offset,  \
        &(b)->size
