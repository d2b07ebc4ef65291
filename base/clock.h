/*
 * clock.h - the time; and when to try again after a failure. Any thread.
 */
#pragma once

#include "proto/c.h"

/* Microseconds since 1970, UTC; may be set back by the administrator. */
int64_t clock_now_us(void);

/* Microseconds since some moment; never goes back: for waiting, measuring. */
int64_t clock_steady_us(void);
int64_t clock_steady_ms(void); /* the same in milliseconds */

/* Milliseconds until that time of clock_steady_us, rounded up: for poll(2). 0:
 * it has come. */
static inline int
clock_wait_ms(int64_t until_us)
{
    int64_t wait_us = until_us - clock_steady_us();

    if (wait_us <= 0)
        return 0;
    return wait_us / 1000 < INT_MAX ? (int)((wait_us + 999) / 1000) : INT_MAX;
}

/* Pauses between attempts. Pure. */

/* Settings, in microseconds. */
struct backoff {
    int64_t first_us; /* before the first retry ... */
    int64_t max_us;   /* ... doubled with each, up to this */
};

/* The pause after so many failures in a row (1 or more): between half of the
 * doubled pause and all of it, by `random`, so that clients that failed
 * together do not return together (W-089). */
int64_t backoff_pause(const struct backoff *b, unsigned failures,
                      uint32_t random);

/* When to try again: after the pause, or after Retry-After if that is longer;
 * but at the latest at `end_us`, with a last try before the delivery is given
 * up. All times are of one clock. */
int64_t backoff_next(int64_t now_us, int64_t pause_us, int64_t retry_after_us,
                     int64_t end_us);
