/*
 * dirty.h - the paths that had an event and that the watch still has to look
 * at: each once, in the order of their first events.
 *
 * Bounded: when it is full, its owner empties it and compares the whole disk
 * with the ledger, which finds the rest.
 */
#ifndef CLIENT_WATCH_DIRTY_H
#define CLIENT_WATCH_DIRTY_H

#include <stdbool.h>
#include <stddef.h>

#include "client/watch/locs.h"

/* Bytes of paths, overhead included: some 100,000 paths. */
#define DIRTY_BYTES_MAX ((size_t)16 * 1024 * 1024)

struct dirty_path;

struct dirty {
    void *by_path; /* tsearch */
    struct dirty_path *first;
    struct dirty_path **end; /* link for the next one */
    size_t bytes;
};

void dirty_init(struct dirty *dirty);
void dirty_clear(struct dirty *dirty);

/* False: full, or no memory; the path was not added. */
bool dirty_add(struct dirty *dirty, const char *path);

/* Takes the first one out; false: there is none. */
bool dirty_take(struct dirty *dirty, char path[LOCS_PATH_MAX + 1]);

#endif
