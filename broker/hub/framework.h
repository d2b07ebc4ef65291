/*
 * framework.h - which framework topics an event concerns.
 *
 * The framework events of all sets are in one log, each tagged with the set
 * that it concerns, or as the Source's (sets/framework_events.h). If each topic
 * watched that log, an event would wake the subscribers of ten thousand sets,
 * and make messages for each, though it concerns one. So one watch looks at
 * each event once, in the order of the log, and marks the topics that its tags
 * name. An event of a set costs a look-up; an event of the Source, which
 * concerns all, a walk.
 *
 *     entry 8   set:a    the topic of a
 *     entry 9   set:b    the topic of b, whose resting subscriptions now have
 *                        `reached` 8: what came before was none of theirs
 *     entry 10  source   all
 *
 * A subscription rests when it has read up to `seen`: later events that concern
 * it mark its topic here, so it need not look at the events of others. At the
 * start of the broker the watch begins at the subscription that is furthest
 * behind, and all rest: the worker pool reads the log once, and not once per
 * subscription.
 *
 * The delivery thread's.
 */
#pragma once

#include "broker/log/log.h"

struct hub;

/* struct hub has one. */
struct framework {
    struct watch watch;
    struct log_set *log; /* of all framework events */
    atomic_bool has_news;
    uint64_t seen;           /* the topics of events up to here were marked */
    struct reading *reading; /* a worker's; NULL: none */
};

/* Ends the watch; no framework topic is left. */
void framework_close(struct hub *hub);

/* Starts the watch if there is none, behind all framework subscriptions that
 * exist: called when the first one begins. The watch ends with the first event
 * that finds no framework topic. */
void framework_listen(struct hub *hub);

/* Looks at new events, and marks the topics that they concern. Each look is
 * short: if there are many events the next wake goes on, and a worker first
 * reads those that are not in memory. */
void framework_look(struct hub *hub);
