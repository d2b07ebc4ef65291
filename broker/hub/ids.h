/*
 * ids.h - things by their numbers, in order of them.
 *
 * Numbers only grow, so that what is new stands at the end. What is removed
 * leaves an empty slot; they are closed up when half are empty. Looking one up,
 * also the first one behind a number, is a binary search: a page of a long list
 * costs what the page has, wherever it begins.
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_IDS_H
#define BROKER_HUB_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"

/* All zero: empty. */
struct ids {
    struct id_slot {
        uint64_t id;
        void *thing; /* NULL: it was removed */
    } * slots;

    size_t n_slots, capacity;
    size_t n; /* things */
};

/* `id` is greater than all that were added. STATUS_MEMORY. */
MUST_CHECK enum status ids_add(struct ids *ids, uint64_t id, void *thing);
void ids_remove(struct ids *ids, uint64_t id); /* also one that is not there */

void *ids_find(const struct ids *ids, uint64_t id); /* or NULL */

/* The first one with a greater number, or NULL. `after` 0: the first. */
void *ids_next(const struct ids *ids, uint64_t after);

void ids_fini(struct ids *ids);

#endif
