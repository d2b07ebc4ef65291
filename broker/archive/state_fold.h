/*
 * state_fold.h - folds every set's log into its state
 * (broker/state/resources.h), a step at a time.
 *
 * A step is one transaction of one set, and so bounded; sets take turns. A few
 * states are open at a time. Only retention waits for the fold: it removes a
 * list once the state with its entries is on the disk, so the log still has
 * what a crash of the machine takes from the state. In a cluster another broker
 * may have removed the list; then its entries stay here until the state has
 * them (log_purge). Nothing wakes the fold:
 * each second the archive thread looks at all sets and finds those that are
 * due, as it finds old lists.
 *
 * The more entries a step has, the less each of them costs, and while posts
 * come a step takes their processor and disk. So a set that is behind is due
 * when its state lacks very many entries, when a list, a dump, retention or its
 * content waits for the state, or when the set had no post for a while. Until
 * then its lag costs nothing: the log and the closed lists have the entries
 * anyway.
 *
 * Archive thread.
 */
#pragma once

#include "broker/archive/chore.h"
#include "broker/sets/registry.h"
#include "broker/state/resources.h"

struct state_fold {
    struct chore chore;

    struct folds states;
    const struct set *held; /* not folded, so that a build can walk the state of
                               one moment in several steps; NULL: none */
    int64_t rest_us;        /* without a post a set is due after that time */
    uint64_t lag;           /* a state that lacks so many entries is due */
    struct turn turn;
};

void state_fold_init(struct state_fold *folding, struct registry *registry);

/* One step of that set, none while its state is held. *is_more: the fold has
 * not come to the head. STATUS_GONE: the set was removed; STATUS_STOPPED: the
 * log is ending. */
MUST_CHECK enum status state_fold_step(struct state_fold *folding,
                                       struct set *set, bool *is_more,
                                       struct problem *why);

/* Opens the state of a set that exists, lent until the next call of any of
 * these. It is as far as the last step has brought it (resources_at); but see
 * is_whole.
 */
MUST_CHECK enum status state_fold_open(struct state_fold *folding,
                                       struct set *set,
                                       struct resources **resources,
                                       struct problem *why);

/* The last entry in the set's state; 0 as long as nobody has looked. And: true
 * if somebody has. */
uint64_t state_fold_seq(const struct set *set);
bool state_fold_is_known(const struct set *set);

/* True if entries of the list are not in the state on the disk yet, where no
 * crash can take them from. Then asks the fold for them. */
bool state_fold_needs(struct set *set, const struct list_info *list);

/* In a cluster: returns true and sets *list if this broker has a Resource List
 * to build from the state of the set. The fold stops at the position of that
 * list. Archived lists that this broker lacks come first, in the order of their
 * numbers; then the current list; then the ordered list. While the disk is
 * nearly full and retention waits for later entries, the fold does not stop:
 * then this broker never builds the list. */
bool state_fold_list(const struct set *set, const struct head *head,
                     struct generation *list);
