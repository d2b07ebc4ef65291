/*
 * hub_subscription.h - one subscription at a hub: a topic and a callback URL of
 * its own, from the request to its end.
 *
 *     ASKING --202--> ASKED --verified--> ACTIVE --leave--> LEAVING
 *        |               |                  ^ |                |
 *        +--verified-----|------------------+ |   verified, refused,
 *        |               |                    |   given up, lease over
 *        +--> refused, no verification, denied+---------> OVER <--+
 *
 * The request, to subscribe or to unsubscribe:
 *
 *     POST hub.mode=..&hub.topic=..&hub.callback=.. --> 202
 *                 ^                                  \
 *                 +-- the same, there ----------------- 307, 308 (W-033)
 *
 * A denial is a GET without a signature: anybody who knows the callback URL can
 * send it. While the request is pending, only the hub knows that URL, and the
 * denial is its answer. Later a denial proves nothing: the lease reports
 * HUB_SUBSCRIPTION_DOUBTED and keeps its state.
 *
 * A hub may verify before it answers the request (W section 11): both are under
 * way at the same time. The lease confirms each repeated verification as long
 * as the subscription is wanted: the first answer may have been lost.
 */
#pragma once

#include "client/websub/callback.h"
#include "client/websub/delivery_queue.h"
#include "proto/http/websub.h"

#define SECRET_BYTES 32

/* "whsec_", the bytes in base64, NUL: the format of Standard Webhooks, for hubs
 * that speak it (W-106). */
#define SECRET_SIZE (6 + (SECRET_BYTES + 2) / 3 * 4 + 1)

enum lease_state {
    LEASE_ASKING,
    LEASE_ASKED,
    LEASE_ACTIVE,
    LEASE_LEAVING,
    LEASE_OVER
};

/* A request to the hub: to subscribe, to unsubscribe (W-020). */
struct hub_request {
    struct fetch *fetch; /* NULL: it has ended */
    enum websub_mode mode;
    char *hub; /* of this hop */
    unsigned n_redirects;
    bool has_secret;  /* the hub of this hop gets it */
    bool is_for_good; /* all redirects so far were 308 */
    struct buf body;
};

enum hub_subscription_event {
    HUB_SUBSCRIPTION_ACCEPTED, /* the hub took the request */
    HUB_SUBSCRIPTION_ACTIVE,   /* it is verified (again), for lease_s */
    HUB_SUBSCRIPTION_FAILED,   /* why->text says why. Nothing after it */
    HUB_SUBSCRIPTION_DENIED, /* why->text: the hub's reason. Nothing after it */
    HUB_SUBSCRIPTION_DOUBTED, /* somebody claims that it was denied: why->text
                      is the reason. Only the hub knows */
    HUB_SUBSCRIPTION_LEFT /* hub_subscription_leave has come to its end. Nothing
                             after it */
};

struct hub_subscription;

/* On the loop, never from inside a call of a lease; may free the lease. */
typedef void hub_subscription_fn(struct hub_subscription *lease,
                                 enum hub_subscription_event event,
                                 const struct problem *why, void *user);

struct hub_subscription_plan {
    struct td_callback *callback;
    struct delivery_queue *deliveries; /* takes its deliveries */
    uint64_t lease_s;                  /* requested; 0: the hub's default */
    bool has_no_secret; /* else one, of its own, where it is safe (W-030) */
    size_t max_bytes;   /* of a delivery */
    unsigned number;    /* of the subscriber's leases */
    hub_subscription_fn *on_event;
    void *user;
};

/* For others only to read. */
struct hub_subscription {
    struct retired retired; /* the first */
    struct hub_subscription_plan plan;
    char *hub, *topic;
    char *moved; /* the new permanent address of the hub; NULL: none */
    struct route *route;
    struct hub_request request;
    struct timer wait;   /* for the verification, or until the next attempt */
    struct timer report; /* reports changes by a request of the hub */
    enum lease_state state;

    struct delivery_key key;
    char secret[SECRET_SIZE];
    uint64_t lease_s; /* as granted */
    int64_t end_ms;   /* of the lease */
    bool is_shut;
    unsigned n_attempts; /* to leave */
    unsigned pause_ms;

    /* Events to report */
    bool is_verified, is_denied, is_doubted, is_left;
    struct problem why;
};

/* Sends the request to `hub`. NULL: no memory. */
struct hub_subscription *
hub_subscription_new(const struct hub_subscription_plan *plan, const char *hub,
                     const char *topic);

/* Frees it without a request to the hub. NULL is allowed. */
void hub_subscription_free(struct hub_subscription *lease);

/* Asks the hub to end it, again and again for a while. `is_shut`: deliveries
 * get 410 from now on; else the lease goes on taking them. */
void hub_subscription_leave(struct hub_subscription *lease, bool is_shut);

/* True if a secret may be sent there: by https, or to this machine (W-030). */
bool hub_subscription_is_safe(const char *hub);
