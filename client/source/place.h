/*
 * place.h - a place in the history of a source, as positions tell it.
 *
 *     "0123456789abcdef-17"            the entry 17 of a log of Tidings
 *     "@2026-11-20T21:00:00.000000Z+3" a source without seqs: all that happened
 *                                      before that time, and the first three
 *                                      entries of that very time
 *     "@2026-...Z+3~0123456789abcdef"  the same, and which is the third
 *     "0"                              the beginning, of whichever
 *
 * Times of other sources tie: lists are written to the second, or to the day.
 * As a Change List only grows at its end, the count tells the entries of one
 * time apart; the mark of the last of them finds it again where a list has lost
 * some at its beginning, or was written anew.
 */
#ifndef CLIENT_SOURCE_PLACE_H
#define CLIENT_SOURCE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/tidings.h"
#include "proto/position.h"
#include "proto/slice.h"

struct place {
    bool is_time;
    struct position at; /* !is_time; epoch "" for a plain seq */
    int64_t time_us;    /* is_time */
    uint64_t n_at;      /* entries of that time that are behind us */
    uint64_t mark;      /* of the last of these; 0: none */
};

/* A plain seq, of which "0" is one, has no epoch. STATUS_MALFORMED: it is none,
 * and *place is as it was. */
MUST_CHECK enum status place_read(struct slice text, struct place *place);
void place_write(char to[TD_POSITION_SIZE], const struct place *place);

#endif
