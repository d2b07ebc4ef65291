/*
 * log_set.h - the private struct of one set's log.
 */
#pragma once

#include "base/map.h"
#include "broker/base/client_limits.h"
#include "broker/log/batch.h"
#include "broker/log/tail.h"

struct log_set {
    struct list node;      /* in the log's list of all sets */
    struct map_node by_id; /* log.c; its hash is the id; 0: in no map */
    char name[SET_NAME_MAX + 1];
    void *owner;
    struct tail tail;

    /* The id, once the set is published; 0 before. Relaxed: it never changes
     * again, and all else that is read comes from the tail. A set that is made
     * again is another log_set, with another id: a reader of the old one can
     * only miss, and never get the new one's bytes. */
    _Atomic(uint32_t) public_id;

    uint64_t start_list; /* number of its first list; 0: 1, or it has begun */
    char creator[CLIENT_STORED_SIZE]; /* act.birth.creator */
    size_t creator_size;

    /* When its lists are full; all zero: as the log's options say. The log
     * thread's, once that runs. */
    struct list_limits limits;

    /* The log thread's own, from a post to its commit. */
    uint32_t id;           /* 0: not born */
    struct head draft;     /* the head this round leads to */
    struct batch *filling; /* the batch that takes the next entry; or NULL */
    struct batch **made;   /* this round's batches, `filling` the last */
    size_t n_made, made_capacity;
    struct list touched; /* in the round's list of sets; or alone */
};
