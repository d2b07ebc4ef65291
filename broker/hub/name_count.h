/*
 * name_count.h - how many things have a name in common: subscriptions and
 * requests with one callback host, requests of one client (W-164).
 *
 * The delivery thread's, as the maps.
 */
#ifndef BROKER_HUB_NAME_COUNT_H
#define BROKER_HUB_NAME_COUNT_H

#include "base/map.h"
#include "proto/http/websub.h"
#include "proto/slice.h"

/* Room for the host of a callback (websub_host). */
#define CALLBACK_HOST_MAX (WEBSUB_URL_MAX + 64)

struct name_count;

/* How many have that name. */
unsigned name_count_of(struct map *counts, struct slice name);

/* Counts one more; NULL: no memory. */
struct name_count *name_count_add(struct map *counts, struct slice name);

/* Counts one less. NULL is allowed. */
void name_count_take(struct map *counts, struct name_count *count);

#endif
