/*
 * consigned.h - the entries of a post whose content may come along with it, by
 * their locs.
 *
 *     consigned_init -> consigned_add ... -> consigned_index
 *                                               -> consigned_take ... -> _fini
 *
 * One thread at a time.
 */
#ifndef BROKER_ARCHIVE_CONSIGNED_H
#define BROKER_ARCHIVE_CONSIGNED_H

#include <stddef.h>
#include <stdint.h>

#include "broker/state/content_files.h"
#include "proto/arena.h"
#include "proto/change.h"
#include "proto/hash.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* An entry that tells of a representation. Its texts are the list's. */
struct consigned {
    uint64_t entry; /* of all entries, from 1 */
    struct slice loc;
    struct slice hash; /* told; normalised */
    uint64_t length;   /* told, or LENGTH_NONE; then what it is */
    struct slice type; /* of the part; empty: it has none, or there is none */
    struct digest digest;
    uint64_t part;  /* that brought its bytes; 0: none */
    size_t n_parts; /* at the first of a loc: parts of that loc */
    struct arriving arriving;
};

struct consigned_list {
    struct arena arena;
    struct consigned *all; /* in the order of the entries */
    size_t n, capacity;
    struct consigned **by_loc;
};

/* Its texts have at most `max` bytes. */
void consigned_init(struct consigned_list *list, size_t max);

/* Abandons what arrives. */
void consigned_fini(struct consigned_list *list);

/* Bytes of memory that it takes. */
size_t consigned_held(const struct consigned_list *list);

/* Adds entry number `entry`. STATUS_BUSY: no memory. */
MUST_CHECK enum status consigned_add(struct consigned_list *list,
                                     const struct change *change,
                                     uint64_t entry, struct problem *why);

/* There are no more. STATUS_BUSY likewise. */
MUST_CHECK enum status consigned_index(struct consigned_list *list,
                                       struct problem *why);

/* The entry that the next part of that loc belongs to; NULL: there is none. */
struct consigned *consigned_take(struct consigned_list *list, struct slice loc);

/* Keeps the media type of its part. STATUS_BUSY likewise. */
MUST_CHECK enum status consigned_set_type(struct consigned_list *list,
                                          struct consigned *e,
                                          struct slice type,
                                          struct problem *why);

#endif
