/*
 * entry_copy.h - copies of entries that outlive their document.
 */
#pragma once

#include "client/source/document.h"

/* The size of a copy in bytes. */
size_t entry_copy_size(const struct document_entry *entry);

/* Copies the entry; `size` is its entry_copy_size. The caller calls free().
 * NULL: no memory. */
struct document_entry *entry_copy_new(const struct document_entry *entry,
                                      size_t size);

/*
 * A queue of entries of a document.
 *
 * A document is read in pieces, and a piece may have more entries than the
 * reader takes at once.
 */

struct entry_queue {
    struct buf all; /* struct document_entry *: copies (entry_copy.h) */
    size_t first;   /* those from there on wait */
};

void entry_queue_init(struct entry_queue *entries);
void entry_queue_fini(struct entry_queue *entries);

/* STATUS_MEMORY. */
MUST_CHECK enum status entry_queue_add(struct entry_queue *entries,
                                       const struct document_entry *entry);

/* Takes the oldest one; the caller calls free(). NULL: none. */
struct document_entry *entry_queue_take(struct entry_queue *entries);
