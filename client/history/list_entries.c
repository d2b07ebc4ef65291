#include "client/history/list_entries.h"

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
        .datetimes = {.last_us = DATETIME_NONE, .newest_us = DATETIME_NONE},
        .lastmods = {.last_us = DATETIME_NONE, .newest_us = DATETIME_NONE},
    };
}

void
list_entries_fini(struct list_entries *kept)
{
    for (size_t i = 0; i < kept->n; i++)
        free(kept->entries[i].entry);
    free(kept->entries);
    free(kept->marks);
    list_entries_init(kept);
}

/* Adding */

static int64_t
believed_time(const struct list_entries *kept, int64_t us)
{
    return us > kept->latest_us ? DATETIME_NONE : us;
}

/* True if the entry was read before, for certain. */
static bool
is_past(const struct document_entry *e, const struct list_past *past,
        bool is_known, size_t i)
{
    if (!past->after.is_time)
        return e->change.seq > 0 && e->change.seq <= past->after.at.seq;
    if (past->has_all)
        return true;
    if (past->is_by_order)
        return is_known && i < past->n && !past->is_other;
    return e->change.datetime_us != DATETIME_NONE &&
           e->change.datetime_us < past->after.time_us;
}

static void
note_time(struct list_entries_way *way, int64_t us)
{
    if (us == DATETIME_NONE)
        return;
    way->n++;
    if (way->last_us != DATETIME_NONE) {
        way->rises |= us > way->last_us;
        way->falls |= us < way->last_us;
        way->ties |= us == way->last_us;
    }
    way->last_us = us;
    if (us > way->newest_us) /* DATETIME_NONE is less than any time */
        way->newest_us = us;
}

enum status
list_entries_add(struct list_entries *kept, const struct document_entry *e,
                 struct list_past *past)
{
    int64_t datetime = believed_time(kept, e->change.datetime_us);
    int64_t lastmod = believed_time(kept, e->change.lastmod_us);
    struct list_entries_entry entry = {.before_us = kept->datetimes.last_us,
                                       .bound_us = INT64_MAX,
                                       .page = kept->page,
                                       .i = kept->n_marks};

    kept->n_seen++;
    kept->first_us = datetime_earlier(kept->first_us, e->when_us);
    /* The entries without a time before this one happened until then. */
    for (; datetime != DATETIME_NONE && kept->n_bounded < kept->n;
         kept->n_bounded++)
        if (kept->entries[kept->n_bounded].bound_us == INT64_MAX)
            kept->entries[kept->n_bounded].bound_us = datetime;
    entry.has_time = datetime != DATETIME_NONE;
    if (entry.has_time)
        entry.bound_us = datetime;
    if (past->after.is_time) {
        entry.mark = mark_of(e);
        if (!ONE_MORE(kept->marks, &kept->marks_capacity, kept->n_marks))
            return STATUS_MEMORY;
        if (kept->n_marks < past->n)
            kept->sum_past += entry.mark;
        kept->marks[kept->n_marks++] = entry.mark;
        entry.is_known =
            past->is_by_order && mark_set_take(&past->known, entry.mark);
    }
    if (!is_past(e, past, entry.is_known, entry.i)) {
        size_t size = entry_copy_size(e);

        if (kept->n == LIST_ENTRIES_ENTRIES_MAX ||
            size > LIST_ENTRIES_BYTES_MAX - kept->bytes)
            return STATUS_TOO_LARGE;
        if (!ONE_MORE(kept->entries, &kept->capacity, kept->n))
            return STATUS_MEMORY;
        entry.entry = entry_copy_new(e, size);
        if (!entry.entry)
            return STATUS_MEMORY;
        kept->entries[kept->n++] = entry;
        kept->bytes += size;
    }
    kept->has_datetime |= datetime != DATETIME_NONE;
    note_time(&kept->datetimes, datetime);
    note_time(&kept->lastmods, lastmod);
    return STATUS_OK;
}

