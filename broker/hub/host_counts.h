/*
 * host_counts.h - counts per name: requests per callback host, and per
 * requester (W-164).
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_HOST_COUNTS_H
#define BROKER_HUB_HOST_COUNTS_H

#include "base/list.h"
#include "proto/slice.h"

#define HOST_COUNTS_BUCKETS 1024

struct host_counts {
    struct list buckets[HOST_COUNTS_BUCKETS];
};

struct host_count {
    struct list node;
    unsigned n;
    size_t size;
    char name[];
};

void host_counts_init(struct host_counts *counts);

/* Returns the count of that name. */
unsigned host_counts_count(const struct host_counts *counts, struct slice name);

/* Counts one more; NULL: no memory. */
struct host_count *host_counts_enter(struct host_counts *counts,
                                     struct slice name);

/* Counts one less. NULL is allowed. */
void host_counts_leave(struct host_count *count);

#endif
