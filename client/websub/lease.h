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
 * A denial is a GET without a signature: whoever knows the callback URL can
 * send it. While the request is pending nobody but the hub knows that URL, and
 * a denial is the hub's answer. Later it is no more than a rumour: the lease
 * tells LEASE_DOUBTED and stays what it is.
 *
 * A hub may verify before it answers the request (W section 11): both are under
 * way at the same time. A verification that comes again is confirmed again as
 * long as the subscription is wanted: the first answer may have been lost.
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
    LEASE_DOUBTED, /* somebody says that it was denied: why->text is the reason.
                      Only the hub knows */
    LEASE_LEFT     /* lease_leave has come to its end. Nothing after it */
};

struct lease;

/* On the loop, never from inside a call of a lease; may free the lease. */
typedef void lease_fn(struct lease *lease, enum lease_event event,
                      const struct problem *why, void *user);

struct lease_plan {
    struct td_callback *callback;
    struct deliveries *deliveries; /* where they go */
    const char *hub, *topic;
    uint64_t lease_s;   /* asked for; 0: the hub's default */
    bool has_no_secret; /* else one, of its own, where it is safe (W-030) */
    size_t max_bytes;   /* of a delivery */
    unsigned number;    /* tells it apart from others of the subscriber */
    lease_fn *on_event;
    void *user;
};

/* Asks. NULL: no memory. */
struct lease *lease_new(const struct lease_plan *plan);

/* NULL is allowed. The hub is not told. */
void lease_free(struct lease *lease);

/* Asks the hub to end it, again and again for a while. `is_shut`: deliveries
 * are answered with 410 from now on; else they are taken as long as they come.
 */
void lease_leave(struct lease *lease, bool is_shut);

bool lease_is_active(const struct lease *lease);
uint64_t lease_seconds(const struct lease *lease); /* as granted */
const char *lease_topic(const struct lease *lease);

/* Where the hub that was asked has moved to for good; NULL: it has not. */
const char *lease_moved(const struct lease *lease);

#endif
