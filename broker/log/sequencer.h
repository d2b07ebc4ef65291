/*
 * sequencer.h - places a post into the round: assigns seqs, times, batches and
 * lists to its entries, and makes the acts of other posts.
 *
 * On the log thread, as a part of log_thread.c, which makes the round durable
 * and visible, or undoes all placed posts.
 */
#ifndef BROKER_LOG_SEQUENCER_H
#define BROKER_LOG_SEQUENCER_H

#include "broker/log/log_thread.h"

/* Places one post, of any kind. STATUS_MEMORY: the round fails. */
MUST_CHECK enum status sequencer_place(struct log_thread *c, struct post *post);

/* Ends the batch that is being filled, if any. */
void sequencer_finish(struct log_set *set);

#endif
