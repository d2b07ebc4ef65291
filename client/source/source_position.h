/*
 * source_position.h - a place in the history of a source, as in a position.
 *
 *     "0123456789abcdef-17"   the entry 17 of a log of Tidings
 *     "0"                     the beginning of any history
 *     "@2026-11-20T21:00:00.000000Z+3~MARK/LIST:120:SUM"
 *                             a source without seqs: the first 120 entries of
 *                             a Change List were read
 *     "@2026-11-20T21:00:00.000000Z+0"
 *                             the same, and no list was read yet: the changes
 *                             from that time on, as after a baseline
 *
 * The order of the list is the place: LIST identifies its URL, SUM its
 * first entries, in any order, and MARK the last of them, which finds it again
 * in a list that has lost entries at its beginning. The time is a hint: the
 * latest so far, or "-", and the number of entries of that very time. It serves
 * where the list has gone, or was written anew. ":w" at the end: the entries
 * behind these are out of order, and those up to the time were handed over.
 *
 * "!MICROSECONDS" at the very end, since 1970: changes before that time are not
 * known, for the lists begin after the place that was reached before (R-416,
 * An older list of all resources proves nothing of what came after it.
 *
 * Earlier versions wrote "@TIME+N~MARK" without a list, with a mark that lacks
 * the times of its entry: such a place is found by time, once.
 */
#pragma once

#include "client/tidings.h"
#include "proto/resourcesync/position.h"

struct source_position {
    bool is_time;       /* a source without seqs */
    struct position at; /* !is_time; epoch "" for a plain seq */

    /* is_time */
    int64_t time_us; /* DATETIME_NONE: as far back as there is */
    uint64_t n_at;   /* entries of that time up to the place */
    uint64_t mark;   /* of the last of these; 0: none */
    bool has_list;   /* a list was read: */
    uint64_t list;   /* the hash of its URL */
    uint64_t n_read; /* its entries up to the place */
    uint64_t sum;    /* of the marks of these */
    bool is_within;  /* and some of the later ones */
    bool is_end;     /* the end of the lists, whatever that is; not written */
    int64_t unknown_us; /* changes before this are not known; 0: all are */
};

/* A plain seq, such as "0", has no epoch. STATUS_MALFORMED: no place; *place is
 * unchanged. */
MUST_CHECK enum status source_position_read(struct slice text,
                                            struct source_position *place);

/* The same for a position that a digest may follow, "EPOCH-SEQ sha-256:...":
 * *digest is the rest of `text`; NULL: there is none. STATUS_MALFORMED. */
MUST_CHECK enum status source_mark_read(struct slice text,
                                        struct source_position *place,
                                        const char **digest);

void source_position_write(char to[TD_POSITION_SIZE],
                           const struct source_position *place);

/* True for a time without a list, as of a baseline: no entry of that time was
 * read. */
bool source_position_is_moment(const struct source_position *place);

/* True for a place of an earlier version. */
bool source_position_is_old(const struct source_position *place);

/* Says that the source has no state of a past time: those that can be had begin
 * at `earliest_us`; DATETIME_NONE: there are none. Returns `rc`. */
enum status source_position_has_none(struct problem *why, enum status rc,
                                     int64_t as_of_us, int64_t earliest_us);
