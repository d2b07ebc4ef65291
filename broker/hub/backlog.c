#include "broker/hub/backlog.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void
backlog_fini(struct backlog *b)
{
    free(b->written.all);
    free(b->behind.all);
    memset(b, 0, sizeof(*b));
}

static bool
add(struct backlog_rows *rows, struct backlog_row row)
{
    struct backlog_row *all = ONE_MORE(rows->all, &rows->capacity, rows->n);

    if (!all)
        return false;
    rows->all = all;
    all[rows->n++] = row;
    return true;
}

enum status
backlog_note(struct backlog *b, enum records_row kind, uint64_t id)
{
    if (add(&b->written, (struct backlog_row){kind, id}))
        return STATUS_OK;
    b->is_behind_by_more = true;
    return STATUS_MEMORY;
}

void
backlog_kept(struct backlog *b)
{
    b->written.n = 0;
}

void
backlog_lost(struct backlog *b)
{
    for (size_t i = 0; i < b->written.n; i++)
        if (!add(&b->behind, b->written.all[i]))
            b->is_behind_by_more = true;
    b->written.n = 0;
}

void
backlog_add(struct backlog *b, enum records_row kind, uint64_t id)
{
    (void)add(&b->behind, (struct backlog_row){kind, id});
}

bool
backlog_is_empty(const struct backlog *b)
{
    return b->behind.n == 0 && !b->is_behind_by_more;
}

static int
compare(const void *a, const void *b)
{
    const struct backlog_row *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

bool
backlog_take(struct backlog *b, struct backlog_rows *rows)
{
    bool is_all = b->is_behind_by_more;
    size_t n = 0;

    *rows = b->behind;
    b->behind = (struct backlog_rows){NULL, 0, 0};
    b->is_behind_by_more = false;
    if (rows->n > 0)
        qsort(rows->all, rows->n, sizeof(*rows->all), compare);
    for (size_t i = 0; i < rows->n; i++)
        if (i == 0 || compare(&rows->all[i - 1], &rows->all[i]))
            rows->all[n++] = rows->all[i];
    rows->n = n;
    return is_all || (n > 0 && rows->all[n - 1].kind == RECORDS_ALL);
}
