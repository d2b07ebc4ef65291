#include "broker/state/fold_batch.h"

#include <stdlib.h>
#include <string.h>

#include "proto/digest.h"
#include "proto/fragment.h"

void
resource_key(struct resource_key *key, struct slice loc)
{
    struct digest digest;

    digest_sha256(&digest, loc);
    memcpy(key->bytes, digest.bytes, sizeof(key->bytes));
}

void
fold_batch_init(struct fold_batch *g, size_t bytes)
{
    memset(g, 0, sizeof(*g));
    buf_init(&g->entries, bytes);
}

void
fold_batch_clear(struct fold_batch *g)
{
    size_t max = g->entries.max;

    free(g->rows);
    buf_fini(&g->entries);
    fold_batch_init(g, max);
}

static enum status
make_room(struct fold_batch *g)
{
    size_t capacity = g->capacity ? g->capacity * 2 : 256;
    struct gathered *rows;

    if (g->n < g->capacity)
        return STATUS_OK;
    rows = realloc(g->rows, capacity * sizeof(*rows));
    if (!rows)
        return STATUS_MEMORY;
    g->rows = rows;
    g->capacity = capacity;
    return STATUS_OK;
}

enum status
fold_batch_add(struct fold_batch *g, struct slice fragment, uint32_t stamp,
               uint64_t seq)
{
    struct slice loc = fragment_from_loc(fragment);
    const char *end = memchr(loc.data, '<', loc.size);
    struct gathered *row;

    if (make_room(g))
        return STATUS_MEMORY;
    row = &g->rows[g->n];
    loc.size = end ? (size_t)(end - loc.data) : loc.size;
    resource_key(&row->key, loc);
    row->id = 0;
    row->is_new = false;
    row->first_seq = row->seq = seq;
    row->entry = g->entries.size;
    if (fragment_kind(fragment.data, stamp) != CHANGE_DELETED)
        fragment_resource(&g->entries, fragment, stamp);
    row->size = g->entries.size - row->entry;
    if (g->entries.failed)
        return STATUS_MEMORY;
    g->n++;
    return STATUS_OK;
}

static int
compare_seqs(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int
compare_keys(const void *x, const void *y)
{
    const struct gathered *a = x, *b = y;
    int order = memcmp(&a->key, &b->key, sizeof(a->key));

    return order ? order : compare_seqs(a->seq, b->seq);
}

static int
compare_ids(const void *x, const void *y)
{
    const struct gathered *a = x, *b = y;

    if (a->id == b->id) /* neither has one */
        return compare_seqs(a->first_seq, b->first_seq);
    if (!a->id || !b->id)
        return a->id ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

void
fold_batch_by_key(struct fold_batch *g)
{
    size_t n = 0;

    if (g->n == 0)
        return;
    qsort(g->rows, g->n, sizeof(*g->rows), compare_keys);
    for (size_t i = 0; i < g->n; i++) {
        uint64_t first_seq = g->rows[i].first_seq;

        if (n > 0 && !memcmp(&g->rows[n - 1].key, &g->rows[i].key,
                             sizeof(g->rows[i].key)))
            first_seq = g->rows[--n].first_seq;
        g->rows[n] = g->rows[i];
        g->rows[n++].first_seq = first_seq;
    }
    g->n = n;
}

void
fold_batch_by_id(struct fold_batch *g)
{
    if (g->n > 0)
        qsort(g->rows, g->n, sizeof(*g->rows), compare_ids);
}

struct slice
fold_batch_entry(const struct fold_batch *g, const struct gathered *row)
{
    return (struct slice){g->entries.data + row->entry, row->size};
}
