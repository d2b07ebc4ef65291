/*
 * archiver.h - the archive thread: what is due, in which order.
 *
 * It may lag; nothing waits for it. What it has not done when the process ends,
 * it finds again at the next start.
 */
#ifndef BROKER_ARCHIVE_ARCHIVER_H
#define BROKER_ARCHIVE_ARCHIVER_H

#include "broker/sets/registry.h"
#include "proto/problem.h"
#include "proto/status.h"

struct archiver;

MUST_CHECK enum status archiver_open(struct archiver **archiver,
                                     struct registry *registry,
                                     struct problem *why);

/* There is a list to file. Any thread. */
void archiver_wake(struct archiver *archiver);

/* How often in a row a closed list could not be written to its file; 0: all is
 * well. Any thread. */
unsigned archiver_failures(struct archiver *archiver);

/* Ends the thread after what it is writing; it can still be asked. NULL is
 * allowed. */
void archiver_stop(struct archiver *archiver);

/* archiver_stop, then frees it: nobody asks any more. NULL is allowed. */
void archiver_close(struct archiver *archiver);

#endif
