/*
 * visit_schedule.h - decides which sets of a source are read at a time.
 *
 *                              +---------> sharing            any number
 *                              v
 *     added --> waiting --+--> streaming                      the first 100
 *                  ^      |
 *                  |      +--> visited, until it has caught up
 *                  +-- pause --------+
 *                                    +--> over
 *
 * A set that is followed holds a connection open, and a source may have
 * thousands of sets. So the first VISIT_SCHEDULE_STREAMS sets are streamed;
 * each other one is visited again and again: read until it has caught up, and
 * left alone for a pause. A set that shares a connection with others takes the
 * place of no other set; if many leave that connection at once, those behind
 * the first VISIT_SCHEDULE_STREAMS have to end. With is_once, all sets are
 * visited.
 *
 * Pure: the caller passes the time and opens the sets. One thread.
 */
#pragma once

#include "proto/c.h"

/* Sets of a source streamed at once: each is a connection, and brokers and
 * proxies allow one client some hundreds. */
#define VISIT_SCHEDULE_STREAMS 100

/* Sets visited at once. A visit is a handful of requests in sequence: several
 * visits together hide the waits for the network. */
#define VISIT_SCHEDULE_VISITS 16

enum visit_state { WAITING, STREAMING, SHARING, VISITED, OVER, VISIT_STATES };

/* All zero but the first two: no set. For others only to read. */
struct visit_schedule {
    bool is_once;      /* streams no set, and visits none again */
    unsigned pause_ms; /* between two visits of a set */

    struct visit {
        enum visit_state state;
        bool was_opened;
        int64_t due_ms; /* WAITING: until then */
    } * all;            /* by the numbers of the sets; free it */

    size_t n, capacity;        /* the number of sets */
    size_t n_in[VISIT_STATES]; /* sets by their states */
    size_t n_opened;           /* those that ever were */
};

/* Adds a waiting set; its number is the next one, from 0. False: no memory. */
bool visit_schedule_add(struct visit_schedule *rounds);

/* Takes the next set to be opened at `now_ms`. `*is_visit`: until it has caught
 * up. False: none now. */
bool visit_schedule_next(struct visit_schedule *rounds, int64_t now_ms,
                         size_t *set, bool *is_visit);

/* A streamed set shares its connection now, or no longer. No other set: nothing
 * happens. */
void visit_schedule_share(struct visit_schedule *rounds, size_t set,
                          bool is_sharing);

/* Ends a stream that is too many: the last one. The set waits, and is due. The
 * caller closes it. False: there is none. */
bool visit_schedule_surplus(struct visit_schedule *rounds, size_t *set);

/* Ends a visit. The set waits for the next one; with is_once, or `is_over`, it
 * is over. */
void visit_schedule_rest(struct visit_schedule *rounds, size_t set,
                         bool is_over, int64_t now_ms);

/* Milliseconds until visit_schedule_next may find another set than at `now_ms`,
 * if no set is closed before; -1: never. */
int64_t visit_schedule_wait_ms(const struct visit_schedule *rounds,
                               int64_t now_ms);
