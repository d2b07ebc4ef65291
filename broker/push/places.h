/*
 * places.h - the sets that have subscribers on a service thread, each watched
 * once (readers/watch.h).
 *
 * A commit marks the set on every thread where it has a place, and wakes the
 * thread unless the mark was set already; the thread takes the marks and visits
 * only those sets.
 */
#ifndef BROKER_PUSH_PLACES_H
#define BROKER_PUSH_PLACES_H

#include <stdint.h>

#include "base/list.h"
#include "broker/net/server.h"
#include "broker/push/transports.h"
#include "broker/readers/shared_messages.h"
#include "broker/readers/watch.h"
#include "broker/sets/registry.h"

struct places {
    struct service *service;          /* NULL until the first place */
    struct shared_messages *messages; /* lent; of the heartbeats */
    struct list all;
    struct watcher watcher;
};

/* A set on one thread. */
struct place {
    struct list node;
    struct watched_log watched;
    struct set *set;
    struct list waiting; /* subscribers at the head */
    struct list polls;   /* requests that wait for more: longpoll.h */
    uint64_t last;       /* the head's, as of the last taken mark */
    bool is_removed;     /* as of `last`: the set has ended */
    unsigned n_subscribers;
    struct shared_message *heartbeat[TRANSPORTS]; /* of this tick, at the head;
                                                     guarded */
};

void places_init(struct places *places, struct shared_messages *messages);

/* Finds or makes the place of a set, and counts one more subscriber. NULL: no
 * memory. */
struct place *places_enter(struct places *places, struct service *service,
                           struct set *set);

/* Counts one subscriber less; the last one closes the place. */
void places_leave(struct place *place);

/* After watcher_take: returns the marked places one by one, after a look at
 * their heads, and NULL at the end. Places marked meanwhile wait for the next
 * wake: one busy set cannot hold the thread. */
struct place *places_next(struct places *places);

/* Frees the heartbeats of the last tick. */
void places_new_tick(struct places *places);

#endif
