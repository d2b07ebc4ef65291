/*
 * backoff.h - when what failed is tried again. Pure.
 */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdint.h>

/* How it is done: settings. Microseconds. */
struct backoff {
    int64_t first_us; /* before the first retry ... */
    int64_t max_us;   /* ... doubled with each, up to this */
};

/* The pause after so many failures in a row (1 or more): between a half of the
 * doubled pause and all of it, as `random` says, so that those who failed
 * together do not come back together (W-089). */
int64_t backoff_pause(const struct backoff *b, unsigned failures,
                      uint32_t random);

/* When to try again: after the pause, or after what Retry-After said, if that
 * is longer; but not after `end_us`, when the delivery is to be given up: a
 * last try is made then. All on one clock. */
int64_t backoff_next(int64_t now_us, int64_t pause_us, int64_t retry_after_us,
                     int64_t end_us);

#endif
