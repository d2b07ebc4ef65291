/*
 * lags.h - the lags of a service thread's subscribers, by transport.
 *
 *     if (lags_begin(&lags, now_us)) {
 *         ... lags_add for each subscriber ...
 *         lags_end(&lags);
 *     }
 *
 * The thread looks at all of its subscribers at most once a second (some 20 ns
 * each: 10,000 are 0.2 ms), rather than update sums at every message. The
 * metrics read the result of the last look. Relaxed: only figures.
 */
#ifndef BROKER_PUSH_LAGS_H
#define BROKER_PUSH_LAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/push/transports.h"

struct lag {
    uint64_t sum, max; /* in entries */
};

struct lags {
    /* The thread's own. */
    int64_t looked_us;
    struct lag looking[TRANSPORTS];

    /* Written by lags_end, read by any thread. */
    _Atomic(uint64_t) sums[TRANSPORTS], maxima[TRANSPORTS];
};

/* True if it is time for a look. `now_us` is on the steady clock. */
bool lags_begin(struct lags *lags, int64_t now_us);
void lags_add(struct lags *lags, const struct transport *transport,
              uint64_t entries);
void lags_end(struct lags *lags);

/* Adds the result of the last look to *found, for transport `number`. Any
 * thread. */
void lags_collect(struct lags *lags, size_t number, struct lag *found);

#endif
