/*
 * folding.h - folds every set's log into its state (broker/state/resources.h),
 * a step at a time.
 *
 * A step is one transaction of one set, and so bounded; sets take turns. Of the
 * states a few are open at a time. Nobody waits for the fold but retention: a
 * list goes when the state that it has led to is on the disk, so that what a
 * crash of the machine takes of the state is still in the log. Nothing wakes it
 * either: what is behind is found in the look at all sets that the archive
 * thread takes each second, as it does for lists that are old; Resource Lists
 * are built at most every some seconds, and a fold that is behind does not
 * sleep.
 *
 * Archive thread.
 */
#ifndef BROKER_ARCHIVE_FOLDING_H
#define BROKER_ARCHIVE_FOLDING_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/archive/chore.h"
#include "broker/archive/opened.h"
#include "broker/archive/turn.h"
#include "broker/sets/registry.h"
#include "broker/state/resources.h"
#include "proto/problem.h"
#include "proto/status.h"

struct folding {
    struct chore chore;
    struct registry *registry;

    struct opened states;
    const struct set *held; /* folding_hold */

    struct turn turn;
    bool is_due;   /* there is a turn to be taken */
    bool is_again; /* a set had more than one step could take */
};

void folding_init(struct folding *folding, struct registry *registry);

/* One step of that set, none while it is held; *is_more: it has not come to the
 * head. STATUS_GONE: the set was removed; STATUS_STOPPED: the log is ending. */
MUST_CHECK enum status folding_step(struct folding *folding, struct set *set,
                                    bool *is_more, struct problem *why);

/* Where it is: "DATA/sets/NAME/resources.db". */
#define FOLDING_PATH_MAX (SET_DIR_MAX + 32)
void folding_path(const struct set *set, char path[FOLDING_PATH_MAX]);

/* The state of a set that exists, lent until the next call of any of these: it
 * is as far as the last step has brought it (resources_at); but see is_whole.
 */
MUST_CHECK enum status folding_open(struct folding *folding, struct set *set,
                                    struct resources **resources,
                                    struct problem *why);

/* Up to which entry the set's state is; 0 as long as nobody has looked. Has
 * somebody? */
uint64_t folding_seq(const struct set *set);
bool folding_is_known(const struct set *set);

/* Is what the list tells not in the state on the disk yet, where no crash can
 * take it from? Then the fold is asked for it. */
bool folding_needs(struct set *set, const struct list_info *list);

/* Leaves the state of this set as it is, until another one is named, or NULL:
 * who walks it in several steps has it of one moment. */
void folding_hold(struct folding *folding, const struct set *set);
bool folding_is_held(const struct folding *folding, const struct set *set);

#endif
