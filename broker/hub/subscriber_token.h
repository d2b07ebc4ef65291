/*
 * subscriber_token.h - whose subscription it is: the principal that asked for
 * it.
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
#pragma once

#include "broker/access/tokens.h"
#include "broker/base/client_limits.h"

/* All zero: that of an open broker. */
struct subscriber_token {
    char requester[CLIENT_NAME_SIZE]; /* client_name of the client that counts
                                         without a token; "": the hub */
    char *name;                       /* NULL: "" */
    int64_t ends_us;                  /* of a name with a colon */
    struct principal *principal; /* as of the last look: a reference, which may
                                    subscribe until its end; NULL: none */
    struct client
        *client; /* subscriber_token_client's; NULL: not asked for yet */
};

void subscriber_token_init(struct subscriber_token *owner, struct slice name,
                           int64_t ends_us, struct slice requester);
void subscriber_token_fini(struct subscriber_token *owner);

/* The name, terminated. */
const char *subscriber_token_name(const struct subscriber_token *owner);

/* The client for limits, and for turns: lent until subscriber_token_fini. */
struct client *subscriber_token_client(struct subscriber_token *owner,
                                       struct clients *clients);

/* True if it may subscribe to the set or relay `name`, the same at each call.
 * A private set (`is_private`) is for tokens alone. `tokens` NULL: it may. */
bool subscriber_token_may_subscribe(struct subscriber_token *owner,
                                    struct tokens *tokens, struct slice name,
                                    bool is_private, int64_t now_us);
