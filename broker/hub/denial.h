/*
 * denial.h - denials of subscriptions, sent to their callbacks (W-041).
 *
 * The hub sends a denial at the end of the turn that has kept its reason; if
 * that commit failed, at the end of the turn that makes up for it. So after a
 * crash hub.db contains no subscription whose callback was denied. A few tries,
 * then the hub gives up.
 *
 * The hub remembers no denial over a restart, and holds at most DENIALS_MAX: a
 * denial is a courtesy (the subscription has ended anyway), and must not hinder
 * deliveries.
 *
 * The delivery thread's.
 */
#pragma once

#include "broker/calls/caller.h"

struct hub;
struct terms;

/* The most denials on their way, of all owners and of one. */
#define DENIALS_MAX        10000
#define DENIALS_OF_ONE_MAX (DENIALS_MAX / 8 * 7)

/* The most tries of a denial, and of a verification. */
#define DENIAL_TRIES 3

/* The reason after the removal of a set or relay. */
#define DENIAL_TOPIC_GONE "the topic is no more"

/* The reason after the end of a token. */
#define DENIAL_TOKEN_ENDED "the token of this subscription has ended"

/* All of them; struct hub has one. */
struct denials {
    struct list fresh; /* of this turn */
    struct list begun;
};

/* A second call does nothing. */
void denials_free(struct denials *all);

/* Denies a callback when this turn is kept; before there is a thread, in its
 * first turn. */
void denial_send(struct hub *hub, struct slice callback, struct terms *terms,
                 struct slice topic_url, struct slice reason);

/* At the end of a turn that was kept: calls the callbacks that were denied. */
void denials_turn(struct hub *hub);

/* Sets the alarm for the next try, after a call without an answer that was the
 * last of `tries`. False: there is none. An address that may not be called is
 * no transport error. */
bool denial_goes_on(struct hub *hub, const struct call *call, unsigned tries,
                    struct alarm *alarm);
