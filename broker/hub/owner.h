/*
 * owner.h - whose subscription it is: the principal that asked for it.
 *
 *     name          whose end ends the subscription
 *     press         when no token "press" is alive that may subscribe
 *     everyone, ""  when clients without a token may not subscribe. "" is a
 *                   client of an open broker: its first token leaves only those
 *                   subscriptions that everyone may have
 *     with a ":"    when the principal ends; after a restart, at the time in
 *                   hub.db: there is no such token (principal.h)
 *
 * hub.db keeps name, time and requester, so a token that ended while the broker
 * was down, or was killed, ends its subscriptions at the start.
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_OWNER_H
#define BROKER_HUB_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/access/tokens.h"
#include "broker/base/client_limits.h"
#include "proto/slice.h"
#include "proto/status.h"

/* All zero: that of an open broker. */
struct owner {
    char requester[CLIENT_NAME_SIZE]; /* client_name of the client that counts
                                         without a token; "": the hub */
    char *name;                       /* NULL: "" */
    int64_t ends_us;                  /* of a name with a colon */
    struct principal *principal; /* as of the last look: a reference, which may
                                    subscribe until its end; NULL: none */
    struct client *client;       /* owner_client's; NULL: not asked for yet */
};

void owner_init(struct owner *owner, struct slice name, int64_t ends_us,
                struct slice requester);
void owner_fini(struct owner *owner);

/* The name, terminated. */
const char *owner_name(const struct owner *owner);

/* The client for limits, and for turns: lent until owner_fini. */
struct client *owner_client(struct owner *owner, struct clients *clients);

/* True if it may subscribe to the set or relay `name`, the same at each call.
 * A private set (`is_private`) is for tokens alone. `tokens` NULL: it may. */
bool owner_may_subscribe(struct owner *owner, struct tokens *tokens,
                         struct slice name, bool is_private, int64_t now_us);

#endif
