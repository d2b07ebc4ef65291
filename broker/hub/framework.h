/*
 * framework.h - which framework topics an event concerns.
 *
 * The framework events of all sets are in one log, each tagged with the set
 * that it concerns, or as the Source's (sets/channel.h). If each topic watched
 * that log, ten thousand sets with a subscriber each would all be woken, and
 * made messages for, to find that an event is none of theirs. So one watch
 * looks at each event once, in the order of the log, and marks the topics that
 * its tags name: a set's event costs a look-up, the Source's, which is for all,
 * a walk.
 *
 *     entry 8   set:a    the topic of a
 *     entry 9   set:b    the topic of b, whose resting subscriptions now have
 *                        `reached` 8: what came before was none of theirs
 *     entry 10  source   all
 *
 * A subscription rests when it has read up to `seen`: whatever passes after
 * that will be told here. So nothing that others were told is looked at again
 * for it. At the start of the broker the watch begins where the one that is
 * furthest behind is, and all rest: the log is read once, by the worker pool,
 * and not once for each of them.
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_FRAMEWORK_H
#define BROKER_HUB_FRAMEWORK_H

#include <stdint.h>

#include "proto/problem.h"
#include "proto/status.h"

struct hub;

/* One more framework topic. STATUS_MEMORY. */
MUST_CHECK enum status framework_enter(struct hub *hub, struct problem *why);

/* One less; the last one ends the watch. */
void framework_leave(struct hub *hub);

/* Starts the watch, if it is not there, behind all framework subscriptions that
 * are: topic_listen. */
void framework_listen(struct hub *hub);

/* Events up to this one were told; the watch was started. */
uint64_t framework_seen(const struct hub *hub);

/* Looks at the events that have come, and marks the topics that they concern.
 * Each look is short: it goes on at the next wake where there are many, and
 * those that are not in memory are read by a worker first. */
void framework_look(struct hub *hub);

#endif
