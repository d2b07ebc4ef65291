#include "broker/sets/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void
table_fini(struct table *table)
{
    free(table->rows);
}

size_t
table_place(const struct table *table, struct slice name)
{
    size_t low = 0, high = table->n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (slice_compare(slice_of(table->rows[middle].name), name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void *
table_find(const struct table *table, struct slice name)
{
    size_t place = table_place(table, name);

    if (place < table->n && slice_is(name, table->rows[place].name))
        return table->rows[place].thing;
    return NULL;
}

enum status
table_add(struct table *table, const char *name, void *thing)
{
    size_t place = table_place(table, slice_of(name));

    if (!ONE_MORE(table->rows, &table->capacity, table->n))
        return STATUS_MEMORY;
    memmove(&table->rows[place + 1], &table->rows[place],
            (table->n - place) * sizeof(*table->rows));
    table->rows[place] = (struct table_row){name, thing};
    table->n++;
    return STATUS_OK;
}

void
table_remove(struct table *table, const char *name)
{
    size_t place = table_place(table, slice_of(name));

    if (place == table->n || strcmp(table->rows[place].name, name) != 0)
        return;
    memmove(&table->rows[place], &table->rows[place + 1],
            (--table->n - place) * sizeof(*table->rows));
}
