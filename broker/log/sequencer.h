/*
 * sequencer.h - turns the posts of a round into acts: gives entries their seqs,
 * times, batches and lists, new sets their ids, and trash the time when it is
 * due.
 *
 * The acts of another broker (record.h) make a round, too: they are what they
 * are, and only move the drafts.
 *
 * Each set has a draft of its head (log_set.h), which the posts of a round move
 * on. Nothing of it is durable or visible before the log thread has committed
 * the acts and published the drafts; sequencer_revert undoes all of it.
 *
 * The log thread's.
 */
#pragma once

#include <stdatomic.h>

#include "broker/log/act.h"
#include "broker/log/engine.h"
#include "broker/log/log.h"
#include "broker/log/post.h"

struct sequencer {
    struct engine *engine;             /* gives ids */
    const struct log_options *options; /* limits of lists, their headers */
    atomic_size_t *forms;              /* account of new batches */
    struct list touched;               /* sets of the round */
    struct acts acts;                  /* of the round */
};

/* All pointers are lent. */
void sequencer_init(struct sequencer *s, struct engine *engine,
                    const struct log_options *options, atomic_size_t *forms);

/* Places one post, of any kind, behind the others of the round. STATUS_MEMORY:
 * the round fails. */
MUST_CHECK enum status sequencer_place(struct sequencer *s, struct post *post);

/* Adds an act of another broker to the round, for that set. STATUS_DIFFERENT:
 * it does not follow from what the set is here. STATUS_MEMORY. Either way the
 * round fails. */
MUST_CHECK enum status sequencer_follow(struct sequencer *s,
                                        struct log_set *set,
                                        const struct act *act,
                                        struct problem *why);

/* Completes the batches of the round: nothing is placed any more. */
void sequencer_finish(struct sequencer *s);

/* Returns all sets of the round to their published heads. */
void sequencer_revert(struct sequencer *s);
