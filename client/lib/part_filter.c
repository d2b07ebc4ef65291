#include "client/lib/part_filter.h"

#include "proto/resourcesync/fragment.h"

enum status
part_filter_read(struct filter *filter, const char *text, struct problem *why)
{
    struct slice rest = slice_of(text);

    if (slice_is(rest, "all"))
        rest.size = 0;
    if (filter_read(filter, rest, why))
        return why->rc = STATUS_INVALID;
    while (rest.size) {
        struct slice value = slice_take(&rest, '&');

        if (!filter_is_name(slice_take(&value, '=')) ||
            filter->n[FILTER_CHANGE] || filter->n[FILTER_DATA])
            return problem(why, STATUS_INVALID,
                           "no filter of tag=, prefix= and type=: %.1000s",
                           text);
    }
    return STATUS_OK;
}

bool
part_filter_passes(const struct filter *filter, const struct td_change *c,
                   struct buf *scratch)
{
    const struct change change = {.loc = slice_of(c->loc),
                                  .type = slice_of(c->type),
                                  .tags = slice_of(c->tags)};
    struct fragment fragment;

    buf_clear(scratch);
    return !filter->text_size ||
           fragment_write(scratch, &change, &fragment, NULL) ||
           filter_passes(filter, buf_slice(scratch), fragment.hole);
}
