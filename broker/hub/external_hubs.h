/*
 * external_hubs.h - foreign hubs that a set names in its settings ("hubs"):
 * each gets every notification of both of the set's topics, as a fat ping
 * (R-293, W-013), retried from a cursor of its own: a subscription of the kind
 * SUBSCRIPTION_HUB, which the settings begin and end.
 *
 * The delivery thread's.
 */
#pragma once

struct hub;

/* Looks at the sets whose peers have changed since the last call, and begins
 * and ends subscriptions of hubs accordingly. The first call, which must follow
 * the start of all subscriptions of hub.db, also looks at subscriptions whose
 * set no longer names a hub. This turn's transaction keeps the changes. */
void external_sync(struct hub *hub);
