/*
 * entry_queue.c - a queue of entries of a document.
 */
#include "client/baseline/entry_queue.h"

#include <stdlib.h>

#include "client/source/entry_copy.h"

void
entry_queue_init(struct entry_queue *entries)
{
    entries->first = 0;
    buf_init(&entries->all, SIZE_MAX / 2);
}

void
entry_queue_fini(struct entry_queue *entries)
{
    struct document_entry *copy;

    while ((copy = entry_queue_take(entries)))
        free(copy);
    buf_fini(&entries->all);
}

enum status
entry_queue_add(struct entry_queue *entries, const struct document_entry *entry)
{
    struct document_entry *copy = entry_copy_new(entry, entry_copy_size(entry));

    if (copy)
        buf_add(&entries->all, &copy, sizeof(copy));
    if (copy && !entries->all.failed)
        return STATUS_OK;
    free(copy);
    return STATUS_MEMORY;
}

/* The caller takes all entries before more come: so the front is free again. */
struct document_entry *
entry_queue_take(struct entry_queue *entries)
{
    struct document_entry **all = (void *)entries->all.data;

    if (entries->first * sizeof(*all) < entries->all.size)
        return all[entries->first++];
    entries->first = 0;
    buf_clear(&entries->all);
    return NULL;
}
