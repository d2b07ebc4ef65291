/*
 * archiver.h - the archive thread: what is due, in which order.
 *
 * It may lag; nothing waits for it. What it has not done when the process ends,
 * it finds again at the next start.
 */
#ifndef BROKER_ARCHIVE_ARCHIVER_H
#define BROKER_ARCHIVE_ARCHIVER_H

#include "broker/sets/registry.h"
#include "proto/address.h"
#include "proto/problem.h"
#include "proto/status.h"

struct archiver;
struct contents;
struct renewal_order;
struct uploads;

/* All but the thread itself: from now on posts are looked at for the content
 * that they tell of (checking.h), so it comes before whoever posts. `allowed`:
 * who may be called to fetch content; lent as long as it lives. */
MUST_CHECK enum status archiver_open(struct archiver **archiver,
                                     struct registry *registry,
                                     const struct networks *allowed,
                                     struct problem *why);

/* Starts the thread. */
MUST_CHECK enum status archiver_start(struct archiver *archiver,
                                      struct problem *why);

/* There is a list to file. Any thread, once it was started. */
void archiver_wake(struct archiver *archiver);

/* What sources tell whole: uploads.h. */
struct uploads *archiver_uploads(struct archiver *archiver);

/* The bytes that sets keep: contents.h. */
struct contents *archiver_contents(struct archiver *archiver);

/* Somebody waits for a build (orders.h). Any thread. STATUS_STOPPED:
 * nothing was taken. */
MUST_CHECK enum status archiver_order(struct archiver *archiver,
                                      struct renewal_order *order);

/* How often in a row a closed list could not be written to its file; 0: all is
 * well. Any thread. */
unsigned archiver_failures(struct archiver *archiver);

/* Ends the thread, which gives up what it is writing: the log has been stopped
 * (log_ending). It can still be asked. NULL is allowed. */
void archiver_stop(struct archiver *archiver);

/* archiver_stop, then frees it: nobody asks any more. NULL is allowed. */
void archiver_close(struct archiver *archiver);

#endif
