/*
 * retention.h - limits the history of a set: its settings retainLists and
 * retainAge apply to closed Change Lists and to archived generations alike.
 */
#ifndef BROKER_SETS_RETENTION_H
#define BROKER_SETS_RETENTION_H

#include <stdint.h>

struct retention {
    uint64_t lists; /* 0: all */
    int64_t age_us; /* 0: for ever */
};

/* How many of `n` lists exceed the limit. */
uint64_t retention_over(const struct retention *retention, uint64_t n);

/* A wall-clock time (us): lists and generations that ended before it are too
 * old. INT64_MIN: none are. */
int64_t retention_since_us(const struct retention *retention);

#endif
