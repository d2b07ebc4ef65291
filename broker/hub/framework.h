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
 * That `reached` is right because a subscription rests when it has read up to
 * the head: whatever passes after that was, or will be, told here. So nothing
 * that others were told is looked at again for it.
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_FRAMEWORK_H
#define BROKER_HUB_FRAMEWORK_H

#include "proto/problem.h"
#include "proto/status.h"

struct hub;

/* One more framework topic. STATUS_MEMORY. */
MUST_CHECK enum status framework_enter(struct hub *hub, struct problem *why);

/* One less; the last one ends the watch. */
void framework_leave(struct hub *hub);

/* Starts the watch, if it is not there: topic_listen. */
void framework_listen(struct hub *hub);

/* Looks at the events that have come, and marks the topics that they concern.
 * Each look is short: it goes on at the next wake where there are many. */
void framework_look(struct hub *hub);

#endif
