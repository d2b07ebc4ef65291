#include "broker/hub/host_counts.h"

#include <stdint.h>
#include <stdlib.h>

void
tallies_init(struct tallies *tallies)
{
    for (size_t i = 0; i < HOST_COUNTS_BUCKETS; i++)
        list_init(&tallies->buckets[i]);
}

/* FNV-1a. The counting parts limit the number of names. */
static struct list *
bucket_of(const struct tallies *tallies, struct slice name)
{
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < name.size; i++)
        hash = (hash ^ (unsigned char)name.data[i]) * 1099511628211u;
    return (struct list *)&tallies
        ->buckets[(hash ^ hash >> 32) & (HOST_COUNTS_BUCKETS - 1)];
}

static struct host_counts *
find(const struct tallies *tallies, struct slice name)
{
    struct list *bucket = bucket_of(tallies, name);

    for (struct list *node = bucket->next; node != bucket; node = node->next) {
        struct host_counts *tally = list_entry(node, struct host_counts, node);

        if (slice_equal((struct slice){tally->name, tally->size}, name))
            return tally;
    }
    return NULL;
}

unsigned
host_counts_count(const struct tallies *tallies, struct slice name)
{
    const struct host_counts *tally = find(tallies, name);

    return tally ? tally->n : 0;
}

struct host_counts *
host_counts_enter(struct tallies *tallies, struct slice name)
{
    struct host_counts *tally = find(tallies, name);

    if (!tally) {
        tally = malloc(sizeof(*tally) + name.size);
        if (!tally)
            return NULL;
        tally->n = 0;
        tally->size = name.size;
        if (name.size > 0)
            memcpy(tally->name, name.data, name.size);
        list_append(bucket_of(tallies, name), &tally->node);
    }
    tally->n++;
    return tally;
}

void
host_counts_leave(struct host_counts *tally)
{
    if (!tally || --tally->n > 0)
        return;
    list_remove(&tally->node);
    free(tally);
}
