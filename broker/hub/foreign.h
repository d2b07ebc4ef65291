/*
 * foreign.h - what foreign Sources post to the hub: a notification, or a ping
 * that a topic has changed.
 *
 * Only registered topics are accepted: a relay's topic (relay.h), or the
 * "upstreamTopic" of a set, whose log takes in the changes like a post
 * (sets/ingest.h). A Source is believed when its own answer to HEAD of the
 * topic has the Link headers rel=self (the topic) and rel=hub (us): R-295. The
 * hub checks this before it takes the first notification, and again after
 * FOREIGN_BELIEVED_US.
 *
 *   foreign.c   the requests and their answers
 *   source.c    the Sources, and whether they are believed
 *   document_intake.c    their documents on the way to a set or a relay
 *   fetch.c     fetches topics after a ping
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

/* foreign_open makes hub->foreign, before there is a thread; foreign_close
 * frees it when the thread has ended. */
MUST_CHECK enum status foreign_open(struct hub *hub, struct problem *why);
void foreign_close(struct hub *hub);

/* ORDER_NOTIFY: calls order->done when the document is durable (200) or
 * refused: 400 if links, Content-Type or body are missing or malformed; 403 if
 * the topic is not registered, or its own links do not name us; 502 and 504 if
 * it cannot be reached, or not in time; else the status of a post to the set
 * (413, 415, 422, 503). */
void foreign_notify(struct order *order);

/* ORDER_PUBLISH: answered at once with 204. Its topics are fetched afterwards,
 * no faster than they answer; our own topics need no fetch. If one of several
 * is not known, 404, and none is fetched. */
void foreign_publish(struct order *order);

/* On the delivery thread, when its calls are cut and its jobs are done: orders
 * get STATUS_STOPPED, except those in the log, which get the log's answer. */
void foreign_end(struct hub *hub);

#endif
