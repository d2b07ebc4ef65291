/*
 * consigned.h - the entries of a post whose content may come along with it, by
 * their locs.
 *
 *     consigned_init -> consigned_add ... -> consigned_index
 *                                               -> consigned_take ... -> _fini
 *
 * One thread at a time.
 */
#ifndef BROKER_POSTS_CONSIGNED_H
#define BROKER_POSTS_CONSIGNED_H

#include <stddef.h>
#include <stdint.h>

#include "broker/state/content_files.h"
#include "proto/arena.h"
#include "proto/change.h"
#include "proto/digest.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* An entry that describes a representation. The list owns its texts. */
struct consigned {
    uint64_t entry; /* of all entries, from 1 */
    struct slice loc;
    struct slice hash; /* as sent; normalised */
    uint64_t length;   /* as sent, or LENGTH_NONE; then the true one */
    struct slice type; /* of the part; empty: no type, or no part */
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

/* Abandons the files that are arriving. */
void consigned_fini(struct consigned_list *list);

/* The memory of the list, in bytes. */
size_t consigned_held(const struct consigned_list *list);

/* Adds entry number `entry`. STATUS_BUSY: no memory. */
MUST_CHECK enum status consigned_add(struct consigned_list *list,
                                     const struct change *change,
                                     uint64_t entry, struct problem *why);

/* Ends the list and sorts it by loc. STATUS_BUSY likewise. */
MUST_CHECK enum status consigned_index(struct consigned_list *list,
                                       struct problem *why);

/* Returns the entry that the next part of that loc belongs to, or NULL. */
struct consigned *consigned_take(struct consigned_list *list, struct slice loc);

/* Stores the media type of the entry's part. STATUS_BUSY likewise. */
MUST_CHECK enum status consigned_set_type(struct consigned_list *list,
                                          struct consigned *e,
                                          struct slice type,
                                          struct problem *why);

#endif
