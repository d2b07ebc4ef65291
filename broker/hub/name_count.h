/*
 * name_count.h - how many things have a name in common: subscriptions and
 * requests with one callback host, requests of one client (W-164).
 *
 * The delivery thread's, as the maps.
 */
#ifndef BROKER_HUB_NAME_COUNT_H
#define BROKER_HUB_NAME_COUNT_H

#include "base/map.h"
#include "proto/slice.h"

struct name_count;

/* How many have that name. */
unsigned name_count_of(struct map *counts, struct slice name);

/* Counts one more. */
struct name_count *name_count_add(struct map *counts, struct slice name);

/* The same, where the name is the host of a callback. */
unsigned host_count_of(struct map *counts, struct slice callback);
struct name_count *host_count_add(struct map *counts, struct slice callback);

/* Counts one less. NULL is allowed. */
void name_count_take(struct map *counts, struct name_count *count);

#endif
