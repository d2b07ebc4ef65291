#include "broker/hub/host_counts.h"

#include <stdint.h>
#include <stdlib.h>

void
host_counts_init(struct host_counts *counts)
{
    for (size_t i = 0; i < HOST_COUNTS_BUCKETS; i++)
        list_init(&counts->buckets[i]);
}

/* FNV-1a. The counting parts limit the number of names. */
static struct list *
bucket_of(const struct host_counts *counts, struct slice name)
{
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < name.size; i++)
        hash = (hash ^ (unsigned char)name.data[i]) * 1099511628211u;
    return (struct list *)&counts
        ->buckets[(hash ^ hash >> 32) & (HOST_COUNTS_BUCKETS - 1)];
}

static struct host_count *
find_count(const struct host_counts *counts, struct slice name)
{
    struct list *bucket = bucket_of(counts, name);

    for (struct list *node = bucket->next; node != bucket; node = node->next) {
        struct host_count *count = list_entry(node, struct host_count, node);

        if (slice_equal((struct slice){count->name, count->size}, name))
            return count;
    }
    return NULL;
}

unsigned
host_counts_count(const struct host_counts *counts, struct slice name)
{
    const struct host_count *count = find_count(counts, name);

    return count ? count->n : 0;
}

struct host_count *
host_counts_enter(struct host_counts *counts, struct slice name)
{
    struct host_count *count = find_count(counts, name);

    if (!count) {
        count = malloc(sizeof(*count) + name.size);
        if (!count)
            return NULL;
        count->n = 0;
        count->size = name.size;
        if (name.size > 0)
            memcpy(count->name, name.data, name.size);
        list_append(bucket_of(counts, name), &count->node);
    }
    count->n++;
    return count;
}

void
host_counts_leave(struct host_count *count)
{
    if (!count || --count->n > 0)
        return;
    list_remove(&count->node);
    free(count);
}
