/*
 * parts.h - divides an archive of a set into parts: one document while
 * it has few lists, else an index of parts with so many lists each.
 *
 *   1 ... 1000 | 1001 ... 2000 | 2001 ...      parts begin at 1, size + 1, ...
 */
#ifndef BROKER_SETS_PARTS_H
#define BROKER_SETS_PARTS_H

#include <stdbool.h>
#include <stdint.h>

struct parts {
    uint64_t size; /* lists of a part */
    bool has_index;
};

/* The parts of the archive with the lists `first_list` to `open_list` - 1, with
 * --index-lists `index_lists`. */
struct parts parts_of(uint64_t first_list, uint64_t open_list,
                      uint64_t index_lists);

/* The parts of an archive of generations (log/head.h): `n_archived` of those
 * numbered up to `last`. A part covers so many numbers, perhaps with few
 * generations.
 */
struct parts parts_of_generations(uint64_t n_archived, uint64_t last,
                                  uint64_t index_lists);

/* The first number of the part that has list `number`. */
static inline uint64_t
parts_begin(const struct parts *parts, uint64_t number)
{
    return (number - 1) / parts->size * parts->size + 1;
}

#endif
