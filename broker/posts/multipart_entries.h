/*
 * multipart_entries.h - the entries of a multipart post, found by their locs:
 * their content may come along with the post.
 *
 *     _init -> _add ... -> _index -> _take ... -> _fini
 *
 * One thread at a time.
 */
#ifndef BROKER_POSTS_MULTIPART_ENTRIES_H
#define BROKER_POSTS_MULTIPART_ENTRIES_H

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
struct multipart_entry {
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

struct multipart_entries {
    struct arena arena;
    struct multipart_entry *all; /* in the order of the entries */
    size_t n, capacity;
    struct multipart_entry **by_loc;
};

/* Its texts have at most `max` bytes. */
void multipart_entries_init(struct multipart_entries *list, size_t max);

/* Abandons the files that are arriving. */
void multipart_entries_fini(struct multipart_entries *list);

/* The memory of the list, in bytes. */
size_t multipart_entries_held(const struct multipart_entries *list);

/* Adds entry number `entry`. STATUS_BUSY: no memory. */
MUST_CHECK enum status multipart_entries_add(struct multipart_entries *list,
                                             const struct change *change,
                                             uint64_t entry,
                                             struct problem *why);

/* Ends the list and sorts it by loc. STATUS_BUSY likewise. */
MUST_CHECK enum status multipart_entries_index(struct multipart_entries *list,
                                               struct problem *why);

/* Returns the entry that the next part of that loc belongs to, or NULL. */
struct multipart_entry *multipart_entries_take(struct multipart_entries *list,
                                               struct slice loc);

/* Stores the media type of the entry's part. STATUS_BUSY likewise. */
MUST_CHECK enum status
multipart_entries_set_type(struct multipart_entries *list,
                           struct multipart_entry *e, struct slice type,
                           struct problem *why);

#endif
