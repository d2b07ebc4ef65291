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
 * The delivery thread's.
 */
#ifndef BROKER_HUB_FOREIGN_H
#define BROKER_HUB_FOREIGN_H

#include "broker/hub/order.h"

struct hub;

#define FOREIGN_BELIEVED_US 3600000000 /* an hour */

/* ORDER_NOTIFY: comes to order->done when the document is durable (200), or
 * refused. ORDER_PUBLISH: done at once (204): what it names is fetched
 * afterwards, not more often than it answers. */
void foreign_notify(struct order *order);
void foreign_publish(struct order *order);

/* Cuts what is under way; orders get STATUS_STOPPED. */
void foreign_end(struct hub *hub);

#endif
