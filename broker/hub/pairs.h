/*
 * pairs.h - a table of what belongs to a pair of topic and callback, the key of
 * subscriptions and of requests (W-034).
 *
 * Callbacks are compared in their normal form (W-026), which is for finding
 * only: what goes on the wire is the callback as it was given.
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_PAIRS_H
#define BROKER_HUB_PAIRS_H

#include <stdint.h>

#include "base/list.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct topic;

/* Lives inside what it is the key of. */
struct pair {
    struct list node;
    const struct topic *topic;
    struct slice callback; /* in its normal form; the pair's own */
    uint64_t hash;
};

/* Buckets never change their number: most that may be there is known. */
struct pairs {
    struct list *buckets;
    size_t n_buckets; /* a power of two */
    uint64_t seed;    /* so that nobody outside chooses who shares a bucket */
};

MUST_CHECK enum status pairs_init(struct pairs *pairs, size_t max);
void pairs_fini(struct pairs *pairs); /* it is empty */

/* Several of one pair may be there. STATUS_MEMORY. */
MUST_CHECK enum status pairs_enter(struct pairs *pairs, struct pair *pair,
                                   const struct topic *topic,
                                   struct slice callback, struct problem *why);
void pairs_leave(struct pair *pair); /* also one that is all zero */

/* One with the same topic and callback: the first, or the next one behind
 * `behind`; NULL: there is none. */
struct pair *pairs_find(const struct pairs *pairs, const struct topic *topic,
                        struct slice callback);
struct pair *pairs_same(const struct pairs *pairs, const struct pair *behind);

#endif
