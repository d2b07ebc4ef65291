/*
 * source_position.h - a place in the history of a source, as in a position.
 *
 *     "0123456789abcdef-17"            the entry 17 of a log of Tidings
 *     "@2026-11-20T21:00:00.000000Z+3" a source without seqs: all changes
 *                                      before that time, and the first three
 *                                      entries of that very time
 *     "@2026-...Z+3~0123456789abcdef"  the same; the mark identifies the third
 *     "0"                              the beginning of any history
 *
 * Entries of other sources share times, of whole seconds or days. A Change List
 * only grows at its end, so the count identifies an entry among those of one
 * time; the mark of the last counted one finds it again if the list has lost
 * entries at its beginning, or was written anew.
 */
#ifndef CLIENT_SOURCE_SOURCE_POSITION_H
#define CLIENT_SOURCE_SOURCE_POSITION_H

#include <stdbool.h>
#include <stdint.h>

#include "client/tidings.h"
#include "proto/resourcesync/position.h"
#include "proto/slice.h"

struct source_position {
    bool is_time;
    struct position at; /* !is_time; epoch "" for a plain seq */
    int64_t time_us;    /* is_time */
    uint64_t n_at;      /* entries of that time up to the place */
    uint64_t mark;      /* of the last of these; 0: none */
};

/* A plain seq, such as "0", has no epoch. STATUS_MALFORMED: no place; *place is
 * unchanged. */
MUST_CHECK enum status source_position_read(struct slice text,
                                            struct source_position *place);
void source_position_write(char to[TD_POSITION_SIZE],
                           const struct source_position *place);

#endif
