/*
 * entry_copy.h - copies of entries that outlive their document.
 */
#ifndef CLIENT_SOURCE_ENTRY_COPY_H
#define CLIENT_SOURCE_ENTRY_COPY_H

#include "client/source/document.h"

/* The size of a copy in bytes. */
size_t entry_copy_size(const struct document_entry *entry);

/* Copies the entry; `size` is its entry_copy_size. The caller calls free().
 * NULL: no memory. */
struct document_entry *entry_copy_new(const struct document_entry *entry,
                                      size_t size);

#endif
