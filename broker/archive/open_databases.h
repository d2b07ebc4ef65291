/*
 * open_databases.h - a cache of open files, one per set: keeps the few open
 * that were used last.
 *
 * Archive thread.
 */
#ifndef BROKER_ARCHIVE_OPEN_DATABASES_H
#define BROKER_ARCHIVE_OPEN_DATABASES_H

#include <stdint.h>

#include "broker/sets/registry.h"

/* Open at most. */
#define OPEN_DATABASES_MAX 16

struct open_databases {
    void (*close)(void *thing);
    uint64_t n_uses;

    struct open_databases_place {
        const struct set *set; /* NULL: free */
        void *thing;
        uint64_t used; /* the larger, the later */
    } places[OPEN_DATABASES_MAX];
};

void open_databases_init(struct open_databases *opened,
                         void (*close)(void *thing));
void open_databases_fini(struct open_databases *opened); /* closes all */

/* Returns the open thing of that set, or NULL, and marks it as used last. */
void *open_databases_find(struct open_databases *opened, const struct set *set);

/* Adds an open thing; if the cache is full, closes the one used longest ago. */
void open_databases_add(struct open_databases *opened, const struct set *set,
                        void *thing);

/* Closes the open thing of that set, if any. */
void open_databases_drop(struct open_databases *opened, const struct set *set);

/* Closes the things of removed sets: a new set of the same name has its file in
 * the same place. */
void open_databases_drop_removed(struct open_databases *opened);

#endif
