/*
 * posted.h - common parts of all posts of changes: access, key, answer.
 */
#ifndef BROKER_HTTP_POSTED_H
#define BROKER_HTTP_POSTED_H

#include "broker/net/request.h"
#include "broker/sets/ingest.h"
#include "proto/key.h"
#include "proto/problem.h"
#include "proto/status.h"

/* During on_request: refuses deliveries of a hub. */
MUST_CHECK enum status posted_check_publisher(struct request *rq,
                                              struct problem *why);

/* During on_request: reads the Idempotency-Key; size 0: none. */
MUST_CHECK enum status posted_key(struct request *rq, struct key *key,
                                  struct problem *why);

/* Answers when the log has answered: with the positions, or with a refusal,
 * which it counts. `rq` NULL: the connection has ended. */
void posted_answer(struct request *rq, const struct ingest *ingest);

void posted_count_rejected(enum status rc);

#endif
