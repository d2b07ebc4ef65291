/*
 * pairs.h - a table by pairs of topic and callback, the key of subscriptions
 * and of requests (W-034).
 *
 * Callbacks are compared in their normal form (W-026), which only serves
 * look-ups: calls use the callback as the subscriber gave it.
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

/* A member of the struct that it is the key of. */
struct pair {
    struct list node;
    const struct topic *topic;
    struct slice callback; /* in its normal form; the pair owns it */
    uint64_t hash;
};

/* The number of buckets is fixed: the limit of pairs is known. */
struct pairs {
    struct list *buckets;
    size_t n_buckets; /* a power of two */
    uint64_t seed;    /* secret: nobody outside can choose a bucket */
};

MUST_CHECK enum status pairs_init(struct pairs *pairs, size_t max);
void pairs_fini(struct pairs *pairs); /* must be empty */

/* Adds a pair. Several equal pairs are allowed. STATUS_MEMORY. */
MUST_CHECK enum status pairs_enter(struct pairs *pairs, struct pair *pair,
                                   const struct topic *topic,
                                   struct slice callback, struct problem *why);
void pairs_leave(struct pair *pair); /* an all-zero pair is allowed */

/* Finds a pair with this topic and callback: the first, or the next one behind
 * `behind`; NULL: none. */
struct pair *pairs_find(const struct pairs *pairs, const struct topic *topic,
                        struct slice callback);
struct pair *pairs_same(const struct pairs *pairs, const struct pair *behind);

#endif
