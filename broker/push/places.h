/*
 * places.h - the sets that have readers on a service thread, each watched once
 * (readers/watch.h), and the messages of these readers.
 *
 * A commit marks the set on every thread where it has a place, and wakes the
 * thread unless the mark was set already; the thread takes the marks and visits
 * only those sets.
 */
#ifndef BROKER_PUSH_PLACES_H
#define BROKER_PUSH_PLACES_H

#include <stdint.h>

#include "base/map.h"
#include "broker/net/server.h"
#include "broker/push/deflater.h"
#include "broker/push/transports.h"
#include "broker/readers/reader.h"
#include "broker/sets/registry.h"

struct places {
    struct service *service; /* NULL until the first place */
    struct readers readers;
    struct deflater deflater;
    struct map all; /* by set */
};

/* A set on one thread. A reader of it has the number of its transport as its
 * kind. */
struct place {
    struct map_node node;
    struct places *places;
    struct watched_channel channel;
    struct set *set;
    uint64_t last;   /* the head's, as of the last taken mark */
    bool is_removed; /* as of `last`: the set has ended */
    unsigned n_readers;
    struct shared_message
        *heartbeat[SET_TRANSPORTS_MAX]; /* of this tick, at
                                           the head; guarded */
};

void places_init(struct places *places);

/* All readers have left. */
void places_fini(struct places *places);

/* Begins a reader that has read up to `after`, at the place of the set; see
 * reader_init. */
void places_enter(struct places *places, struct service *service,
                  struct set *set, struct reader *reader, uint64_t after,
                  void (*on_ready)(struct reader *));

/* Ends the reader. The last one closes the place. */
void places_leave(struct reader *reader);

/* Counts `n` more subscribers of the reader's kind, for the description of its
 * set. */
void places_count(const struct reader *reader, int n);

/* How far readers are behind their logs, in entries. */
struct lag {
    uint64_t sum, max;
};

/* Adds the lag of a reader, unless it has everything, and notes it for the
 * rates of its set. */
void places_add_lag(const struct reader *reader, struct lag *to);

/* The place that it reads. */
static inline struct place *
places_of_reader(const struct reader *reader)
{
    return list_entry(reader->channel, struct place, channel);
}

/* Wakes the readers at the marked places, after a look at their heads; before
 * that, calls `on_removed` for a place whose set was removed. Places marked
 * meanwhile wait for the next wake: one busy set cannot hold the thread. */
void places_wake(struct places *places,
                 void (*on_removed)(const struct place *place));

/* The heartbeat of a reader at the head: one for each set, transport and tick.
 * NULL: it cannot be made from memory, or there is no memory. */
struct shared_message *places_heartbeat(struct reader *reader);

/* Frees the heartbeats of the last tick. */
void places_new_tick(struct places *places);

#endif
