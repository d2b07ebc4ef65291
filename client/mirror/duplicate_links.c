/*
 * duplicate_links.c - reads and writes the links `duplicate` of a resource.
 */
#include "client/mirror/duplicate_links.h"

#include "proto/change.h"
#include "proto/digest.h"

/* True if one of the words of a relation is "duplicate". */
static bool
is_duplicate(const char *rel)
{
    struct slice rest = slice_of(rel);

    while (rest.size > 0)
        if (slice_is(slice_take(&rest, ' '), "duplicate"))
            return true;
    return false;
}

void
duplicate_links_write(struct buf *to, const struct td_change *change)
{
    for (size_t i = 0; i < change->n_links; i++) {
        const struct td_link *link = &change->links[i];

        /* With white space it is no URI, and would break the line format. */
        if (!link->rel || !link->href || !is_duplicate(link->rel) ||
            link->href[strcspn(link->href, " \n")])
            continue;
        buf_add_number(to, link->pri);
        if (link->length == UINT64_MAX)
            buf_add_text(to, " -");
        else
            buf_add_format(to, " %llu", (unsigned long long)link->length);
        buf_add_format(to, " %s ", link->href);
        /* A digest of an unknown algorithm adds nothing. */
        if (link->hash &&
            hash_normalise(to, slice_of(link->hash), NULL) == STATUS_MEMORY)
            return;
        buf_add_text(to, "\n");
    }
}

static uint64_t
number_of(struct slice text)
{
    uint64_t n = 0;

    for (size_t i = 0; i < text.size; i++)
        n = n * 10 + (uint64_t)(text.data[i] - '0');
    return n;
}

bool
duplicate_links_next(struct slice *rest, struct downloads_link *link)
{
    struct slice line = slice_take(rest, '\n');
    struct slice length;

    if (line.size == 0)
        return false;
    link->pri = (uint32_t)number_of(slice_take(&line, ' '));
    length = slice_take(&line, ' ');
    link->length = slice_is(length, "-") ? LENGTH_NONE : number_of(length);
    link->href = slice_take(&line, ' ');
    link->hash = line;
    return true;
}
