/*
 * dirty.h - the paths of which something was heard and that were not looked at
 * yet, each once, in the order in which it was first heard of.
 *
 * Bounded: what does not fit is found by comparing all of the disk with the
 * ledger, so when it is full its owner empties it and does that.
 */
#ifndef CLIENT_WATCH_DIRTY_H
#define CLIENT_WATCH_DIRTY_H

#include <stdbool.h>
#include <stddef.h>

#include "client/watch/locs.h"

/* Bytes of paths and what they cost: some 100,000 paths. */
#define DIRTY_BYTES_MAX ((size_t)16 * 1024 * 1024)

struct dirty_path;

struct dirty {
    void *by_path; /* tsearch */
    struct dirty_path *first;
    struct dirty_path **end; /* where the next one is hung in */
    size_t bytes;
};

void dirty_init(struct dirty *dirty);
void dirty_clear(struct dirty *dirty);

/* False: full, or no memory; it was not added. */
bool dirty_add(struct dirty *dirty, const char *path);

/* Takes the first one out; false: there is none. */
bool dirty_take(struct dirty *dirty, char path[LOCS_PATH_MAX + 1]);

#endif
