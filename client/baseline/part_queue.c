/*
 * part_queue.c - the queue of documents and packages of a baseline.
 */
#include "client/baseline/part_queue.h"

#include <stdlib.h>

#include "base/array.h"

void
baseline_parts_fini(struct parts *parts)
{
    for (size_t i = parts->next; i < parts->n; i++) {
        free(parts->all[i].url);
        free(parts->all[i].hash);
    }
    free(parts->all);
    text_set_fini(&parts->seen);
    *parts = (struct parts){.all = NULL};
}

enum parts_added
baseline_parts_add(struct parts *parts, const struct part *like,
                   struct slice url, struct slice hash)
{
    struct part *all = ONE_MORE(parts->all, &parts->capacity, parts->n);
    struct part part = *like;
    bool is_new;

    if (!all)
        return PARTS_MEMORY;
    parts->all = all;
    if (text_set_add(&parts->seen, url, &is_new))
        return PARTS_MEMORY;
    if (!is_new)
        return PARTS_KNOWN;
    parts->n_bytes += sizeof(part) + url.size + hash.size;
    if (parts->n_bytes > PARTS_BYTES_MAX)
        return PARTS_TOO_MANY;
    part.url = slice_dup(url);
    part.hash = slice_dup(hash);
    if (!part.url || !part.hash) {
        free(part.url);
        free(part.hash);
        return PARTS_MEMORY;
    }
    all[parts->n++] = part;
    return PARTS_ADDED;
}

struct part *
baseline_parts_first(struct parts *parts)
{
    return parts->next < parts->n ? &parts->all[parts->next] : NULL;
}

void
baseline_parts_done(struct parts *parts)
{
    struct part *part = &parts->all[parts->next++];

    free(part->url);
    free(part->hash);
}
