/*
 * places.h - the sets that have subscribers on a service thread, and how a
 * commit finds its way to them.
 *
 * A commit marks the set on every thread where it has a place, and wakes the
 * thread unless the mark was there; the thread takes the marks and visits those
 * sets only. No wake is lost: the mark is set after the commit was published
 * and taken before the head is looked at.
 */
#ifndef BROKER_PUSH_PLACES_H
#define BROKER_PUSH_PLACES_H

#include <pthread.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/log/cursor.h"
#include "broker/net/server.h"
#include "broker/push/frames.h"
#include "broker/sets/registry.h"

struct places {
    struct service *service; /* NULL until the first place */
    struct list all;
    pthread_mutex_t
        mutex; /* guards the next two, and marked_node of each place */
    struct list marked;
    struct list taken; /* marks being served */
};

/* A set on one thread. */
struct place {
    struct list node;
    struct list marked_node; /* in the marked list, or alone */
    struct watch watch;
    struct places *places;
    struct set *set;
    struct list waiting; /* subscribers at the head */
    struct list polls;   /* requests that wait for more: longpoll.h */
    uint64_t last;       /* the head's, when it was looked at after the last
                            mark was taken */
    bool is_removed;     /* told with `last`: the set has ended */
    unsigned n_subscribers;
    struct frame *heartbeat[TRANSPORTS]; /* of this tick, at the head */
};

void places_init(struct places *places);
void places_fini(struct places *places);

/* The place of a set, with one more subscriber. NULL: no memory. */
struct place *places_enter(struct places *places, struct service *service,
                           struct set *set);

/* One subscriber less; the last one closes the place. */
void places_leave(struct place *place);

/* Takes all marks that are there; then places_next gives the marked places one
 * by one, their heads looked at, and NULL at the end. What is marked meanwhile
 * waits for the next wake: serving one busy set cannot hold the thread. */
void places_take(struct places *places);
struct place *places_next(struct places *places);

/* Throws away the heartbeats of the last tick. */
void places_new_tick(struct places *places);

#endif
