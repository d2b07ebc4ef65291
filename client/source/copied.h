/*
 * copied.h - copies of entries that outlive their document.
 */
#ifndef CLIENT_SOURCE_COPIED_H
#define CLIENT_SOURCE_COPIED_H

#include "client/source/document.h"

/* The size of a copy in bytes. */
size_t copied_size(const struct document_entry *entry);

/* Copies the entry; `size` is its copied_size. The caller calls free(). NULL:
 * no memory. */
struct document_entry *copied_new(const struct document_entry *entry,
                                  size_t size);

#endif
