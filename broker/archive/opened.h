/*
 * opened.h - a cache of open files, one per set: keeps the few open that were
 * used last.
 *
 * Archive thread.
 */
#ifndef BROKER_ARCHIVE_OPENED_H
#define BROKER_ARCHIVE_OPENED_H

#include <stdint.h>

#include "broker/sets/registry.h"

/* Open at most. */
#define OPENED_MAX 16

struct opened {
    void (*close)(void *thing);
    uint64_t n_uses;

    struct opened_place {
        const struct set *set; /* NULL: free */
        void *thing;
        uint64_t used; /* the larger, the later */
    } places[OPENED_MAX];
};

void opened_init(struct opened *opened, void (*close)(void *thing));
void opened_fini(struct opened *opened); /* closes all */

/* Returns the open thing of that set, or NULL, and marks it as used last. */
void *opened_find(struct opened *opened, const struct set *set);

/* Adds an open thing; if the cache is full, closes the one used longest ago. */
void opened_add(struct opened *opened, const struct set *set, void *thing);

/* Closes the open thing of that set, if any. */
void opened_drop(struct opened *opened, const struct set *set);

/* Closes the things of removed sets: a new set of the same name has its file in
 * the same place. */
void opened_drop_removed(struct opened *opened);

#endif
