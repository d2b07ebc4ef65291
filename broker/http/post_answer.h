/*
 * post_answer.h - common parts of all posts of changes: access, key, answer.
 */
#ifndef BROKER_HTTP_POST_ANSWER_H
#define BROKER_HTTP_POST_ANSWER_H

#include "broker/net/request.h"
#include "broker/posts/ingest.h"
#include "proto/idempotency_key.h"
#include "proto/problem.h"
#include "proto/status.h"

/* During on_request: refuses deliveries of a hub. */
MUST_CHECK enum status post_answer_check_publisher(struct request *rq,
                                                   struct problem *why);

/* During on_request: reads the Idempotency-Key; size 0: none. */
MUST_CHECK enum status post_answer_key(struct request *rq, struct key *key,
                                       struct problem *why);

/* Answers when the log has answered: with the positions, or with a refusal,
 * which it counts. `rq` NULL: the connection has ended. */
void post_answer_answer(struct request *rq, const struct ingest *ingest);

void post_answer_count_rejected(enum status rc);

#endif
