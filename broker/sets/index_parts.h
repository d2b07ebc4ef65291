/*
 * index_parts.h - divides an archive of a set into parts: one document
 * while it has few lists, else an index of parts with so many lists each.
 *
 *   1 ... 1000 | 1001 ... 2000 | 2001 ...      parts begin at 1, size + 1, ...
 */
#pragma once

#include "proto/resourcesync/vocab.h"

struct parts {
    uint64_t size; /* lists of a part */
    bool has_index;
};

/* The parts of the archive with the lists `first_list` to `open_list` - 1, with
 * --index-lists `index_lists`. The index has a limit, too: where it
 * would exceed that, its parts become as large as allowed. Numbers are never
 * used again, so those of all closed lists count. */
static inline struct parts
parts_of(uint64_t first_list, uint64_t open_list, uint64_t index_lists)
{
    uint64_t closed = open_list - 1;
    struct parts parts = {.size = closed / index_lists < DOCUMENT_ENTRIES_MAX
                                      ? index_lists
                                      : DOCUMENT_ENTRIES_MAX};

    parts.has_index = open_list - first_list > parts.size;
    return parts;
}

/* The parts of an archive of generations (log/head.h): `n_archived` of those
 * numbered up to `last`. A part covers so many numbers, perhaps with few
 * generations. */
static inline struct parts
parts_of_generations(uint64_t n_archived, uint64_t last, uint64_t index_lists)
{
    struct parts parts = parts_of(1, last + 1, index_lists);

    parts.has_index = n_archived > parts.size;
    return parts;
}

/* The first number of the part that has list `number`. */
static inline uint64_t
parts_begin(const struct parts *parts, uint64_t number)
{
    return (number - 1) / parts->size * parts->size + 1;
}

/* True if `first` to `last` may be a part: one of this size, at most `max`,
 * begins there. */
static inline bool
parts_are_at(uint64_t first, uint64_t last, uint64_t max)
{
    return last >= first && last - first < max &&
           (first - 1) % (last - first + 1) == 0;
}
