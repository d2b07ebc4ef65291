/*
 * owner_places.h - the places of subscriptions, or of requests: each has one
 * among those of its owner (client_limits.h), and one among those with the same
 * callback host, of all owners and of its own (W-164).
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_OWNER_PLACES_H
#define BROKER_HUB_OWNER_PLACES_H

#include "base/map.h"
#include "broker/base/client_limits.h"
#include "proto/slice.h"

struct host_count;

struct owner_places {
    struct clients *clients; /* lent */
    enum client_kind kind;
    struct map hosts; /* of host_count */
};

/* All zero: none. */
struct owner_place {
    struct holding holding;
    struct host_count *of_all, *of_owner; /* NULL: it has no host */
};

/* Checks that `client` may have one more with that callback, of which a host
 * has at most `of_all`, and one client there `of_owner`. STATUS_LIMITED; `what`
 * says of what there is too much. STATUS_BUSY: all together have too many. */
MUST_CHECK enum status
owner_places_check(struct owner_places *places, struct client *client,
                   struct slice callback, uint64_t of_all, uint64_t of_owner,
                   const char *what, struct problem *why);

/* Takes a place, whatever the limits are, and gives it back. `callback` empty:
 * without a host. */
void owner_place_take(struct owner_place *place, struct owner_places *places,
                      struct client *client, struct slice callback);
void owner_place_leave(struct owner_place *place, struct owner_places *places);

#endif
