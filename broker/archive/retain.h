/*
 * retain.h - which closed lists may go: the oldest first, visibly.
 *
 * A set retains its latest `retainLists` closed lists, and those that ended
 * less than `retainAge` ago; 0 means all and for ever. What is not filed yet
 * stays; of the framework log a fixed number is retained. One commit moves the
 * earliest position, the index and the archive together; files go later
 * (log_purge).
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
