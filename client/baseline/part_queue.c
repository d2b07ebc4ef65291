/*
 * part_queue.c - the queue of documents and packages of a baseline.
 */
#include "client/baseline/part_queue.h"

#include "base/array.h"

static void
free_part(struct part *part)
{
    free(part->url);
    free(part->hash);
    free(part->etag);
    part->url = part->hash = part->etag = NULL;
}

void
baseline_parts_fini(struct parts *parts)
{
    for (size_t i = 0; i < parts->n; i++)
        free_part(&parts->all[i]);
    free(parts->all);
    text_set_fini(&parts->seen);
    *parts = (struct parts){.all = NULL};
}

enum status
baseline_parts_add(struct parts *parts, const struct part *like,
                   struct slice url, struct slice hash, bool *is_new)
{
    struct part part = *like;
    size_t at = parts->n;

    if (!ONE_MORE(parts->all, &parts->capacity, parts->n))
        return STATUS_MEMORY;
    if (text_set_add(&parts->seen, url, is_new))
        return STATUS_MEMORY;
    if (!*is_new)
        return STATUS_OK;
    parts->n_bytes += sizeof(part) + url.size + hash.size;
    if (parts->n_bytes > PARTS_BYTES_MAX)
        return STATUS_TOO_LARGE;
    part.url = slice_dup(url);
    part.hash = slice_dup(hash);
    part.etag = NULL;
    if (!part.url || !part.hash) {
        free_part(&part);
        return STATUS_MEMORY;
    }
    for (; at > parts->next + 1; at--) {
        if (parts->all[at - 1].distance_us <= part.distance_us)
            break;
        parts->all[at] = parts->all[at - 1];
    }
    parts->all[at] = part;
    parts->n++;
    return STATUS_OK;
}

struct part *
baseline_parts_first(struct parts *parts)
{
    return parts->next < parts->n ? &parts->all[parts->next] : NULL;
}

enum status
baseline_parts_keep_etag(struct parts *parts, struct part *part,
                         const char *etag)
{
    if (!etag[0] || parts->n_bytes + strlen(etag) > PARTS_BYTES_MAX)
        return STATUS_OK;
    free(part->etag);
    part->etag = strdup(etag);
    parts->n_bytes += strlen(etag);
    return part->etag ? STATUS_OK : STATUS_MEMORY;
}
