#include "broker/sets/parts.h"

#include "proto/vocab.h"

/* The index has a limit, too: where it would exceed that, its parts
 * become as large as allowed. Numbers are never used again, so those of all
 * closed lists count. */
struct parts
parts_of(uint64_t first_list, uint64_t open_list, uint64_t index_lists)
{
    uint64_t closed = open_list - 1;
    struct parts parts = {.size = closed / index_lists < DOCUMENT_ENTRIES_MAX
                                      ? index_lists
                                      : DOCUMENT_ENTRIES_MAX};

    parts.has_index = open_list - first_list > parts.size;
    return parts;
}

struct parts
parts_of_generations(uint64_t n_archived, uint64_t last, uint64_t index_lists)
{
    struct parts parts = parts_of(1, last + 1, index_lists);

    parts.has_index = n_archived > parts.size;
    return parts;
}
