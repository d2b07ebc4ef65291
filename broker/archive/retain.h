/*
 * retain.h - which lists may go: the oldest first, visibly.
 *
 * A set retains its latest `retainLists` closed lists, and those that ended
 * less than `retainAge` ago; 0 means all and for ever. The same holds of what
 * is in its other archives, of which the last one always stays. A list stays as
 * long as it has no file, and as long as another chore needs it (chore.h). Of
 * the framework log a fixed number is retained. One commit moves the earliest
 * position, the index and the archive together; files go later
 * (log_purge).
 *
 * A look costs little for a set that has nothing to let go: one at its head.
 *
 * Archive thread.
 */
#ifndef BROKER_ARCHIVE_RETAIN_H
#define BROKER_ARCHIVE_RETAIN_H

#include "broker/archive/chore.h"
#include "broker/sets/registry.h"

struct retaining {
    struct chore chore;
    struct registry *registry;
    const struct list *chores;
};

/* `chores`: those that may need lists; lent. */
void retain_init(struct retaining *retaining, struct registry *registry,
                 const struct list *chores);

#endif
