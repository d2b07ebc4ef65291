/*
 * entries.h - entries of a document that wait for whoever asked for them.
 *
 * A document is read in pieces, and a piece may hold more entries than one
 * wants at this moment.
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

/* The oldest, to be given to free(); NULL: there is none. */
struct document_entry *entries_take(struct entries *entries);

#endif
