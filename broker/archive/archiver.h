/*
 * archiver.h - the archive thread: runs its chores in a fixed order.
 *
 * It may lag; nothing waits for it. It finds unfinished work again at the next
 * start.
 */
#pragma once

#include "broker/sets/registry.h"
#include "proto/http/network_address.h"

struct archiver;
struct contents;
struct build_order;
struct uploads;

/* Opens everything but the thread itself. `allowed`: the networks from which
 * content may be fetched; lent as long as the archiver lives. */
MUST_CHECK enum status archiver_open(struct archiver **archiver,
                                     struct registry *registry,
                                     const struct networks *allowed,
                                     struct problem *why);

/* Adds a chore of another part behind those of the archive. Before
 * archiver_start; lent until archiver_stop. */
struct chore;
void archiver_add(struct archiver *archiver, struct chore *chore);

/* Starts the thread. */
MUST_CHECK enum status archiver_start(struct archiver *archiver,
                                      struct problem *why);

/* There is a list to file. Any thread, once it was started. */
void archiver_wake(struct archiver *archiver);

/* The uploads of complete sets: uploads.h. */
struct uploads *archiver_uploads(struct archiver *archiver);

/* The bytes that sets keep: contents.h. */
struct contents *archiver_contents(struct archiver *archiver);

/* Submits an order for a build (build_schedule.h). Any thread. STATUS_STOPPED:
 * the order was not taken. */
MUST_CHECK enum status archiver_order(struct archiver *archiver,
                                      struct build_order *order);

/* How often in a row a closed list could not be written to its file; 0: all is
 * well. Any thread. */
unsigned archiver_failures(struct archiver *archiver);

/* Sets the metrics of how many entries states and content lack. Its thread. */
void archiver_measure(struct registry *registry);

/* Ends the thread, which abandons the files that it is writing; the caller has
 * stopped the log (log_ending). The archiver still answers queries. NULL is
 * allowed. */
void archiver_stop(struct archiver *archiver);

/* archiver_stop, then frees it; no further call is allowed. NULL is allowed. */
void archiver_close(struct archiver *archiver);
