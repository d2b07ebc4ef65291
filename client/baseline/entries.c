/*
 * entries.c - a queue of entries of a document.
 */
#include "client/baseline/entries.h"

#include <stdlib.h>

#include "client/source/copied.h"

void
entries_init(struct entries *entries)
{
    *entries = (struct entries){.all = NULL};
}

void
entries_fini(struct entries *entries)
{
    struct document_entry *copy;

    while ((copy = entries_take(entries)))
        free(copy);
    free(entries->all);
    entries_init(entries);
}

static bool
has_room(struct entries *entries)
{
    size_t capacity = entries->capacity ? 2 * entries->capacity : 64;
    struct document_entry **more;

    if (entries->n < entries->capacity)
        return true;
    more = realloc(entries->all, capacity * sizeof(*more));
    if (!more)
        return false;
    entries->all = more;
    entries->capacity = capacity;
    return true;
}

enum status
entries_add(struct entries *entries, const struct document_entry *entry)
{
    struct document_entry *copy = copied_new(entry, copied_size(entry));

    if (!copy || !has_room(entries)) {
        free(copy);
        return STATUS_MEMORY;
    }
    entries->all[entries->n++] = copy;
    return STATUS_OK;
}

/* The caller takes all entries before more come: so the front is free again. */
struct document_entry *
entries_take(struct entries *entries)
{
    if (entries->first == entries->n) {
        entries->first = entries->n = 0;
        return NULL;
    }
    return entries->all[entries->first++];
}