void
list_entries_rewind(struct list_entries *kept,
                    const struct list_entries *before, struct list_past *past)
{
    const struct list_entries now = *kept;

    for (size_t i = before->n; i < now.n; i++)
        free(now.entries[i].entry);
    for (size_t i = before->n_marks; past->is_by_order && i < now.n_marks; i++)
        mark_set_put_back(&past->known, now.marks[i]);
    *kept = *before;
    kept->entries = now.entries;
    kept->capacity = now.capacity;
    kept->marks = now.marks;
    kept->marks_capacity = now.marks_capacity;
}

/* Order */

static int
compare_places(const void *a, const void *b)
{
    const struct list_entries_entry *x = a;
    const struct list_entries_entry *y = b;

    return x->i < y->i ? -1 : x->i > y->i;
}

static int
compare_entries(const void *a, const void *b)
{
    const struct list_entries_entry *x = a;
    const struct list_entries_entry *y = b;

    if (x->when_us != y->when_us)
        return x->when_us < y->when_us ? -1 : 1;
    return compare_places(a, b); /* qsort is not stable */
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

        if (datetime != DATETIME_NONE) {
            when = datetime;
        } else if (kept->has_datetime && k->before_us != DATETIME_NONE) {
            when = k->before_us;
        } else if (!kept->has_datetime && lastmod != DATETIME_NONE) {
            k->bound_us = when = lastmod;
            k->has_time = true;
        }
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
    size_t n = kept->n_marks;

    for (size_t i = 0; i < kept->n; i++)
        kept->entries[i].i = n - 1 - kept->entries[i].i;
    if (kept->n > 0)
        qsort(kept->entries, kept->n, sizeof(*kept->entries), compare_places);
    for (size_t i = 0; i < n / 2; i++) {
        uint64_t other = kept->marks[i];

        kept->marks[i] = kept->marks[n - 1 - i];
        kept->marks[n - 1 - i] = other;
    }
}

static const struct list_entries_way *
way_of(const struct list_entries *kept)
{
    return kept->has_datetime ? &kept->datetimes : &kept->lastmods;
}

int64_t
list_entries_newest(const struct list_entries *kept)
{
    return way_of(kept)->newest_us;
}

/* two entries of one second, or one that is late, are no list from new
 * to old. */
static bool
is_newest_first(const struct list_entries *kept)
{
    const struct list_entries_way *way = way_of(kept);

    return way->falls && !way->rises && !way->ties && way->n == kept->n_seen;
}

/* The past */

/* Sets is_known where exactly one entry has come, anywhere in the list. */
static bool
finds_one_more(struct list_entries *kept, const struct list_past *past)
{
    uint64_t mark = marks_sum(kept->marks, kept->n_marks) - past->sum;
    size_t found = 0;

    while (found < kept->n && kept->entries[found].mark != mark)
        found++;
    if (kept->n_marks != past->n + 1 || found == kept->n)
        return false;
    for (size_t i = 0; i < kept->n; i++)
        kept->entries[i].is_known = i != found;
    return true;
}

/* Sets is_known where the last entry that was read is still there: those up to
 * it were read, unless they are newer than the place. An entry that was
 * inserted before it is not noticed; the number of entries shows it, or an
 * older one behind it: then the list may have been written anew. */
static bool
finds_last(struct list_entries *kept, const struct list_past *past)
{
    size_t i = kept->n_marks;

    while (i > 0 && kept->marks[i - 1] != past->mark)
        i--;
    if (!past->mark || i == 0)
        return false;
    kept->is_doubtful = i > past->n;
    for (size_t j = 0; j < kept->n; j++) {
        struct list_entries_entry *k = &kept->entries[j];

        k->is_known =
            k->i < i && !(k->has_time && k->when_us > past->after.time_us);
        kept->is_doubtful |=
            k->i >= i && k->has_time && k->when_us < past->after.time_us;
    }
    return true;
}

