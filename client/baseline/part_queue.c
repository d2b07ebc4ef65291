/*
 * part_queue.c - the queue of documents and packages of a baseline.
 */
#include "client/baseline/part_queue.h"

#include <stdlib.h>

void
baseline_parts_init(struct parts *parts)
{
    *parts = (struct parts){.all = NULL};
}

void
baseline_parts_fini(struct parts *parts)
{
    for (size_t i = parts->next; i < parts->n; i++) {
        free(parts->all[i].url);
        free(parts->all[i].hash);
    }
    free(parts->all);
    free(parts->seen);
    baseline_parts_init(parts);
}

/* FNV-1a; never 0, which is an empty slot. A source whose URLs collide only
 * hides one of its own. */
static uint64_t
hash_of(struct slice url)
{
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < url.size; i++)
        hash = (hash ^ (unsigned char)url.data[i]) * 1099511628211u;
    return hash ? hash : 1;
}

/* Returns the slot of `hash`, or the free slot for it. */
static uint64_t *
slot_of(const struct parts *parts, uint64_t hash)
{
    size_t at = (size_t)(hash ^ (hash >> 32)) & (parts->n_slots - 1);

    while (parts->seen[at] && parts->seen[at] != hash)
        at = (at + 1) & (parts->n_slots - 1);
    return &parts->seen[at];
}

/* Doubles the number of slots. */
static bool
grow_seen(struct parts *parts)
{
    struct parts more = {.n_slots = parts->n_slots ? 2 * parts->n_slots : 64};

    more.seen = calloc(more.n_slots, sizeof(*more.seen));
    if (!more.seen)
        return false;
    for (size_t i = 0; i < parts->n_slots; i++)
        if (parts->seen[i])
            *slot_of(&more, parts->seen[i]) = parts->seen[i];
    free(parts->seen);
    parts->seen = more.seen;
    parts->n_slots = more.n_slots;
    return true;
}

static bool
has_room(struct parts *parts)
{
    size_t capacity = parts->capacity ? 2 * parts->capacity : 16;
    struct part *more;

    if (2 * (parts->n + 1) > parts->n_slots && !grow_seen(parts))
        return false;
    if (parts->n < parts->capacity)
        return true;
    more = realloc(parts->all, capacity * sizeof(*more));
    if (!more)
        return false;
    parts->all = more;
    parts->capacity = capacity;
    return true;
}

enum parts_added
baseline_parts_add(struct parts *parts, const struct part *like,
                   struct slice url, struct slice hash)
{
    uint64_t number = hash_of(url);
    struct part part = *like;

    if (!has_room(parts))
        return PARTS_MEMORY;
    if (*slot_of(parts, number))
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
    *slot_of(parts, number) = number;
    parts->all[parts->n++] = part;
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
