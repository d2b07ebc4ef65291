/*
 * entries.h - a queue of entries of a document.
 *
 * A document is read in pieces, and a piece may have more entries than the
 * reader takes at once.
 */
#ifndef CLIENT_BASELINE_ENTRIES_H
#define CLIENT_BASELINE_ENTRIES_H

#include "client/source/document.h"

struct entries {
    struct document_entry **all; /* copies (copied.h) */
    size_t first, n, capacity;   /* those from `first` to `n` wait */
};

void entries_init(struct entries *entries);
void entries_fini(struct entries *entries);

/* STATUS_MEMORY. */
MUST_CHECK enum status entries_add(struct entries *entries,
                                   const struct document_entry *entry);

/* Takes the oldest one; the caller calls free(). NULL: none. */
struct document_entry *entries_take(struct entries *entries);

#endif