static bool
is_any_known(const struct list_entries *kept)
{
    size_t n_kept_known = 0;

    for (size_t i = 0; i < kept->n; i++)
        n_kept_known += kept->entries[i].is_known;
    return kept->n_marks - kept->n + n_kept_known > 0;
}

/* Sets is_known for the first `n` entries of the list. */
static void
know_first(struct list_entries *kept, uint64_t n)
{
    for (size_t i = 0; i < kept->n; i++)
        kept->entries[i].is_known = kept->entries[i].i < n;
}

static enum list_found
find_past(struct list_entries *kept, const struct list_past *past)
{
    size_t n = kept->n_marks;

    if (!past->is_by_order)
        return LIST_BY_TIME;
    if (n >= past->n && kept->sum_past == past->sum) {
        /* Nothing has come, and the last entry of the past is the first. */
        bool ends_in_front = n > 0 && n == past->n &&
                             past->mark == kept->marks[0] &&
                             past->mark != kept->marks[n - 1];

        know_first(kept, past->n);
        if (past->n == 0 ? is_newest_first(kept) : ends_in_front)
            turn_round(kept);
        return LIST_CONTINUED;
    }
    /* The entries of the past are the last ones: it grows at its front. */
    if (n >= past->n && marks_sum(kept->marks + (n - (size_t)past->n),
                                  (size_t)past->n) == past->sum) {
        turn_round(kept);
        know_first(kept, past->n);
        return LIST_CONTINUED;
    }
    if (is_newest_first(kept))
        turn_round(kept);
    if (past->is_other) {
        know_first(kept, 0);
        return LIST_LOST;
    }
    if (past->known.slots ? is_any_known(kept) : finds_one_more(kept, past))
        return LIST_MARKED;
    return finds_last(kept, past) ? LIST_SLID : LIST_LOST;
}

static int
compare_marks(const void *a, const void *b)
{
    const struct list_entries_entry *x = a;
    const struct list_entries_entry *y = b;

    if (x->mark != y->mark)
        return x->mark < y->mark ? -1 : 1;
    return compare_places(a, b);
}

/* Sets is_known where an entry with a time stands in an earlier page, too: the
 * list has moved on while it was read. */
static void
know_repeats(struct list_entries *kept)
{
    const struct list_entries_entry *first = kept->entries;

    if (kept->page == 0 || kept->n == 0)
        return;
    qsort(kept->entries, kept->n, sizeof(*kept->entries), compare_marks);
    for (size_t i = 0; i < kept->n; i++) {
        struct list_entries_entry *k = &kept->entries[i];

        if (k->mark != first->mark)
            first = k;
        k->is_known |= k->has_time && k->page != first->page;
    }
    qsort(kept->entries, kept->n, sizeof(*kept->entries), compare_places);
}

void
list_entries_finish(struct list_entries *kept, int64_t from_us,
                    const struct list_past *past)
{
    const struct list_entries_entry *last = NULL;

    if (kept->n > 0)
        give_times(kept, from_us);
    if (!past->after.is_time ||
        (kept->n > 0 && kept->entries[0].entry->change.seq))
        return;
    kept->found = find_past(kept, past);
    if (kept->found == LIST_BY_TIME && is_newest_first(kept))
        turn_round(kept);
    know_repeats(kept);
    /* Sorts the entries, unless the new ones are the last of the list and in
     * order. */
    kept->is_in_order = true;
    for (size_t i = 0; i < kept->n; i++) {
        const struct list_entries_entry *k = &kept->entries[i];

        if (k->is_known)
            continue;
        if (last)
            kept->is_in_order &=
                last->i + 1 == k->i && last->when_us <= k->when_us;
        last = k;
    }
    kept->is_in_order &= !last || last->i + 1 == kept->n_marks;
    if (!kept->is_in_order)
        qsort(kept->entries, kept->n, sizeof(*kept->entries), compare_entries);
}
