/*
 * subscription_request.h - a subscriber's request to a hub: to subscribe, to
 * unsubscribe (W-020).
 *
 *     POST hub.mode=..&hub.topic=..&hub.callback=.. --> 202
 *                 ^                                  \
 *                 +-- the same, there ----------------- 307, 308 (W-033)
 */
#ifndef CLIENT_WEBSUB_SUBSCRIPTION_REQUEST_H
#define CLIENT_WEBSUB_SUBSCRIPTION_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/client.h"
#include "proto/problem.h"
#include "proto/websub.h"

/* Lent until subscription_request_start returns. */
struct subscription_request_plan {
    enum websub_mode mode;
    const char *hub;
    const char *topic;
    const char *callback;
    const char *secret; /* NULL: none. Sent only if subscription_request_is_safe
                           says so (W-030), of each hub on the way */
    uint64_t lease_s;   /* 0: none requested */
};

/* The result. Lent. */
struct subscription_request_end {
    struct problem
        why; /* STATUS_OK: the hub took it. STATUS_REFUSED, STATUS_GONE: the
                hub's reason for its refusal; STATUS_UNREACHABLE,
                STATUS_MALFORMED, STATUS_MEMORY */
    const char *hub;   /* the last one to answer */
    const char *moved; /* the hub's new permanent address (308); NULL: it has
                          none */
    bool has_secret;   /* the hub that took it has the secret */
};

typedef void
subscription_request_end_fn(const struct subscription_request_end *end,
                            void *user);

struct subscription_request;

/* NULL: no memory. Calls nothing before it returns; the request frees itself
 * after on_end. */
struct subscription_request *
subscription_request_start(struct td_client *client,
                           const struct subscription_request_plan *plan,
                           subscription_request_end_fn *on_end, void *user);
void subscription_request_free(
    struct subscription_request *request); /* NULL; not after on_end */

/* True if a secret may be sent there: by https, or to this machine. */
bool subscription_request_is_safe(const char *hub);

#endif
