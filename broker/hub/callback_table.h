/*
 * callback_table.h - a table by pairs of topic and callback, the key of
 * subscriptions and of requests (W-034).
 *
 * Callbacks are compared in their normal form (W-026), which only serves
 * look-ups: calls use the callback as the subscriber gave it.
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_CALLBACK_TABLE_H
#define BROKER_HUB_CALLBACK_TABLE_H

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
struct callback_table {
    struct list *buckets;
    size_t n_buckets; /* a power of two */
    uint64_t seed;    /* secret: nobody outside can choose a bucket */
};

MUST_CHECK enum status callback_table_init(struct callback_table *pairs,
                                           size_t max);
void callback_table_fini(struct callback_table *pairs); /* must be empty */

/* Adds a pair. Several equal pairs are allowed. STATUS_MEMORY. */
MUST_CHECK enum status callback_table_enter(struct callback_table *pairs,
                                            struct pair *pair,
                                            const struct topic *topic,
                                            struct slice callback,
                                            struct problem *why);
void callback_table_leave(struct pair *pair); /* an all-zero pair is allowed */

/* Finds a pair with this topic and callback: the first, or the next one behind
 * `behind`; NULL: none. */
struct pair *callback_table_find(const struct callback_table *pairs,
                                 const struct topic *topic,
                                 struct slice callback);
struct pair *callback_table_same(const struct callback_table *pairs,
                                 const struct pair *behind);

#endif
