/*
 * foreign.h - what foreign Sources tell the hub: a notification posted to it,
 * or a ping that a topic has changed.
 *
 * Registered topics only: that of a relay (relay.h), or the "upstreamTopic" of
 * a set, whose log takes in the changes as a post would (sets/ingest.h). A
 * Source is believed when its own answer to HEAD of the topic has the Link
 * headers rel=self (the topic) and rel=hub (us): R-295. That is looked at
 * before the first notification is taken, and again after FOREIGN_BELIEVED_US.
 *
 *   foreign.c   what was asked, and what is answered
 *   source.c    which Source it is, and whether it is believed
 *   intake.c    its documents on their way to where they are kept
 *   fetch.c     what was pinged is fetched
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_FOREIGN_H
#define BROKER_HUB_FOREIGN_H

#include "broker/hub/order.h"
#include "proto/problem.h"
#include "proto/status.h"

struct hub;

#define FOREIGN_BELIEVED_US 3600000000 /* an hour */

/* Makes hub->foreign, before there is a thread; frees it when there is none any
 * more. */
MUST_CHECK enum status foreign_open(struct hub *hub, struct problem *why);
void foreign_close(struct hub *hub);

/* ORDER_NOTIFY: comes to order->done when the document is durable (200), or
 * refused: 400 for links, Content-Type or body that are missing or malformed;
 * 403 for a topic that is not registered, or whose own links do not name us;
 * 502 and 504 for one that cannot be reached, or not in time; else as a post
 * to the set would be (413, 415, 422, 503). */
void foreign_notify(struct order *order);

/* ORDER_PUBLISH: done at once, 204: what it names is fetched afterwards, not
 * more often than it answers; of topics of ours nothing needs to be. Where one
 * of several is not known, 404, and none is fetched. */
void foreign_publish(struct order *order);

/* On the delivery thread, when its calls are cut and its jobs are done: orders
 * get STATUS_STOPPED, but those that the log has are answered as it does. */
void foreign_end(struct hub *hub);

#endif
