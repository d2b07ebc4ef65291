/*
 * name_count.h - how many subscriptions or requests have a callback host in
 * common: of all clients, and of one (W-164).
 *
 * The delivery thread's, as the maps.
 */
#ifndef BROKER_HUB_NAME_COUNT_H
#define BROKER_HUB_NAME_COUNT_H

#include "base/map.h"
#include "proto/slice.h"

struct client;
struct name_count;

/* The places of one thing in a map of counts. All zero: none. */
struct host_count {
    struct name_count *of_all, *of_client;
};

/* How many callbacks of that host there are, of all clients (NULL) or of one.
 */
unsigned host_count_of(struct map *counts, const struct client *client,
                       struct slice callback);

/* Counts one more, of that client. */
void host_count_add(struct host_count *place, struct map *counts,
                    const struct client *client, struct slice callback);

/* Counts one less. */
void host_count_take(struct host_count *place, struct map *counts);

#endif
