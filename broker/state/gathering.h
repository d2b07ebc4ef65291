/*
 * gathering.h - changes that are to be folded together: of each resource the
 * last one counts.
 *
 * Five million resources do not fit into memory, and each has its own page of
 * the database, nearly. So many changes are gathered and then brought into the
 * order of the database: a way through its keys, one through its rows, and back
 * through the keys, each page read and written once.
 *
 *     gathering_add ... -> gathering_by_key -> (ids are looked up)
 *                       -> gathering_by_id  -> (rows are written)
 *                       -> gathering_by_key -> (keys are written)
 */
#ifndef BROKER_STATE_GATHERING_H
#define BROKER_STATE_GATHERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/slice.h"
#include "proto/status.h"

/* What resources are known by: the first bytes of SHA-256 of the loc, enough
 * for nobody to find two that are alike. */
#define RESOURCE_KEY_SIZE 16

struct resource_key {
    uint8_t bytes[RESOURCE_KEY_SIZE];
};

void resource_key(struct resource_key *key, struct slice loc);

/* The last change of a resource. */
struct gathered {
    struct resource_key key;
    int64_t id;         /* of its row, from 1; 0: it has none */
    bool is_new;        /* it was given that id now */
    uint64_t first_seq; /* of its first change here */
    uint64_t seq;       /* of its last */
    size_t entry;       /* where its entry begins */
    size_t size;        /* of it; 0: deleted */
};

struct gathering {
    struct gathered *rows;
    size_t n, capacity;
    struct buf entries;
};

/* Entries of at most `bytes` in all. */
void gathering_init(struct gathering *g, size_t bytes);

/* Empties it, and gives its memory back. */
void gathering_clear(struct gathering *g);

/* Adds entry `seq`, a stamped fragment whose stamp is at `stamp`. */
MUST_CHECK enum status gathering_add(struct gathering *g, struct slice fragment,
                                     uint32_t stamp, uint64_t seq);

/* Leaves one row of each resource, by key. */
void gathering_by_key(struct gathering *g);

/* By id, those without one last, in the order in which they came. */
void gathering_by_id(struct gathering *g);

struct slice gathering_entry(const struct gathering *g,
                             const struct gathered *row);

#endif
