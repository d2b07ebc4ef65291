/*
 * set_readers.h - the sets that have readers on a service thread, each watched
 * once (readers/marks.h), and the messages of these readers.
 *
 * A commit marks the set on every thread where it has readers, and wakes the
 * thread unless the mark was set already; the thread takes the marks and visits
 * only those sets.
 */
#pragma once

#include "broker/net/server.h"
#include "broker/push/deflater.h"
#include "broker/push/transports.h"
#include "broker/readers/reader.h"
#include "broker/sets/registry.h"

struct set_readers {
    struct service *service; /* NULL until the first reader */
    struct readers readers;
    struct deflater deflater;
    struct map by_set;
};

/* A set on one thread. A reader of it has the number of its transport as its
 * kind. */
struct read_set {
    struct map_node node;
    struct set_readers *all;
    struct watched_channel channel;
    struct set *set;
    uint64_t last;   /* the head's, as of the last taken mark */
    bool is_removed; /* as of `last`: the set has ended */
    unsigned n_readers;
    struct shared_message *heartbeat[SET_TRANSPORTS_MAX]; /* of this tick, at
                                                             the head;
                                                             guarded */
};

/* `all` is all zero before. */
void set_readers_init(struct set_readers *all);

/* All readers have left. */
void set_readers_fini(struct set_readers *all);

/* Begins a reader of the set that has read up to `after`; see reader_init. */
void set_readers_enter(struct set_readers *all, struct service *service,
                       struct set *set, struct reader *reader, uint64_t after,
                       void (*on_ready)(struct reader *));

/* Ends the reader. The last one of a set ends its watch. */
void set_readers_leave(struct reader *reader);

/* Counts `n` more subscribers of the reader's kind, for the description of its
 * set. */
void set_readers_count(const struct reader *reader, int n);

/* How far readers are behind their logs, in entries. */
struct lag {
    uint64_t sum, max;
};

/* Adds the lag of a reader, unless it has everything, and notes it for the
 * rates of its set. */
void set_readers_add_lag(const struct reader *reader, struct lag *to);

/* The set that it reads. */
static inline struct read_set *
read_set_of(const struct reader *reader)
{
    return list_entry(reader->channel, struct read_set, channel);
}

/* A wake: after watcher_take, set_readers_next_marked returns one marked set
 * after the other, after a look at its head (NULL: no more), and
 * set_readers_wake must follow, which wakes its readers. Sets marked
 * meanwhile wait for the next wake: one busy set cannot hold the thread. */
struct read_set *set_readers_next_marked(struct set_readers *all);
void set_readers_wake(struct read_set *one);

/* The heartbeat of a reader at the head: one for each set, transport and tick.
 * NULL: it cannot be made from memory, or there is no memory. */
struct shared_message *set_readers_heartbeat(struct reader *reader);

/* Frees the heartbeats of the last tick. */
void set_readers_new_tick(struct set_readers *all);
