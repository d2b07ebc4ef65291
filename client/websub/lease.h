/*
 * lease.h - one subscription at a hub: a topic and a callback URL of its own,
 * from the request to its end.
 *
 *     ASKING --202--> ASKED --verified--> ACTIVE --lease_leave--> LEAVING
 *        |               |                  ^ |                      |
 *        +--verified-----|------------------+ |    verified, refused,|
 *        |               |                    |   given up, lease over
 *        +--> refused, no verification, denied+---------> OVER <-----+
 *
 * A denial is a GET without a signature: anybody who knows the callback URL can
 * send it. While the request is pending, only the hub knows that URL, and the
 * denial is its answer. Later a denial proves nothing: the lease reports
 * LEASE_DOUBTED and keeps its state.
 *
 * A hub may verify before it answers the request (W section 11): both are under
 * way at the same time. The lease confirms each repeated verification as long
 * as the subscription is wanted: the first answer may have been lost.
 */
#ifndef CLIENT_WEBSUB_LEASE_H
#define CLIENT_WEBSUB_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/websub/callback.h"
#include "client/websub/deliveries.h"
#include "proto/problem.h"

enum lease_event {
    LEASE_ACCEPTED, /* the hub took the request */
    LEASE_ACTIVE,  /* it is verified (again): lease_seconds says for how long */
    LEASE_FAILED,  /* why->text says why. Nothing after it */
    LEASE_DENIED,  /* why->text: the hub's reason. Nothing after it */
    LEASE_DOUBTED, /* somebody claims that it was denied: why->text is the
                      reason. Only the hub knows */
    LEASE_LEFT     /* lease_leave has come to its end. Nothing after it */
};

struct lease;

/* On the loop, never from inside a call of a lease; may free the lease. */
typedef void lease_fn(struct lease *lease, enum lease_event event,
                      const struct problem *why, void *user);

struct lease_plan {
    struct td_callback *callback;
    struct deliveries *deliveries; /* takes its deliveries */
    const char *hub, *topic;
    uint64_t lease_s;   /* requested; 0: the hub's default */
    bool has_no_secret; /* else one, of its own, where it is safe (W-030) */
    size_t max_bytes;   /* of a delivery */
    unsigned number;    /* of the subscriber's leases */
    lease_fn *on_event;
    void *user;
};

/* Sends the request. NULL: no memory. */
struct lease *lease_new(const struct lease_plan *plan);

/* Frees it without a request to the hub. NULL is allowed. */
void lease_free(struct lease *lease);

/* Asks the hub to end it, again and again for a while. `is_shut`: deliveries
 * get 410 from now on; else the lease goes on taking them. */
void lease_leave(struct lease *lease, bool is_shut);

bool lease_is_active(const struct lease *lease);
uint64_t lease_seconds(const struct lease *lease); /* as granted */
const char *lease_topic(const struct lease *lease);

/* The new permanent address of the hub; NULL: it has not moved. */
const char *lease_moved(const struct lease *lease);

#endif
