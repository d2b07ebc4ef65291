#include "client/history/list_entries.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "client/source/entry_copy.h"

/* Clocks differ, and times without a zone, by at most that. */
#define AHEAD_US (86400ll * 1000000)

void
list_entries_init(struct list_entries *kept)
{
    *kept = (struct list_entries){
        .latest_us = clock_now_us() + AHEAD_US,
        .first_us = DATETIME_NONE,
        .datetimes.last_us = DATETIME_NONE,
        .lastmods.last_us = DATETIME_NONE,
    };
}

void
list_entries_fini(struct list_entries *kept)
{
    for (size_t i = 0; i < kept->n; i++)
        free(kept->entries[i].entry);
    free(kept->entries);
    list_entries_init(kept);
}

/* Adding */

static int64_t
believed_time(const struct list_entries *kept, int64_t us)
{
    return us > kept->latest_us ? DATETIME_NONE : us;
}

static bool
is_before(const struct document_entry *e, const struct source_position *after)
{
    if (!after->is_time)
        return e->change.seq > 0 && e->change.seq <= after->at.seq;
    return e->change.datetime_us != DATETIME_NONE &&
           e->change.datetime_us < after->time_us;
}

static void
note_time(struct list_entries_way *way, int64_t us)
{
    if (us == DATETIME_NONE)
        return;
    if (way->last_us != DATETIME_NONE) {
        way->rises |= us > way->last_us;
        way->falls |= us < way->last_us;
    }
    way->last_us = us;
}

enum status
list_entries_add(struct list_entries *kept, const struct document_entry *e,
                 const struct source_position *after)
{
    int64_t datetime = believed_time(kept, e->change.datetime_us);
    int64_t lastmod = believed_time(kept, e->change.lastmod_us);
    size_t size = entry_copy_size(e);
    struct list_entries_entry *to;

    kept->n_seen++;
    if (e->when_us != DATETIME_NONE &&
        (kept->first_us == DATETIME_NONE || e->when_us < kept->first_us))
        kept->first_us = e->when_us;
    if (!is_before(e, after)) {
        if (kept->n == LIST_ENTRIES_ENTRIES_MAX ||
            size > LIST_ENTRIES_BYTES_MAX - kept->bytes)
            return STATUS_TOO_LARGE;
        to = ONE_MORE(kept->entries, &kept->capacity, kept->n);
        if (!to)
            return STATUS_MEMORY;
        kept->entries = to;
        to += kept->n;
        to->before_us = kept->datetimes.last_us;
        to->page = kept->page;
        to->entry = entry_copy_new(e, size);
        if (!to->entry)
            return STATUS_MEMORY;
        kept->n++;
        kept->bytes += size;
    }
    kept->has_datetime |= datetime != DATETIME_NONE;
    note_time(&kept->datetimes, datetime);
    note_time(&kept->lastmods, lastmod);
    return STATUS_OK;
}

void
list_entries_rewind(struct list_entries *kept,
                    const struct list_entries *before)
{
    struct list_entries_entry *entries = kept->entries;
    size_t capacity = kept->capacity;

    while (kept->n > before->n)
        free(entries[--kept->n].entry);
    *kept = *before;
    kept->entries = entries;
    kept->capacity = capacity;
}

/* Order */

static int
compare_entries(const void *a, const void *b)
{
    const struct list_entries_entry *x = a;
    const struct list_entries_entry *y = b;

    if (x->when_us != y->when_us)
        return x->when_us < y->when_us ? -1 : 1;
    return x->before_us < y->before_us ? -1 : x->before_us > y->before_us;
}

static void
give_times(struct list_entries *kept, int64_t from_us)
{
    int64_t when = from_us;

    for (size_t i = 0; i < kept->n; i++) {
        struct list_entries_entry *k = &kept->entries[i];
        const struct change *c = &k->entry->change;
        int64_t datetime = believed_time(kept, c->datetime_us);
        int64_t lastmod = believed_time(kept, c->lastmod_us);

        if (datetime != DATETIME_NONE)
            when = datetime;
        else if (kept->has_datetime && k->before_us != DATETIME_NONE)
            when = k->before_us;
        else if (!kept->has_datetime && lastmod != DATETIME_NONE)
            when = lastmod;
        k->when_us = when;
    }
    /* The entries before the first with a time. */
    for (size_t i = kept->n; i-- > 0; when = kept->entries[i].when_us)
        if (kept->entries[i].when_us == DATETIME_NONE)
            kept->entries[i].when_us = when == DATETIME_NONE ? 0 : when;
}

static void
turn_round(struct list_entries *kept)
{
    for (size_t i = 0; i < kept->n / 2; i++) {
        struct list_entries_entry other = kept->entries[i];

        kept->entries[i] = kept->entries[kept->n - 1 - i];
        kept->entries[kept->n - 1 - i] = other;
    }
}

static void
put_in_order(struct list_entries *kept)
{
    const struct list_entries_way *way =
        kept->has_datetime ? &kept->datetimes : &kept->lastmods;
    bool is_sorted = true;

    if (way->falls && !way->rises)
        turn_round(kept);
    for (size_t i = 1; i < kept->n; i++)
        is_sorted &= kept->entries[i - 1].when_us <= kept->entries[i].when_us;
    if (is_sorted)
        return;
    for (size_t i = 0; i < kept->n; i++)
        kept->entries[i].before_us = (int64_t)i; /* qsort is not stable */
    qsort(kept->entries, kept->n, sizeof(*kept->entries), compare_entries);
}

void
list_entries_finish(struct list_entries *kept, int64_t from_us)
{
    if (kept->n == 0)
        return;
    give_times(kept, from_us);
    if (kept->entries[0].entry->change.seq == 0)
        put_in_order(kept);
}
