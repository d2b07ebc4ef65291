#include "broker/sets/budgets.h"

#include <stdint.h>

#include "broker/base/metrics.h"

/* Pages of change memory held for clients that read slowly: a hundred or so of
 * the largest. Who comes then is asked to come again. */
#define ANSWERS_BYTES ((size_t)128 << 20)

void
budgets_init(struct budgets *b, size_t posts_bytes)
{
    b->limits[BUDGET_POSTS] = posts_bytes;
    b->limits[BUDGET_ANSWERS] = ANSWERS_BYTES;
    for (int i = 0; i < BUDGETS; i++)
        atomic_init(&b->reserved[i], 0);
}

bool
budgets_has_room(const struct budgets *b, enum budget budget, size_t bytes)
{
    return atomic_load_explicit(&b->reserved[budget], memory_order_relaxed) +
               bytes <=
           b->limits[budget];
}

bool
budgets_reserve(struct budgets *b, enum budget budget, size_t bytes)
{
    size_t sum = atomic_fetch_add_explicit(&b->reserved[budget], bytes,
                                           memory_order_relaxed);

    if (sum + bytes <= b->limits[budget])
        return true;
    budgets_release(b, budget, bytes);
    return false;
}

void
budgets_release(struct budgets *b, enum budget budget, size_t bytes)
{
    atomic_fetch_sub_explicit(&b->reserved[budget], bytes,
                              memory_order_relaxed);
}

void
budgets_measure(const struct budgets *b)
{
    metrics_set(METRIC_INGEST,
                (int64_t)atomic_load_explicit(&b->reserved[BUDGET_POSTS],
                                              memory_order_relaxed));
    metrics_set(METRIC_INGEST_LIMIT, (int64_t)b->limits[BUDGET_POSTS]);
}
