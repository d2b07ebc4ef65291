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
 * The delivery thread's.
 */
#ifndef BROKER_HUB_DELIVER_H
#define BROKER_HUB_DELIVER_H

#include <stdint.h>

#include "broker/hub/subscription.h"

struct hub;

/* The id of a delivery: topic's epoch, subscription, after, last; the same for
 * every try. As header `Tidings-Delivery`, and `webhook-id`. */
#define DELIVERY_ID_SIZE 96

/* Makes hub->deliveries, before there is a thread; frees it, and bodies, when
 * there is none any more: all subscriptions were cut by then. */
MUST_CHECK enum status deliver_open(struct hub *hub, struct problem *why);
void deliver_close(struct hub *hub);

/* A subscription is there (new, or learnt at the start): deliver to it. */
void deliver_begin(struct subscription *s);

/* It is to be freed, or its cursor moved (then deliver_look follows): whatever
 * is under way is cut. */
void deliver_cut(struct subscription *s);

/* Its terms were replaced: looks whether it is due now. What is in flight goes
 * on as it is. */
void deliver_look(struct subscription *s);

/* There may be something new in the topics that are dirty. */
void deliver_wake(struct hub *hub);

/* At the end of a turn, when the ranges that were fixed in it are kept: sends
 * them. Not called at the end of a turn that was not kept: the hub writes its
 * ranges again until they are. */
void deliver_turn(struct hub *hub);

#endif
