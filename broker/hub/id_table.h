/*
 * id_table.h - things by their numbers, in ascending order.
 *
 * Numbers only grow, so new things are added at the end. A removed thing leaves
 * an empty slot; when half of the slots are empty they are closed up. A
 * look-up, also of the first thing behind a number, is a binary search: a page
 * of a long list costs as much as the page holds, wherever it begins. A walk
 * goes on where it was, without a search.
 *
 * The delivery thread's.
 */
#pragma once

#include "proto/c.h"
#include "proto/status.h"

/* All zero: empty. */
struct id_table {
    struct id_slot {
        uint64_t id;
        void *thing; /* NULL: it was removed */
    } * slots;

    size_t n_slots, capacity;
    size_t n;     /* things */
    size_t place; /* the slot behind the last thing of id_table_next */
};

/* Adds a thing. `id` must be greater than all earlier ones. STATUS_MEMORY. */
MUST_CHECK enum status id_table_add(struct id_table *ids, uint64_t id,
                                    void *thing);
void id_table_remove(struct id_table *ids,
                     uint64_t id); /* an unknown id is allowed */

void *id_table_find(const struct id_table *ids, uint64_t id); /* or NULL */

/* Returns the first thing with a greater number, or NULL. `after` 0: the
 * first. */
void *id_table_next(struct id_table *ids, uint64_t after);

void id_table_fini(struct id_table *ids);
