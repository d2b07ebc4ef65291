/*
 * table.h - things by their names, in the order of these.
 *
 * The names and the things are the owner's, and stay where they are while they
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

/* The memory of the table itself. */
void table_fini(struct table *table);

/* The thing of that name; NULL: there is none. */
void *table_find(const struct table *table, struct slice name);

/* The number of the first row whose name is not before `name`; n: none is. */
size_t table_place(const struct table *table, struct slice name);

/* Adds a thing whose name is not there yet. */
MUST_CHECK enum status table_add(struct table *table, const char *name,
                                 void *thing);

/* Takes out the thing of that name, if it is there. */
void table_remove(struct table *table, const char *name);

#endif
