/*
 * checkpoint.h - keeps SQLite's write-ahead log short.
 *
 * A thread copies what it can (PASSIVE) each time the log has grown to a bound,
 * until little is left; the writer copies the rest (RESTART) between two
 * commits, so that the next one writes the log from its beginning. Automatic
 * checkpoints would hold up commits (p99 8.4 ms instead of 3.5 ms, measured);
 * PASSIVE alone lets the log grow without end.
 *
 * A larger bound saves few bytes, for large commits are in segments, and makes
 * longer waits (tests/bench/README.md).
 */
#pragma once

#include <pthread.h>

#include "base/db.h"
#include "base/thread.h"

/* The bound. */
#define CHECKPOINT_BYTES ((int64_t)4 << 20)

/* With so much more than the bound the writer copies the WAL itself and waits
 * for the thread and for readers, rather than let it grow on: on a loaded
 * machine commits may come faster than the thread copies them. */
#define CHECKPOINT_SLACK_BYTES (15 * CHECKPOINT_BYTES)

struct checkpoint {
    struct db *writer; /* the connection that commits */
    struct thread thread;
    struct db db;      /* the thread's own connection */
    int page_bytes;    /* of the database */
    int64_t wal_bytes; /* from SQLite after each commit; the writer's thread */

    /* Pages of the WAL. Relaxed: the thread copies a little less. */
    atomic_int n_pages;

    /* Held during a checkpoint of the thread, and by the writer before it
     * copies a long log: SQLite refuses a second checkpoint at once, without
     * waiting for the first. */
    pthread_mutex_t copying;

    /* The thread has copied what it could; the writer is to copy the rest.
     * Relaxed: a late look costs a round. */
    atomic_bool is_restart_due;
};

/* Copies all that a crash has left, which must succeed before anybody is
 * served; then starts the thread. */
MUST_CHECK enum status checkpoint_start(struct checkpoint *c, struct db *writer,
                                        const char *path, struct problem *why);

/* Harmless if it never started. */
void checkpoint_stop(struct checkpoint *c);

/* Between two commits, the writer's thread: completes a checkpoint that is due,
 * or makes one if the log has become long. */
void checkpoint_complete(struct checkpoint *c);

/* After a refused commit, on the writer's thread: cuts off its bytes behind the
 * last kept commit. They may be the very room that the disk lacks. */
void checkpoint_trim(struct checkpoint *c);
