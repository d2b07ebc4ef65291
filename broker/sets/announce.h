/*
 * announce.h - framework events: what happened to a document, told to those who
 * follow how a set is published.
 *
 * Every event is an entry of one log, registry_framework, with the tag of whom
 * it concerns (channel.h says what a channel is):
 *
 *   <url><loc>http://example.org/sets/demo/changes/000000000007.xml</loc>
 *   <rs:md change="updated" datetime="..." td:seq="42" capability="changelist"
 *   td:tags="set:demo"/><rs:ln rel="index" href=".../changelist.xml"/></url>
 *
 * What follows from a commit of the log is told with it (log_options.on_acts):
 * a list that was closed and the one that it is followed by, the archive, sets
 * that begin and end, what they are described with, lists that go. One that is
 * told of is published after what it tells. Any other module raises its
 * event itself, with announce_submit, when its document can be had.
 *
 *     log thread:   round's acts --> announcer_tell --> same transaction
 *     any thread:   announce_submit ----------------> a transaction of its own
 */
#ifndef BROKER_SETS_ANNOUNCE_H
#define BROKER_SETS_ANNOUNCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/log/log.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"
#include "proto/vocab.h"

struct registry;
struct set;
struct source_changes;

/* What happened to one document. Lends. */
struct event {
    enum change_kind change;
    enum capability capability; /* of the document */
    struct set *set;            /* whose it is; NULL: the Source's */
    struct slice loc;           /* never that of an index */
    struct slice index;         /* the one that it is under; empty: none */
};

/* Appends an event to the framework log, and wakes who follows it; returns at
 * once. What it says must be so already. Any thread. STATUS_STOPPED: the log is
 * ending; STATUS_BUSY: no memory. A disk that is full loses it, with a warning:
 * the documents themselves are right all the same. */
MUST_CHECK enum status announce_submit(struct registry *registry,
                                       const struct event *event,
                                       struct problem *why);

/* The seq in the framework log of the last event on the set's channel, 0: none
 * since the broker started, one before that may be. It may be ahead of the
 * log's head for a moment. Any thread. */
uint64_t announce_last(const struct set *set);

/* The set was removed, and that is told: announce_last is its last for ever. A
 * set is gone a moment before; registry_options.on_changed is called behind
 * both. Any thread. */
bool announce_is_over(const struct set *set);

/* Somebody has looked, where announce_last said 0, and found it there. Of a set
 * that has no event any more, 1 will do: that one is not retained, or not its.
 * Any thread. */
void announce_found(struct set *set, uint64_t seq);

/* For the registry: tells what rounds come to. */

/* Events that are told together, in the form of a post. */
struct announcement {
    struct post post;
    struct set **about; /* of each fragment; NULL: the Source */
    size_t capacity;    /* of both arrays */
};

struct announcer {
    struct registry *registry;
    struct announcement round;      /* the log thread's, and so is the next */
    struct source_changes *changes; /* NULL: no memory */
    _Atomic(uint64_t) source_event; /* see announce_last. Relaxed: it says where
                                       to look; the log has the event */
};

void announcer_init(struct announcer *announcer, struct registry *registry);

/* All sets are known that were there at the start. */
void announcer_begin(struct announcer *announcer);
void announcer_fini(struct announcer *announcer);

/* log_options.on_acts. */
MUST_CHECK enum status announcer_tell(struct announcer *announcer,
                                      const struct act *acts, size_t n,
                                      struct post **post);

#endif
