/*
 * tally.h - counts per name: requests per callback host, and per requester
 * (W-164).
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_TALLY_H
#define BROKER_HUB_TALLY_H

#include "base/list.h"
#include "proto/slice.h"

#define TALLY_BUCKETS 1024

struct tallies {
    struct list buckets[TALLY_BUCKETS];
};

struct tally {
    struct list node;
    unsigned n;
    size_t size;
    char name[];
};

void tallies_init(struct tallies *tallies);

/* Returns the count of that name. */
unsigned tally_count(const struct tallies *tallies, struct slice name);

/* Counts one more; NULL: no memory. */
struct tally *tally_enter(struct tallies *tallies, struct slice name);

/* Counts one less. NULL is allowed. */
void tally_leave(struct tally *tally);

#endif
