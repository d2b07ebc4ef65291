/*
 * archives.h - how the Change List Archive is parted.
 */
#ifndef BROKER_DOCUMENTS_ARCHIVES_H
#define BROKER_DOCUMENTS_ARCHIVES_H

#include <stdint.h>

/* How many lists a part of the archive has when `closed` lists were closed:
 * --index-lists, or 50,000 when the index would otherwise have more parts than
 * that. */
uint64_t archives_lists_in_part(uint64_t closed, uint64_t index_lists);

#endif
