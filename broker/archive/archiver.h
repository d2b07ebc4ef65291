/*
 * archiver.h - the archive thread: runs its chores in a fixed order.
 *
 * It may lag; nothing waits for it. It finds unfinished work again at the next
 * start.
 */
#pragma once

#include "broker/archive/build_schedule.h"
#include "broker/archive/changedumps.h"
#include "broker/archive/checkpoints.h"
#include "broker/archive/disk_usage.h"
#include "broker/archive/fetch_schedule.h"
#include "broker/archive/retention.h"
#include "broker/archive/rotation.h"
#include "broker/archive/uploads.h"

/* Other threads call what the members' headers allow them, and wake `thread`
 * when there is a list to file. */
struct archiver {
    struct thread thread;
    struct list chores;
    struct rotation rotation;
    struct retaining retaining;
    struct state_fold folding;
    struct checkpoints checkpoints;
    struct chore purge, sweep;
    unsigned purge_failures; /* in a row */
    int64_t purge_us;        /* not before; steady clock */
    struct contents *contents;
    struct uploads uploads;
    struct fetch_schedule fetching;
    struct build_schedule schedule;
    struct changedumps changedumps;
    struct disk_usage disk_usage;
    struct registry *registry;
};

/* Opens everything but the thread itself. `allowed`: the networks from which
 * content may be fetched; lent as long as the archiver lives. */
MUST_CHECK enum status archiver_open(struct archiver **archiver,
                                     struct registry *registry,
                                     const struct networks *allowed,
                                     struct problem *why);

/* Adds a chore of another part behind those of the archive. Before
 * archiver_start; lent until archiver_stop. */
void archiver_add(struct archiver *archiver, struct chore *chore);

/* Starts the thread. */
MUST_CHECK enum status archiver_start(struct archiver *archiver,
                                      struct problem *why);

/* Sets the metrics of how many entries states and content lack. Its thread. */
void archiver_measure(struct registry *registry);

/* Ends the thread, which abandons the files that it is writing; the caller has
 * stopped the log (log_ending). The archiver still answers queries. NULL is
 * allowed. */
void archiver_stop(struct archiver *archiver);

/* archiver_stop, then frees it; no further call is allowed. NULL is allowed. */
void archiver_close(struct archiver *archiver);
