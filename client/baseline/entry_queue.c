/*
 * entry_queue.c - a queue of entries of a document.
 */
#include "client/baseline/entry_queue.h"

#include <stdlib.h>

#include "base/array.h"
#include "client/source/entry_copy.h"

void
entry_queue_init(struct entry_queue *entries)
{
    *entries = (struct entry_queue){.all = NULL};
}

void
entry_queue_fini(struct entry_queue *entries)
{
    struct document_entry *copy;

    while ((copy = entry_queue_take(entries)))
        free(copy);
    free(entries->all);
    entry_queue_init(entries);
}

enum status
entry_queue_add(struct entry_queue *entries, const struct document_entry *entry)
{
    struct document_entry *copy = entry_copy_new(entry, entry_copy_size(entry));
    struct document_entry **all =
        ONE_MORE(entries->all, &entries->capacity, entries->n);

    if (all)
        entries->all = all;
    if (!copy || !all) {
        free(copy);
        return STATUS_MEMORY;
    }
    all[entries->n++] = copy;
    return STATUS_OK;
}

/* The caller takes all entries before more come: so the front is free again. */
struct document_entry *
entry_queue_take(struct entry_queue *entries)
{
    if (entries->first == entries->n) {
        entries->first = entries->n = 0;
        return NULL;
    }
    return entries->all[entries->first++];
}
