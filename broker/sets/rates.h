/*
 * rates.h - how many entries each set got, and how far its readers lagged, in
 * each of the last 60 minutes.
 *
 *     minute    -59   -58  ...   -1     now (not over)
 *     entries     0    17         3       1
 *     lag         0     0       250       0     of the reader that lagged most
 *
 * Counted from the start of the process on, in memory: for pictures, not for
 * accounts. Who shows a sum says since when, if that is less than an hour. A
 * round of the log whose commit fails is counted, too. A set gets a ring of 60
 * minutes with its first entry; RATES_MAX of them at most, some 10 MB. If all
 * are in use, the next set takes over one whose hour is empty; else it has no
 * rate. One more ring adds up the whole broker.
 *
 * It also knows the sets whose readers lag most, RATE_LAGGING of each kind of
 * reader. The readers look at their lags anyway, and note each here; a note
 * finds its place among those few rows. Nobody walks the sets.
 *
 * Any thread: one lock, held for the copy of a ring at most.
 */
#pragma once

#include "proto/buf.h"

struct rates;
struct set;

#define RATE_MINUTES 60
#define RATES_MAX    10000

/* A lag counts for so long: push looks at its readers once a second. */
#define RATE_LAG_S 3

/* At least SET_TRANSPORTS_MAX (registry.h). */
#define RATE_TRANSPORTS 12

/* The last 60 minutes; the last element is the present one. */
struct rate {
    int64_t since_us; /* when the counting began */
    uint32_t entries[RATE_MINUTES];
    uint32_t lags[RATE_MINUTES];              /* the largest; in entries */
    uint32_t transport_lags[RATE_TRANSPORTS]; /* now; likewise */
};

/* Kinds of readers: connected clients, subscriptions of the hub, bridges. */
enum rate_reader { RATE_SUBSCRIBERS, RATE_HUB, RATE_BRIDGES, RATE_READERS };

#define RATE_LAGGING 10

struct lagging_set {
    const struct set *set; /* lent as long as the registry lives */
    uint64_t lag;          /* of its last reader, in entries */
};

struct rates *rates_new(void);        /* NULL: no memory */
void rates_free(struct rates *rates); /* NULL is allowed */

/* The set got `n` entries. If all rings are in use their minutes stay
 * empty. */
void rates_count(struct rates *rates, struct set *set, uint64_t n);

/* A reader of the set, by this transport, is `lag` entries behind. */
void rates_note_lag(struct rates *rates, struct set *set, unsigned transport,
                    uint64_t lag);

/* The last reader of that kind is `lag` entries behind; push notes it by
 * rates_note_lag. */
void rates_note_last(struct rates *rates, enum rate_reader kind,
                     const struct set *set, uint64_t lag);

/* Finds the sets with the largest lags that were noted in the last seconds, in
 * no order; returns their number. */
size_t rates_lagging(struct rates *rates, enum rate_reader kind,
                     struct lagging_set found[RATE_LAGGING]);

/* Copies the minutes of a set; NULL: of the whole broker. */
void rates_read(struct rates *rates, const struct set *set, struct rate *rate);

/* Forgets a set that was removed. */
void rates_forget(struct rates *rates, struct set *set);

/* Appends "[0,17,...]". */
void rates_write_minutes(struct buf *to, const uint32_t minutes[RATE_MINUTES]);

/* Appends the members minutes (60), entries and lags of an object. */
void rates_write(struct buf *to, const struct rate *rate);
