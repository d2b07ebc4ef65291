/*
 * copied.h - an entry of a document that stays when the document has gone on.
 */
#ifndef CLIENT_SOURCE_COPIED_H
#define CLIENT_SOURCE_COPIED_H

#include "client/source/document.h"

/* Bytes of memory that a copy takes. */
size_t copied_size(const struct document_entry *entry);

/* A copy of `size` bytes, copied_size of it; to be given to free(). NULL: no
 * memory. */
struct document_entry *copied_new(const struct document_entry *entry,
                                  size_t size);

#endif
