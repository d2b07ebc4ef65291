/*
 * acts.h - the acts of one round: the acts of the next commit, in the order of
 * their posts.
 *
 * The log thread's. Nothing of a round is durable or visible before the engine
 * has committed it.
 */
#ifndef BROKER_LOG_ACTS_H
#define BROKER_LOG_ACTS_H

#include <stddef.h>
#include <stdint.h>

#include "broker/log/act.h"
#include "proto/status.h"

/* All zero: none. */
struct acts {
    int64_t at_us; /* the clock when the round began */
    struct act *all;
    size_t n, capacity;
    size_t n_of[ACT_KINDS];
    size_t last_key; /* index + 1 of the last ACT_KEY; 0: none */
};

/* Appends a copy of `act`, which concerns `set` (NULL: no set). Takes the
 * header of an ended list, also when it fails. STATUS_MEMORY. */
MUST_CHECK enum status acts_add(struct acts *acts, struct log_set *set,
                                const struct act *act);

/* The key of the round with that id, lent until the next acts_add; NULL: the
 * round has none. */
const struct act_key *acts_find_key(const struct acts *acts,
                                    const struct digest *id);

/* Removes all acts. */
void acts_clear(struct acts *acts);

void acts_fini(struct acts *acts);

#endif
