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

#include "base/map.h"
#include "proto/slice.h"

struct topic;

/* A member of the struct that it is the key of. */
struct pair {
    struct map_node node;
    const struct topic *topic;
    struct slice callback; /* in its normal form; the pair owns it */
};

/* All zero: empty. */
struct callback_table {
    struct map map;
};

void callback_table_fini(struct callback_table *pairs); /* must be empty */

/* Adds a pair. Several equal pairs are allowed. */
void callback_table_enter(struct callback_table *pairs, struct pair *pair,
                          const struct topic *topic, struct slice callback);
/* Removes a pair. An all-zero pair is allowed. */
void callback_table_leave(struct callback_table *pairs, struct pair *pair);

/* Return a pair with this topic and callback, and the next one equal to `pair`;
 * NULL: none. In any order. */
struct pair *callback_table_find(struct callback_table *pairs,
                                 const struct topic *topic,
                                 struct slice callback);
struct pair *callback_table_same(const struct pair *pair);

#endif
