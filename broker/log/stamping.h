/*
 * stamping.h - places a post into the round: assigns seqs, times, batches and
 * lists to its entries, and makes the acts of other posts.
 *
 * On the log thread, as a part of commit.c, which makes the round durable and
 * visible, or undoes all placed posts.
 */
#ifndef BROKER_LOG_STAMPING_H
#define BROKER_LOG_STAMPING_H

#include "broker/log/commit.h"

/* Places one post, of any kind. STATUS_MEMORY: the round fails. */
MUST_CHECK enum status stamping_place(struct committer *c, struct post *post);

/* Ends the batch that is being filled, if any. */
void stamping_finish(struct log_set *set);

#endif
