/*
 * table.h - a table of things, in the order of their names.
 *
 * The owner keeps the names and the things, and must not move them while they
 * are in a table. Not locked.
 */
#ifndef BROKER_SETS_TABLE_H
#define BROKER_SETS_TABLE_H

#include <stddef.h>

#include "proto/slice.h"
#include "proto/status.h"

/* All zero: empty. */
struct table {
    struct table_row {
        const char *name;
        void *thing;
    } * rows; /* ordered by name */

    size_t n, capacity;
};

/* Frees the table itself. */
void table_fini(struct table *table);

/* Returns the thing of that name, or NULL. */
void *table_find(const struct table *table, struct slice name);

/* Returns the number of the first row whose name is not before `name`; n:
 * none. */
size_t table_place(const struct table *table, struct slice name);

/* Adds a thing with a new name. */
MUST_CHECK enum status table_add(struct table *table, const char *name,
                                 void *thing);

/* Removes the thing of that name, if any. */
void table_remove(struct table *table, const char *name);

#endif
