/*
 * retain.h - which lists may go: the oldest first, visibly.
 *
 * A set retains its latest `retainLists` closed lists, and those that ended
 * less than `retainAge` ago; 0 means all and for ever. The same holds of what
 * is in its other archives, of which the last one always stays. What is not
 * filed yet stays, and what is not in the set's state on the disk (folding.h)
 * and in its content (contents.h); within bounds, what a Change Dump is to be
 * built of stays, too (changedumps.h). Of the framework log a fixed number is
 * retained. One commit moves the earliest position, the index and the archive
 * together; files go later (log_purge).
 *
 * Archive thread.
 */
#ifndef BROKER_ARCHIVE_RETAIN_H
#define BROKER_ARCHIVE_RETAIN_H

#include "broker/sets/registry.h"

/* Looks at all sets, and the framework log. Costs a look at the head for those
 * that have nothing to let go. */
void retain_all(struct registry *registry);

#endif
