#include "broker/base/authority.h"

#include "broker/base/diag.h"
#include "broker/base/metrics.h"

struct authority *
authority_new(struct authority *of, int64_t ends_us)
{
    struct authority *a = memory_new(1, sizeof(*a));

    atomic_init(&a->refs, 1);
    atomic_init(&a->ends_us, ends_us);
    a->of = authority_ref(of);
    return a;
}

struct authority *
authority_ref(struct authority *a)
{
    if (a)
        add_relaxed(&a->refs, 1);
    return a;
}

void
authority_unref(struct authority *a)
{
    while (a &&
           atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) == 1) {
        struct authority *of = a->of;

        free(a);
        a = of;
    }
}

void
authority_end(struct authority *a, int64_t at_us)
{
    int64_t ends_us = load_relaxed(&a->ends_us);

    while (at_us < ends_us && !atomic_compare_exchange_weak_explicit(
                                  &a->ends_us, &ends_us, at_us,
                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

enum status
authority_check(const struct authority *a, int64_t now_us, struct problem *why)
{
    if (!authority_is_over(a, now_us))
        return STATUS_OK;
    metrics_add(METRIC_DENIED, 1);
    diag(DIAG_INFO, "access", "a request ends, because its token has ended");
    return problem(why, STATUS_DENIED, AUTHORITY_MISSING);
}
