/*
 * posted.h - what all posts of changes have in common: who may post, their key,
 * their answer.
 */
#ifndef BROKER_HTTP_POSTED_H
#define BROKER_HTTP_POSTED_H

#include "broker/net/request.h"
#include "broker/sets/ingest.h"
#include "proto/key.h"
#include "proto/problem.h"
#include "proto/status.h"

/* During on_request: is it not what a hub delivers? */
MUST_CHECK enum status posted_check_publisher(struct request *rq,
                                              struct problem *why);

/* During on_request: the Idempotency-Key; size 0: it has none. */
MUST_CHECK enum status posted_key(struct request *rq, struct key *key,
                                  struct problem *why);

/* The log has answered: counts a refusal, and tells it or the positions. `rq`
 * may be NULL: the connection is gone. */
void posted_answer(struct request *rq, const struct ingest *ingest);

void posted_count_rejected(enum status rc);

#endif
