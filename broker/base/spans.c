#include "broker/base/spans.h"

#include "broker/base/metrics.h"

atomic_bool spans_are_open;

/* A stack: adding to it, or taking all of it, is one exchange of its top. A
 * release publishes the span to the taker. */
static _Atomic(struct span *) top;

/* Those in the stack, at least. Relaxed: a limit. */
static atomic_uint n_waiting;

void
spans_add(const struct span *span)
{
    struct span *copy;

    if (add_relaxed(&n_waiting, 1) >= SPANS_MAX) {
        subtract_relaxed(&n_waiting, 1);
        metrics_add(METRIC_SPANS_DROPPED, 1);
        return;
    }
    copy = memory_room(sizeof(*copy));
    *copy = *span;
    copy->next = load_relaxed(&top);
    while (!atomic_compare_exchange_weak_explicit(
        &top, &copy->next, copy, memory_order_release, memory_order_relaxed))
        ;
}

struct span *
spans_take(void)
{
    struct span *span =
        atomic_exchange_explicit(&top, NULL, memory_order_acquire);
    struct span *oldest = NULL;
    unsigned n = 0;

    while (span) { /* turns the stack over */
        struct span *below = span->next;

        span->next = oldest;
        oldest = span;
        span = below;
        n++;
    }
    subtract_relaxed(&n_waiting, n);
    return oldest;
}
