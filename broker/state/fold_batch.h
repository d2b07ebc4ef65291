/*
 * fold_batch.h - changes to be folded together: the last one of each resource
 * counts.
 *
 * Five million resources do not fit into memory, and nearly each is on another
 * page of the database. So many changes are gathered, and then sorted in the
 * order of the database: one way through its keys, one through its rows, and
 * one back through the keys. Each page is read and written once.
 *
 *     fold_batch_add ... -> fold_batch_by_key -> (ids are looked up)
 *                       -> fold_batch_by_id  -> (rows are written)
 *                       -> fold_batch_by_key -> (keys are written)
 */
#ifndef BROKER_STATE_FOLD_BATCH_H
#define BROKER_STATE_FOLD_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/slice.h"
#include "proto/status.h"

/* The key of a resource: the first bytes of the SHA-256 of its loc, enough that
 * two equal keys cannot be found. */
#define RESOURCE_KEY_SIZE 16

struct resource_key {
    uint8_t bytes[RESOURCE_KEY_SIZE];
};

void resource_key(struct resource_key *key, struct slice loc);

/* The last change of a resource. */
struct gathered {
    struct resource_key key;
    int64_t id;         /* of its row, from 1; 0: none */
    bool is_new;        /* it got its id now */
    uint64_t first_seq; /* of its first change here */
    uint64_t seq;       /* of its last */
    size_t entry;       /* the offset of its entry */
    size_t size;        /* of the entry; 0: deleted */
};

struct fold_batch {
    struct gathered *rows;
    size_t n, capacity;
    struct buf entries;
};

/* Prepares for entries of at most `bytes` in all. */
void fold_batch_init(struct fold_batch *g, size_t bytes);

/* Empties it, and frees its memory. */
void fold_batch_clear(struct fold_batch *g);

/* Adds entry `seq`, a stamped fragment whose stamp is at `stamp`. */
MUST_CHECK enum status fold_batch_add(struct fold_batch *g,
                                      struct slice fragment, uint32_t stamp,
                                      uint64_t seq);

/* Sorts by key, and leaves only the last row of each resource. */
void fold_batch_by_key(struct fold_batch *g);

/* Sorts by id; rows without one come last, in the order of their arrival. */
void fold_batch_by_id(struct fold_batch *g);

struct slice fold_batch_entry(const struct fold_batch *g,
                              const struct gathered *row);

#endif
