/*
 * deliver.h - the engine: from cursor to callback, one delivery in flight each.
 *
 *     resting --(a commit)--> due --> its turn --> range fixed, kept --> POST
 *        ^                     ^                                          |
 *        |                     |      2xx: after = range_last; more? due  |
 *        +------- at the head -+--- else: backs off, the same bytes again +
 *                                   410: ended;  give-up: the cursor moves on
 *
 * The range of a delivery is fixed when its turn has come (so that all that
 * waited goes out merged), and kept before the first try: every later try, also
 * after a crash, is the same bytes under the same id. Bodies are shared by all
 * who are at the same place (bodies.h) and made again when a retry's turn has
 * come: a subscription that backs off holds none.
 *
 * How far a filter was found to let nothing through (`reached`) is not kept in
 * hub.db: it saves work, and says nothing to anybody. After a restart that part
 * is looked through once more, at the worker pool.
 *
 * What is given up, or was no longer retained, is counted in entries: with a
 * filter, given up are those that pass; of what is not retained nobody knows
 * which would have, so all count. A message's `after` shows either hole.
 *
 * How long a callback has been failing is not kept either: after a restart it
 * has all of --hub-give-up again.
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_DELIVER_H
#define BROKER_HUB_DELIVER_H

#include <stdint.h>

#include "broker/hub/subscription.h"

struct hub;

/* Makes hub->deliveries, before there is a thread; frees it, and bodies, when
 * there is none any more: all subscriptions were cut by then. */
MUST_CHECK enum status deliver_open(struct hub *hub, struct problem *why);
void deliver_close(struct hub *hub);

/* A subscription is there (new, or learnt at the start): deliver to it. */
void deliver_begin(struct subscription *s);

/* It is to be freed, or its cursor moved: whatever is under way is cut, and its
 * failures are forgotten. After a move deliver_look. */
void deliver_cut(struct subscription *s);

/* Its terms were replaced, or its cursor moved: looks whether it is due now,
 * also when it was backing off. What is in flight goes on as it is. */
void deliver_look(struct subscription *s);

/* There may be something new in the topics that are dirty. */
void deliver_wake(struct hub *hub);

/* At the end of a turn, when the ranges that were fixed in it are kept: sends
 * them. Writes no records. */
void deliver_turn(struct hub *hub);

/* At the end of a turn of which nothing was kept: what was fixed in it is
 * written again a second later, and goes when that is kept. */
void deliver_unkept(struct hub *hub);

#endif
