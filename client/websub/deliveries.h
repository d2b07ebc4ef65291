/*
 * deliveries.h - what of that which arrives is believed, and handed over once.
 *
 *     arrival --signature?--> right --repeat?--> queue --timer--> on_delivery
 *                  |                    |
 *                  |                    +--> 202, dropped
 *                  +--> none: 403
 *                  +--> wrong: 202, dropped
 *
 * With a secret X-Hub-Signature has to be right (W-104). Where the secret is in
 * the format of Standard Webhooks and the hub has ever sent its headers, they
 * have to be there and right, too, with a timestamp of now (W-107); a copy of
 * an old delivery is then of no use to anybody.
 *
 * A right answer does not differ from that to a wrong signature (W-105): 202.
 *
 * A repeat is known by its id; and, while a subscription lives on beside the
 * one that replaces it (W-029), by its body, which came by the other one.
 */
#ifndef CLIENT_WEBSUB_DELIVERIES_H
#define CLIENT_WEBSUB_DELIVERIES_H

#include "client/tidings.h"
#include "client/websub/callback.h"

/* What a subscription's deliveries are signed with. */
struct delivery_key {
    unsigned number;    /* of the subscription: tells them apart */
    int64_t since_s;    /* it is active; Unix time */
    const char *secret; /* NULL: none, all is believed */
    bool has_webhooks;  /* the hub has sent their headers: it will again */
};

struct deliveries;

/* `options` are copied. NULL: no memory. */
struct deliveries *deliveries_new(struct loop *loop,
                                  const struct td_subscriber_options *options);

/* Also from on_delivery. NULL is allowed. */
void deliveries_free(struct deliveries *deliveries);

/* Judges a delivery, answers it and, perhaps, keeps it to be handed over soon.
 * `topic` is copied. `now_s`: Unix time. */
void deliveries_take(struct deliveries *deliveries, struct delivery_key *key,
                     const char *topic, int64_t now_s, struct arrival *arrival,
                     struct reply *reply);

/* What is counted; `unknown` is the caller's to count. */
struct td_subscriber_counts *deliveries_counts(struct deliveries *deliveries);

#endif
