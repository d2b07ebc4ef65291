#include "client/history/part_list.h"

#include "proto/datetime.h"

static void
free_part(struct history_part *part)
{
    free(part->url);
    free(part->prev);
}

void
history_parts_fini(struct history_parts *parts)
{
    text_set_fini(&parts->urls);
    for (size_t i = 0; i < parts->n; i++)
        free_part(&parts->all[i]);
    if (parts->all)
        free(parts->all - parts->before);
    *parts = (struct history_parts){.n = 0};
}

/* Makes room for a part before or behind the others, and for as many more as
 * there are, so that each is moved only a few times. */
static enum status
grow_parts(struct history_parts *parts, bool is_before)
{
    size_t more = parts->n > 64 ? parts->n : 64;
    size_t before = parts->before + (is_before ? more : 0);
    size_t behind = parts->behind + (is_before ? 0 : more);
    struct history_part *all;

    if (is_before ? parts->before : parts->behind)
        return STATUS_OK;
    all = malloc((before + parts->n + behind) * sizeof(*all));
    if (!all)
        return STATUS_MEMORY;
    if (parts->all) {
        memcpy(all + before, parts->all, parts->n * sizeof(*all));
        free(parts->all - parts->before);
    }
    parts->all = all + before;
    parts->before = before;
    parts->behind = behind;
    return STATUS_OK;
}

static size_t
bytes_of(const char *url)
{
    return sizeof(struct history_part) + strlen(url);
}

/* Puts `part` before all others, or behind them. Frees it if its URL is known,
 * or on failure. */
static enum status
take_part(struct history_parts *parts, struct history_part part, bool is_before)
{
    enum status rc = STATUS_TOO_LARGE;
    bool is_new;

    if (parts->n == HISTORY_PARTS_MAX ||
        parts->bytes + bytes_of(part.url) > HISTORY_PARTS_BYTES_MAX)
        goto out;
    rc = grow_parts(parts, is_before);
    if (!rc)
        rc = text_set_add(&parts->urls, slice_of(part.url), &is_new);
    if (rc || !is_new)
        goto out;
    if (is_before) {
        parts->before--;
        *--parts->all = part;
    } else {
        parts->behind--;
        parts->all[parts->n] = part;
    }
    parts->n++;
    parts->bytes += bytes_of(part.url);
    return STATUS_OK;

out:
    free_part(&part);
    return rc;
}

enum status
history_parts_add(struct history_parts *parts, struct slice url,
                  const struct history_part *like)
{
    static const struct history_part unknown = {.from_us = DATETIME_NONE,
                                                .until_us = DATETIME_NONE};
    struct history_part part = like ? *like : unknown;

    part.url = slice_dup(url);
    part.begin_us = DATETIME_NONE;
    return part.url ? take_part(parts, part, false) : STATUS_MEMORY;
}

void
history_parts_cut(struct history_parts *parts, size_t n)
{
    while (parts->n > n) {
        struct history_part *last = &parts->all[--parts->n];

        parts->behind++;
        parts->bytes -= bytes_of(last->url);
        text_set_remove(&parts->urls, slice_of(last->url));
        free_part(last);
    }
}

static int
compare_times(const void *a, const void *b)
{
    const struct history_part *x = a;
    const struct history_part *y = b;

    if (x->from_us != y->from_us)
        return x->from_us < y->from_us ? -1 : 1;
    return x->until_us < y->until_us ? -1 : x->until_us > y->until_us;
}

void
history_parts_sort(struct history_parts *parts)
{
    bool rises = true;

    for (size_t i = 0; i < parts->n; i++) {
        if (parts->all[i].from_us == DATETIME_NONE)
            return;
        rises &= i == 0 || parts->all[i - 1].from_us <= parts->all[i].from_us;
    }
    /* The open list, without `until`, is the last of those with one `from`. */
    for (size_t i = 0; !rises && i < parts->n; i++)
        if (parts->all[i].until_us == DATETIME_NONE)
            parts->all[i].until_us = INT64_MAX;
    if (!rises)
        qsort(parts->all, parts->n, sizeof(*parts->all), compare_times);
    for (size_t i = 0; i < parts->n; i++)
        if (parts->all[i].until_us == INT64_MAX)
            parts->all[i].until_us = DATETIME_NONE;
}

enum status
history_parts_prepend(struct history_parts *parts, struct history_parts *older,
                      size_t *n)
{
    size_t n_known = parts->n;
    enum status rc = STATUS_OK;

    /* Known parts stay as they are: their roots may have been read. */
    while (older->n > 0) {
        struct history_part *last = &older->all[--older->n];

        if (rc)
            free_part(last);
        else
            rc = take_part(parts, *last, true);
    }
    history_parts_fini(older);
    *n = parts->n - n_known;
    return rc;
}
