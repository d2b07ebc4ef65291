/*
 * call_history.h - how the calls to one callback, or one host, have ended.
 *
 * A call costs the part of its time that it took, from 0 to 1, and 1 more if it
 * failed. The strain is the average of these costs, in which each call counts
 * an eighth and what was before it seven eighths. A history is bad above an
 * eighth: after one call that hung until its time was over, for the next six
 * that are answered at once; for as long as a callback answers and hangs by
 * turns; and while it takes more than an eighth of its time for each answer.
 *
 * Pure.
 */
#pragma once

#include "proto/c.h"

/* All zero: no call yet. */
struct call_history {
    int strain; /* in CALL_COST */
};

#define CALL_COST 65536

static inline void
call_history_add(struct call_history *h, bool has_failed, int64_t took_us,
                 int64_t timeout_us)
{
    int64_t part = took_us < timeout_us ? took_us : timeout_us;
    int cost = (int)(CALL_COST * part / timeout_us) + has_failed * CALL_COST;

    h->strain += (cost - h->strain) / 8;
}

static inline bool
call_history_is_bad(const struct call_history *h)
{
    return h->strain > CALL_COST / 8;
}
