/*
 * stamping.h - placing a post into the round: its entries get seqs and times,
 * batches and lists; other posts what they ask for.
 *
 * The log thread's, as a part of commit.c, which makes the round durable and
 * visible, or undoes all that was placed.
 */
#ifndef BROKER_LOG_STAMPING_H
#define BROKER_LOG_STAMPING_H

#include "broker/log/commit.h"

/* Places one post, of any kind. STATUS_MEMORY: the round fails. */
MUST_CHECK enum status stamping_place(struct committer *c, struct post *post);

/* The batch that is being filled, if any, gets no more entries. */
void stamping_finish(struct log_set *set);

#endif
