#include "broker/push/lags.h"

#include <stdatomic.h>
#include <string.h>

#define LOOK_US 1000000

bool
lags_begin(struct lags *lags, int64_t now_us)
{
    if (now_us - lags->looked_us < LOOK_US)
        return false;
    lags->looked_us = now_us;
    memset(lags->looking, 0, sizeof(lags->looking));
    return true;
}

static void
add_lag(struct lag *to, uint64_t sum, uint64_t max)
{
    to->sum += sum;
    if (max > to->max)
        to->max = max;
}

void
lags_add(struct lags *lags, const struct transport *transport, uint64_t entries)
{
    add_lag(&lags->looking[transports_number(transport)], entries, entries);
}

void
lags_end(struct lags *lags)
{
    for (size_t i = 0; i < TRANSPORTS; i++) {
        atomic_store_explicit(&lags->sums[i], lags->looking[i].sum,
                              memory_order_relaxed);
        atomic_store_explicit(&lags->maxima[i], lags->looking[i].max,
                              memory_order_relaxed);
    }
}

void
lags_collect(struct lags *lags, size_t number, struct lag *found)
{
    add_lag(found,
            atomic_load_explicit(&lags->sums[number], memory_order_relaxed),
            atomic_load_explicit(&lags->maxima[number], memory_order_relaxed));
}
