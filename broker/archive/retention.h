/*
 * retention.h - removes old lists from the log, the oldest first, visibly.
 *
 * A set retains its latest `retainLists` closed lists, and those that ended
 * less than `retainAge` ago; 0 means all and for ever. The same holds for its
 * archives of Resource Lists and dumps, but the last one always stays. A list
 * stays as long as it has no file, and as long as another chore needs it
 * (chore.h). The framework log retains a fixed number of lists. One commit
 * moves the earliest position, the index and the archive together;
 * files go later (log_purge). While a backup copies files all lists stay
 * (log.h).
 *
 * A set with nothing to remove costs one look at its head.
 *
 * Archive thread.
 */
#pragma once

#include "broker/archive/chore.h"
#include "broker/sets/registry.h"

struct retaining {
    struct chore chore;
    struct registry *registry;
    const struct list *chores;
};

/* `chores`: the chores that may need lists; lent. */
void retention_init(struct retaining *retaining, struct registry *registry,
                    const struct list *chores);
