/*
 * baseline_position.c - the place of a baseline.
 */
#include "client/baseline/baseline_position.h"

#include <string.h>

#include "base/clock.h"

/* Subtracted from our own clock, if no document or server states a time: a
 * clock that is ahead by less misses nothing, it only repeats. */
#define OWN_CLOCK_MARGIN_US (3600ll * 1000000)

void
baseline_place_init(struct baseline_place *place)
{
    *place = (struct baseline_place){
        .time_us = DATETIME_NONE,
        .lastmod_us = DATETIME_NONE,
        .made_us = DATETIME_NONE,
        .began_us = clock_now_us() - OWN_CLOCK_MARGIN_US,
    };
}

/* Returns the older of two times, as far as they are known. */
static int64_t
older_time(int64_t a, int64_t b)
{
    if (a == DATETIME_NONE || b == DATETIME_NONE)
        return a == DATETIME_NONE ? b : a;
    return a < b ? a : b;
}

void
baseline_place_time(struct baseline_place *place, int64_t at_us)
{
    place->time_us = older_time(place->time_us, at_us);
}

void
baseline_place_head(struct baseline_place *place,
                    const struct document_head *head, bool has_resources,
                    bool has_time, bool has_seq)
{
    const char *epoch = head->td.epoch;

    baseline_place_time(place, head->at_us);
    if (has_resources && head->at_us == DATETIME_NONE && !has_time)
        place->is_time_open = true;
    if (!epoch[0]) {
        place->is_seq_open |= has_resources && !has_seq;
    } else if (!place->has_seq) {
        place->has_seq = true;
        memcpy(place->seq.epoch, epoch, sizeof(place->seq.epoch));
        place->seq.seq = head->td.last;
    } else if (strcmp(place->seq.epoch, epoch) != 0) {
        place->is_seq_open = true;
    } else if (head->td.last < place->seq.seq) {
        place->seq.seq = head->td.last;
    }
}

void
baseline_place_entry(struct baseline_place *place, int64_t lastmod_us)
{
    if (lastmod_us != DATETIME_NONE &&
        (place->lastmod_us == DATETIME_NONE || lastmod_us > place->lastmod_us))
        place->lastmod_us = lastmod_us;
}

void
baseline_place_made(struct baseline_place *place, int64_t made_us)
{
    place->made_us = older_time(place->made_us, made_us);
}

/* True if the documents alone state it. */
static bool
is_told(const struct baseline_place *place)
{
    return (place->has_seq && !place->is_seq_open) ||
           (place->time_us != DATETIME_NONE && !place->is_time_open);
}

/* The time of the documents by the servers' clocks, or by ours. */
static int64_t
by_clock(const struct baseline_place *place)
{
    int64_t clock =
        place->made_us != DATETIME_NONE ? place->made_us : place->began_us;

    return older_time(place->time_us, clock);
}

struct source_position
baseline_place_of(const struct baseline_place *place)
{
    if (place->has_seq && !place->is_seq_open)
        return (struct source_position){.at = place->seq};
    return (struct source_position){
        .is_time = true,
        .time_us = is_told(place)
                       ? place->time_us
                       : older_time(by_clock(place), place->lastmod_us),
    };
}

bool
baseline_place_guess(const struct baseline_place *place,
                     struct source_position *guess)
{
    *guess =
        (struct source_position){.is_time = true, .time_us = by_clock(place)};
    return !is_told(place) && place->lastmod_us != DATETIME_NONE &&
           place->lastmod_us < guess->time_us;
}
