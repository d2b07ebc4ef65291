/*
 * request_tickets.h - the tickets of POST /tickets: each lets one GET in.
 *
 * The tickets of a single broker are in its memory (tickets.h). In a cluster a
 * ticket of a token holds at all brokers, and says all that they need:
 *
 *     0123456789ab-00065f3c5b8d2a40-<32 digits>-<64 digits>
 *     ID of the    its end, in µs   random      HMAC-SHA256 of what is before
 *     token
 *
 * The key of the HMAC is random, and in the stream "tickets" (streams.h), which
 * no broker writes to its disk. A broker makes a new key each hour; the last
 * two count, each for two hours. Ticket and token end together: each broker
 * looks for the token when the ticket comes. Each broker lets a ticket in once,
 * so all together let it in as often as there are brokers.
 *
 * The clocks of the brokers may differ by some seconds. A broker without a key,
 * which was cut off for long, gives tickets of its memory. So does every broker
 * for a JSON Web Token: its principal is known to one broker.
 *
 * Any thread.
 */
#pragma once

#include "broker/access/checkpoint_keys.h"
#include "broker/access/principal.h"
#include "broker/access/tokens.h"
#include "broker/base/client_limits.h"
#include "broker/cluster/streams.h"

/* ID, end, random digits and HMAC, a '-' between them, and a NUL. */
#define REQUEST_TICKET_SIZE (TOKEN_ID_SIZE + 1 + 16 + 1 + 32 + 1 + 64 + 1)

/* A key is replaced at this age, and counts to twice of it. */
#define TICKET_KEY_US (3600 * INT64_C(1000000))

/* Other brokers know a new key so soon; until then the former one signs. */
#define TICKET_KEY_NEW_US 5000000

/* How often a broker makes a key at most, whatever the clocks of others say. */
#define TICKET_KEY_PAUSE_US 60000000

/* A token that another broker revoked ends here within two seconds. */
#define TICKET_FOLLOW_US 1000000

struct request_tickets;

/* `tokens` and `clients` are lent. */
struct request_tickets *request_tickets_new(struct tokens *tokens,
                                            struct clients *clients);
void request_tickets_free(struct request_tickets *tickets); /* NULL is allowed
                                                             */

/* Makes a ticket of `principal`, which counts for `client`. STATUS_LIMITED,
 * STATUS_BUSY: there are too many. */
MUST_CHECK enum status request_tickets_add(struct request_tickets *tickets,
                                           struct principal *principal,
                                           struct client *client,
                                           char text[REQUEST_TICKET_SIZE],
                                           struct problem *why);

/* Returns a reference to the principal of a ticket, which may be over, and uses
 * the ticket up. NULL: there is no such ticket, or it was used, is too old, or
 * more came within two minutes than this broker remembers of the owner, or of
 * all (TICKETS_USED_ALL). */
struct principal *request_tickets_take(struct request_tickets *tickets,
                                       struct slice text);

/* In a cluster: reads the keys, and makes the next one when it is time. The
 * caller has `streams` to itself, and may wait for the network. One thread at a
 * time. After a failure the keys stay as they are. */
MUST_CHECK enum status request_tickets_follow(struct request_tickets *tickets,
                                              struct streams *streams,
                                              struct problem *why);

/* Starts the thread of a broker of a cluster, which request_tickets_free ends:
 * every second it reads which tokens other brokers have made and ended
 * (tokens_follow), and the keys of tickets and `checkpoints`, lent. Does so
 * once before it returns. If the journal does not answer, the log says so, and
 * it returns STATUS_OK. After tokens_join. */
MUST_CHECK enum status
request_tickets_start(struct request_tickets *tickets,
                      struct checkpoint_keys *checkpoints, struct problem *why);
