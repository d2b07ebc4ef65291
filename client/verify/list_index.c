/*
 * list_index.c - the lists that an archive or index names.
 */
#include "client/verify/list_index.h"

#include <stdlib.h>

void
list_index_fini(struct list_index *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->each[i].loc);
    free(names->each);
}

enum status
list_index_add(struct list_index *names, const struct verify_entry *entry)
{
    struct named *named;

    if (names->n == names->capacity) {
        size_t capacity = names->n ? names->n * 2 : 64;
        struct named *more =
            realloc(names->each, capacity * sizeof(names->each[0]));

        if (!more)
            return STATUS_MEMORY;
        names->each = more;
        names->capacity = capacity;
    }
    named = &names->each[names->n];
    *named = (struct named){.loc = slice_dup(entry->loc),
                            .has_digest = entry->has_digest,
                            .digest = entry->digest};
    if (!named->loc)
        return STATUS_MEMORY;
    names->n++;
    return STATUS_OK;
}

/* Documents name the lists in the same order: begins at the next one. */
struct named *
list_index_find(struct list_index *names, struct slice loc)
{
    for (size_t i = 0; i < names->n; i++) {
        size_t at = (names->next + i) % names->n;

        if (slice_is(loc, names->each[at].loc)) {
            names->next = at + 1;
            return &names->each[at];
        }
    }
    return NULL;
}

void
list_index_cut(struct list_index *names, size_t n)
{
    while (names->n > n)
        free(names->each[--names->n].loc);
}
