/*
 * opened.h - of what each set has in a file of its own, a few are open at a
 * time: those that were used last.
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

/* What is open of that set, NULL if nothing is; it is now the one used last. */
void *opened_find(struct opened *opened, const struct set *set);

/* It is open now; what was used longest ago is closed, if there is no room. */
void opened_add(struct opened *opened, const struct set *set, void *thing);

/* Closes what is open of that set, if anything is. */
void opened_drop(struct opened *opened, const struct set *set);

/* Closes what is open of sets that were removed: one of that name that is made
 * again has its file in the same place. */
void opened_drop_removed(struct opened *opened);

#endif
