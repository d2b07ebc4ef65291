/*
 * shared_streams.h - leases and streams (broker/cluster/streams.h) in the
 * memory of one process, for several brokers. Their clock is the steady one:
 * that of the test (tests/clock.h).
 *
 *     struct shared_streams all;
 *     struct streams_seat a, b;      one for each broker; any thread
 *
 *     shared_streams_init(&all);
 *     streams = streams_seat_take(&a, &all, "a");
 */
#ifndef TESTS_SUPPORT_SHARED_STREAMS_H
#define TESTS_SUPPORT_SHARED_STREAMS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/cluster/streams.h"
#include "proto/buf.h"

#define SHARED_ROWS_MAX   6000
#define SHARED_ORDERS_MAX 20
#define SHARED_NOTES_MAX  2000
#define SHARED_SEATS_MAX  8
#define SHARED_LEASES_MAX 24

struct shared_streams {
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t changed;

    struct shared_lease {
        char name[64];
        const char *broker; /* that has it */
        uint64_t term;
        int64_t until_us, last_us; /* its end, and its last change */
    } leases[SHARED_LEASES_MAX];

    size_t n_leases;
    unsigned n_asked; /* calls of hold */

    struct shared_row {
        const char *stream;
        struct buf key, value;
        uint64_t n;
        bool is_deleted;
    } rows[SHARED_ROWS_MAX]; /* a key may be there twice: the last one counts */

    size_t n_rows;

    struct shared_note { /* of all leases together */
        char lease[64];
        uint64_t n;
        struct buf bytes;
    } notes[SHARED_NOTES_MAX];

    size_t n_notes;
    size_t most_rows; /* of one append */
    uint64_t forgotten;
    uint64_t n;  /* of all streams together */
    uint64_t id; /* likewise */

    struct shared_order { /* its id is its place here, from 1 */
        const char *broker;
        char lease[64];
        uint64_t term; /* that took it */
        struct buf bytes, answer;
        bool is_answered;
    } orders[SHARED_ORDERS_MAX];

    size_t n_orders;
    int wake_fds[SHARED_SEATS_MAX];               /* of the seats, by number */
    struct streams_seat *seats[SHARED_SEATS_MAX]; /* which live unless cut */
    size_t n_seats;
};

/* What the next appends of a seat come to. */
enum append_outcome {
    APPEND_KEPT,
    APPEND_LOST,         /* STATUS_UNREACHABLE */
    APPEND_UNKNOWN_KEPT, /* STATUS_IO */
    APPEND_UNKNOWN_LOST
};

struct streams_seat {
    struct streams streams;
    struct shared_streams *all;
    const char *broker;
    int wake_fd;          /* there may be an order, or an answer */
    bool is_cut;          /* set under the mutex: nothing reaches the journal */
    enum ability ability; /* likewise: what it reports, and is */
    enum append_outcome outcome;
};

void shared_streams_init(struct shared_streams *all);
void shared_streams_fini(struct shared_streams *all);

struct streams *streams_seat_take(struct streams_seat *seat,
                                  struct shared_streams *all,
                                  const char *broker);

/* Forgets all rows that were deleted. */
void shared_streams_forget(struct shared_streams *all);

/* Cuts a seat off, or connects it again. */
void streams_seat_cut(struct streams_seat *seat, bool is_cut);

/* Makes it able to work, or not; at first it is. */
void streams_seat_enable(struct streams_seat *seat, enum ability ability);
enum ability streams_seat_ability(struct streams_seat *seat);

/* Waits until brokers have asked for the lease so often in all. */
void shared_streams_await_asked(struct shared_streams *all, unsigned n);

/* How many leases that broker has. */
unsigned shared_streams_leases_of(struct shared_streams *all,
                                  const char *broker);

/* Has the owner of that term taken order `id`? Term 0: has a broker sent the
 * order, and no owner taken it? */
bool shared_streams_has_taken(struct shared_streams *all, uint64_t id,
                              uint64_t term);

#endif
