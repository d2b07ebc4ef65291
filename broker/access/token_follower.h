/*
 * token_follower.h - the thread of a broker of a cluster that reads, every
 * second, which tokens other brokers have made and ended (tokens_follow), and
 * the keys of tickets (request_tickets_follow).
 */
#ifndef BROKER_ACCESS_TOKEN_FOLLOWER_H
#define BROKER_ACCESS_TOKEN_FOLLOWER_H

#include "broker/access/request_tickets.h"
#include "broker/access/tokens.h"
#include "proto/problem.h"
#include "proto/status.h"

struct token_follower;

/* Reads them once before it returns, and starts the thread. If the journal does
 * not answer, the log says so, and it returns STATUS_OK. `tokens`, after
 * tokens_join, and `tickets` are lent. */
MUST_CHECK enum status token_follower_open(struct token_follower **follower,
                                           struct tokens *tokens,
                                           struct request_tickets *tickets,
                                           struct problem *why);
void token_follower_close(struct token_follower *f); /* NULL is allowed */

#endif
