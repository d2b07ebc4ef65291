/*
 * journal_copy.h - how much of its journal the log has (journal.h), and since
 * when it cannot know.
 *
 * The copy is *certain up to a moment* if it has all records that the journal
 * kept before: then no client can have heard of more, at any broker. Two
 * threads find that out: the log thread with each turn, and the follower with
 * each look. A broker whose journal gives no turn or answers no look is *cut
 * off*: it refuses posts, and what it serves may be old.
 *
 *     log thread: a turn ---------+--> journal_copy_note ----> is_certain_since
 *     follower: a look at the end-+    journal_copy_cut_off       for readers
 *
 * Any thread.
 */
#ifndef BROKER_LOG_JOURNAL_COPY_H
#define BROKER_LOG_JOURNAL_COPY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/problem.h"

struct journal_copy {
    pthread_mutex_t mutex; /* guards the rest */
    bool is_certain;       /* it was, once, in this process */
    int64_t certain_us;    /* up to then; steady clock */
    uint64_t end;          /* the last known record of the journal */
    bool is_cut_off;
    struct problem why; /* it is cut off */
};

/* Cut off, until the journal has answered. */
void journal_copy_init(struct journal_copy *copy);

/* The copy has all records that were kept before `us` (steady clock). */
void journal_copy_note(struct journal_copy *copy, int64_t us);

/* The journal has `end` records, or more. */
void journal_copy_note_end(struct journal_copy *copy, uint64_t end);

/* The journal gives no turn, or no records. */
void journal_copy_cut_off(struct journal_copy *copy, const struct problem *why);

/* True if the copy has all records that were kept before `us` (steady
 * clock). */
bool journal_copy_is_certain(struct journal_copy *copy, int64_t us);

#endif
