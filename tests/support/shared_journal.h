/*
 * shared_journal.h - a journal (broker/log/journal.h) in the memory of one
 * process, for several logs.
 *
 *     struct shared_journal all;
 *     struct seat a, b;           one for each log
 *
 *     shared_journal_init(&all);
 *     options_of_a.journal = seat_take(&a, &all);
 */
#ifndef TESTS_SUPPORT_SHARED_JOURNAL_H
#define TESTS_SUPPORT_SHARED_JOURNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/log/journal.h"
#include "broker/log/log.h"
#include "proto/buf.h"

#define SHARED_RECORDS_MAX 64

struct shared_journal {
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t changed;

    struct shared_record {
        struct journal_place place;
        struct buf bytes;
    } records[SHARED_RECORDS_MAX];

    size_t n;
    int64_t now_us; /* the clock: grows by 1 s with each turn, and by 1 ms with
                       each presumed one */
    bool is_taken;  /* somebody has the turn */
    bool has_no_turns;
    unsigned n_conflicts;
};

/* What the next appends of a seat come to. */
enum seat_outcome {
    SEAT_KEPT,
    SEAT_LOST,         /* STATUS_UNREACHABLE */
    SEAT_UNKNOWN_KEPT, /* STATUS_IO */
    SEAT_UNKNOWN_LOST
};

struct seat {
    struct journal journal;
    struct shared_journal *all;
    bool is_cut;      /* it gets no turn */
    bool is_presumed; /* its appends do without, until one comes too late, or
                         the log gives up */
    unsigned n_turns; /* that the log has asked for; guarded by `all` */
    enum seat_outcome outcome;
    unsigned n_looks; /* that the log has asked for; guarded by `all` */

    /* Called once by the next wait for a turn. */
    size_t n_bulk; /* bytes, of all turns */
    void (*before_turn)(void *user);

    /* With SEAT_KEPT, called once before the next append, without the turn:
     * others are first. */
    void (*before_append)(void *user);

    /* Called once by the next wait for an outcome. */
    void (*before_outcome)(void *user);
    void *user;

    enum status coming; /* of the append under way */
    struct problem coming_why;
};

void shared_journal_init(struct shared_journal *all);
void shared_journal_fini(struct shared_journal *all);

struct journal *seat_take(struct seat *seat, struct shared_journal *all);

unsigned seat_looks(struct seat *seat);

/* Waits until the log has asked for `n` looks. */
void seat_await_looks(struct seat *seat, unsigned n);

/* What the follower of a log does: the log follows all records, and gets to
 * know that these are all. */
void seat_follow(struct seat *seat, struct log *log);

/* Has the log follow all records; those that it has are passed over. */
void shared_journal_follow(struct shared_journal *all, struct log *log);

#endif
