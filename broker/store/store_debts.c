#include "broker/store/store_debts.h"

#include <stdlib.h>
#include <string.h>

enum status
store_debts_add(struct store_debts *d, uint32_t set, uint64_t upto)
{
    if (set >= d->n_of) {
        size_t n = (size_t)set + set / 2 + 64;
        size_t *of = realloc(d->of, n * sizeof(*of));

        if (!of)
            return STATUS_MEMORY;
        memset(of + d->n_of, 0, (n - d->n_of) * sizeof(*of));
        d->of = of;
        d->n_of = n;
    }
    if (d->of[set]) {
        d->all[d->of[set] - 1].upto = upto;
        return STATUS_OK;
    }
    if (d->n == d->capacity) {
        size_t n = d->capacity ? d->capacity * 2 : 16;
        struct debt *all = realloc(d->all, n * sizeof(*all));

        if (!all)
            return STATUS_MEMORY;
        d->all = all;
        d->capacity = n;
    }
    d->all[d->n++] = (struct debt){set, upto};
    d->of[set] = d->n;
    return STATUS_OK;
}

void
store_debts_drop(struct store_debts *d)
{
    d->of[d->all[0].set] = 0;
    d->all[0] = d->all[--d->n];
    if (d->n > 0)
        d->of[d->all[0].set] = 1;
}

void
store_debts_fini(struct store_debts *d)
{
    free(d->all);
    free(d->of);
}
