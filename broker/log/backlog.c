#include "broker/log/backlog.h"

#include "broker/base/metrics.h"

void
backlog_add(struct backlog *b, int64_t bytes)
{
    metrics_set(METRIC_UNFILED,
                bytes + atomic_fetch_add_explicit(&b->bytes, bytes,
                                                  memory_order_relaxed));
}

void
backlog_init(struct backlog *b, uint64_t max_bytes, uint64_t bytes)
{
    b->max_bytes = (int64_t)max_bytes;
    atomic_init(&b->bytes, 0);
    atomic_init(&b->has_failed, false);
    backlog_add(b, (int64_t)bytes);
}

int64_t
backlog_bytes(const struct backlog *b)
{
    return atomic_load_explicit(&b->bytes, memory_order_relaxed);
}

void
backlog_clear(struct backlog *b, int64_t seen)
{
    /* A list that was closed since then has changed the number. */
    if (seen != 0 &&
        atomic_compare_exchange_strong_explicit(
            &b->bytes, &seen, 0, memory_order_relaxed, memory_order_relaxed))
        metrics_set(METRIC_UNFILED, 0);
}

void
backlog_fail(struct backlog *b, bool has_failed)
{
    atomic_store_explicit(&b->has_failed, has_failed, memory_order_relaxed);
}

bool
backlog_is_full(const struct backlog *b)
{
    return b->max_bytes > 0 && backlog_bytes(b) >= b->max_bytes &&
           !atomic_load_explicit(&b->has_failed, memory_order_relaxed);
}
