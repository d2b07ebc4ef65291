#include "broker/access/principal.h"

#include <stdlib.h>
#include <string.h>

#include "proto/memory.h"

struct principal *
principal_new(struct slice name, const struct rights *rights, int64_t ends_us)
{
    struct principal *p = memory_new(1, sizeof(*p));

    if (name.size > PRINCIPAL_NAME_MAX)
        name.size = PRINCIPAL_NAME_MAX;
    if (name.size)
        memcpy(p->name, name.data, name.size);
    p->is_everyone = slice_is(name, PRINCIPAL_EVERYONE);
    p->rights = *rights;
    atomic_init(&p->refs, 1);
    atomic_init(&p->ends_us, ends_us);
    return p;
}

struct principal *
principal_ref(struct principal *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void
principal_unref(struct principal *p)
{
    if (p && atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1)
        free(p);
}

void
principal_end(struct principal *p, int64_t at_us)
{
    int64_t ends_us = atomic_load_explicit(&p->ends_us, memory_order_relaxed);

    while (at_us < ends_us && !atomic_compare_exchange_weak_explicit(
                                  &p->ends_us, &ends_us, at_us,
                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

bool
principal_sees(const struct principal *p, struct slice set, bool is_private)
{
    return (!is_private || !p->is_everyone) &&
           rights_include(&p->rights, RIGHT_SUBSCRIBE, set);
}
