/*
 * history_deliver.c - selects the new entries of a list, with the place after
 * each.
 *
 * By seqs a list either continues the last one or is broken. Without seqs
 * list_entries.c has found the entries that were read before; where it cannot,
 * the times decide: entries before the place are skipped.
 */
#include <unistd.h>

#include "client/history/history_state.h"

/* Entries handed over in one turn of the loop. */
#define TURN 1000

/* True if the entry is no news because it stood in the list before, too: a list
 * may have two addresses, or move on while it is read. */
static bool
is_repeat(struct history *h, const struct list_entries_entry *k)
{
    struct list_past *past = &h->list.past;

    return k->has_time && !past->mark &&
           !(h->list.kept.found == LIST_CONTINUED && past->n) &&
           mark_set_has(&past->known, k->mark);
}

/* True if the entry is new by its time. R-410: so is one without a time that
 * may have happened after the place, before which nothing of this list is
 * known. */
static bool
passes_by_time(struct history *h, const struct list_entries_entry *k)
{
    struct history_origin *o = &h->origin;

    if (k->when_us == o->place.time_us && o->n_again > 0) {
        o->n_again--;
        return false;
    }
    return k->when_us >= o->place.time_us ||
           (!k->has_time && k->bound_us >= o->place.time_us &&
            (source_position_is_moment(&o->place) ||
             h->list.kept.found == LIST_LOST));
}

/* Returns the sum of the marks before the entry `i`, which grows from call to
 * call. */
static uint64_t
sum_before(struct history *h, size_t i)
{
    while (h->list.n_summed < i)
        h->list.sum += h->list.kept.marks[h->list.n_summed++];
    return h->list.sum;
}

/* Moves the place behind a new entry. Its time is the latest of all entries up
 * to it. */
static void
move_place(struct history *h, const struct list_entries_entry *k)
{
    if (k->when_us == h->now.time_us) {
        h->now.n_at++;
    } else if (k->when_us > h->now.time_us || !h->list.kept.is_in_order) {
        h->now.time_us = k->when_us;
        h->now.n_at = 1;
    }
    if (h->list.is_behind)
        return;
    h->now.has_list = true;
    h->now.list = history_url(h, h->i);
    h->now.mark = k->mark;
    h->now.is_within = !h->list.kept.is_in_order;
    if (h->now.is_within) {
        h->now.n_read = h->list.begun.n_read;
        h->now.sum = h->list.begun.sum;
    } else {
        h->now.n_read = k->i + 1;
        h->now.sum = sum_before(h, k->i + 1);
    }
}

/*
 * Without the order of the list the number of entries at the place's moment
 * says nothing: all of them are handed over again, rather than one missed;
 * unless the list begins with that moment and may have lost later entries.
 * False: gone.
 */
static bool
begin_by_time(struct history *h)
{
    const struct source_position *place = &h->origin.place;
    const struct history_part *part = &h->parts.all[h->i];
    bool is_window = h->list.head.from_us == DATETIME_NONE &&
                     part->from_us == place->time_us &&
                     h->list.kept.first_us == place->time_us;

    if (!is_window || !place->has_list || !place->mark || place->is_within ||
        h->has_delivered ||
        h->i + 1 < h->parts.n) /* another list may have the last entry */
        return true;
    history_begins(h, part->from_us);
    return history_fail(h, STATUS_GONE,
                        "%s no longer has the last reported change", part->url);
}

static bool
is_numbered(const struct history *h)
{
    return h->list.head.has_td_range && h->list.head.td.epoch[0];
}

/* Reports where the oldest list begins, if the history begins there. */
static void
doubt_beginning(struct history *h)
{
    const struct source_position *place = &h->origin.place;
    struct datetime_text time = datetime_text(h->list.begin_us);

    if (h->i > 0 || place->time_us != DATETIME_NONE || place->has_list ||
        place->is_end || (is_numbered(h) && h->list.head.td.after == 0))
        return;
    history_doubt(h, "%s begins %s%s: what was before is not known",
                  h->parts.all[0].url, time.text[0] ? "at " : "somewhere",
                  time.text);
}

/* reports what the list hides. A list that states that it has all
 * changes since the place or earlier hides nothing, if all of them have
 * times. */
static void
note_doubts(struct history *h)
{
    const struct list_entries *kept = &h->list.kept;
    const struct source_position *place = &h->origin.place;
    const char *url = h->parts.all[h->i].url;
    bool covers =
        h->list.head.from_us != DATETIME_NONE &&
        h->list.head.from_us <= place->time_us &&
        (kept->datetimes.n == kept->n_seen || kept->lastmods.n == kept->n_seen);
    bool is_own = h->list.past.mark || h->list.is_behind;

    if (source_position_is_old(place))
        history_doubt(h,
                      "the position is of an earlier version, which did not "
                      "notice changes before it in %s",
                      url);
    if (kept->is_doubtful ||
        (kept->found == LIST_LOST && is_own && !h->list.is_whole && !covers)) {
        history_begins(h, h->list.begin_us != DATETIME_NONE ? h->list.begin_us
                                                            : place->time_us);
        history_doubt(h,
                      "%s is another one than the list that was read: changes "
                      "may be missing, or come twice",
                      url);
    }
    doubt_beginning(h);
}

/* Prepares the new entries of a list without seqs. False: gone. */
static bool
begin_list(struct history *h)
{
    const struct list_entries *kept = &h->list.kept;
    bool is_own = h->now.has_list && h->now.list == history_url(h, h->i);
    size_t first = kept->n_marks;

    if (!h->now.is_time)
        return true;
    note_doubts(h);
    h->list.is_by_time = kept->found == LIST_BY_TIME ||
                         (kept->found == LIST_LOST && !h->list.is_whole);
    if (kept->found == LIST_CONTINUED && h->list.past.n && !h->list.is_behind)
        is_own = true; /* at another address, perhaps */
    h->list.begun = h->now;
    for (size_t i = 0; i < kept->n; i++)
        if (!kept->entries[i].is_known && kept->entries[i].i < first)
            first = kept->entries[i].i;
    h->list.begun.n_read = first;
    h->list.begun.sum = sum_before(h, first);
    h->origin.is_passed |= is_own;
    if (!kept->is_in_order) {
        h->now.time_us = DATETIME_NONE; /* it is that of the last one now */
        h->now.n_at = 0;
    }
    if (is_own && h->now.is_within) {
        h->list.is_by_time = true;
        h->now.time_us = h->origin.place.time_us;
        h->origin.n_again = h->now.n_at = h->origin.place.n_at;
    }
    return !h->list.is_by_time || begin_by_time(h);
}

/* Moves the place to the end of a list without seqs, and notes that it was
 * read. False: the history has ended. */
static bool
end_list(struct history *h)
{
    const struct list_entries *kept = &h->list.kept;
    struct read_list list = {.url = history_url(h, h->i),
                             .row = h->parts.all[h->i].row,
                             .n = kept->n_marks,
                             .sum = marks_sum(kept->marks, kept->n_marks)};
    const uint64_t *marks = h->list.is_behind ? NULL : kept->marks;
    struct problem why = {.text = ""};

    h->parts.all[h->i].is_read = true;
    mark_set_fini(&h->list.last);
    if (h->i + 1 < h->parts.n &&
        !mark_set_init(&h->list.last, kept->marks, kept->n_marks))
        return history_overflows(h, STATUS_MEMORY);
    if (h->plan.lists && read_lists_note(h->plan.lists, &list, marks, &why))
        return history_end(h, &why);
    if (h->list.begun.time_us > h->now.time_us) { /* late entries */
        h->now.time_us = h->list.begun.time_us;
        h->now.n_at = h->list.begun.n_at;
    }
    if (h->list.is_behind)
        return true;
    if (h->now.is_end) {
        if (list_entries_newest(kept) != DATETIME_NONE)
            h->now.time_us = list_entries_newest(kept);
        else if (h->list.begin_us != DATETIME_NONE)
            h->now.time_us = h->list.begin_us;
        h->now.n_at = kept->n_marks > 0;
    }
    h->now.has_list = true;
    h->now.is_end = h->now.is_within = false;
    h->now.list = list.url;
    h->now.n_read = list.n;
    h->now.sum = list.sum;
    if (list.n)
        h->now.mark = kept->marks[list.n - 1];
    return true;
}

/* Moves the place to a seq: a log with seqs has no other places. */
static void
stand_at(struct history *h, uint64_t seq)
{
    h->now.is_time = false;
    memcpy(h->now.at.epoch, h->list.head.td.epoch, sizeof(h->now.at.epoch));
    h->now.at.seq = seq;
}

/* 1: the entry is new; 0: it is not; -1: the history has ended. */
static int
takes_entry(struct history *h, const struct list_entries_entry *k)
{
    uint64_t seq = k->entry->change.seq;

    if (h->now.is_time) {
        if (k->is_known || is_repeat(h, k) ||
            (h->list.is_by_time && !passes_by_time(h, k)))
            return 0;
        move_place(h, k);
        if (is_numbered(h) && seq)
            stand_at(h, seq);
        return 1;
    }
    if (seq && seq <= h->now.at.seq)
        return 0;
    if (seq != h->now.at.seq + 1) {
        history_fail(h, STATUS_MALFORMED,
                     "%s: after entry %" PRIu64 " comes %" PRIu64,
                     h->parts.all[h->i].url, h->now.at.seq, seq);
        return -1;
    }
    stand_at(h, seq);
    return 1;
}

/* compares the list's entries with its range. False: gone. */
static bool
closes_list(struct history *h)
{
    uint64_t last = h->list.head.td.last;

    if (!is_numbered(h))
        return !h->now.is_time || end_list(h);
    if (h->now.is_time && h->i + 1 == h->parts.n) {
        stand_at(h, last);
        return true;
    }
    if (h->now.is_time)
        return true;
    if (h->now.at.seq < last)
        return history_fail(h, STATUS_MALFORMED,
                            "%s: it ends with entry %" PRIu64
                            ", not with %" PRIu64,
                            h->parts.all[h->i].url, h->now.at.seq, last);
    if (h->now.at.seq > last && h->i + 1 == h->parts.n && !h->list.next) {
        uint64_t seq = h->now.at.seq;

        stand_at(h, last);
        return history_fail(h, STATUS_GONE,
                            "entry %" PRIu64
                            " is ahead of the log, which ends with %" PRIu64,
                            seq, last);
    }
    return true;
}

static void
next_part(struct history *h)
{
    enum status rc = STATUS_OK;

    if (!closes_list(h))
        return;
    if (is_numbered(h) && h->list.next && h->i + 1 == h->parts.n)
        rc = history_parts_add(&h->parts, slice_of(h->list.next), NULL);
    if (rc) {
        history_overflows(h, rc);
        return;
    }
    h->i++;
    h->list.is_loaded = false;
    h->state = HISTORY_READ;
    timer_start(&h->timer, 0);
}

/* The bytes of entries, in the package of a Change Dump */

/* A file for history_entry_fn, relative to plan.scratch. */
#define FILE_SIZE (SCRATCH_NAME_SIZE + ZIP_READER_NAME_SIZE)

static void
expect_members(struct history *h)
{
    struct problem why = {.text = ""};

    h->is_expecting = true;
    for (size_t i = 0; i < h->list.kept.n; i++) {
        const struct document_entry *e = h->list.kept.entries[i].entry;

        if (e->path.size > 0 &&
            zip_reader_expect(h->package, e->path, e->change.length,
                              e->change.hash, &why)) {
            history_close_package(h); /* each file can be fetched */
            return;
        }
    }
}

/* Unpacks some of the member of an entry. True: that is over, and `file` is its
 * file, or "" if there is none. */
static bool
take_member(struct history *h, const struct document_entry *e,
            char file[FILE_SIZE])
{
    char name[ZIP_READER_NAME_SIZE];
    struct problem why = {.text = ""};
    bool is_over = false;
    enum status rc = STATUS_OK;

    file[0] = '\0';
    if (h->package && !h->is_expecting)
        expect_members(h);

    if (!h->package || e->path.size == 0 || e->change.kind == CHANGE_DELETED)
        return true;
    if (!h->is_taking && zip_reader_find(h->package, e->path, &why))
        return true;
    rc = source_limits_look(&h->client->room, h->scratch.fd,
                            ZIP_READER_STEP_BYTES, &why);
    if (!rc)
        rc = zip_reader_take(h->package, &is_over, name, &why);
    h->is_taking = !rc && !is_over;
    if (h->is_taking)
        return false;
    if (rc && !is_over)
        history_close_package(h);
    else if (!rc)
        snprintf(file, FILE_SIZE, "%s/%s", h->scratch.name, name);
    return true;
}

void
history_deliver(struct history *h)
{
    char file[FILE_SIZE];

    if (h->list.i_kept == 0 && !begin_list(h))
        return;
    for (size_t n = 0; n < TURN && h->list.i_kept < h->list.kept.n; n++) {
        const struct list_entries_entry *k =
            &h->list.kept.entries[h->list.i_kept];
        int taken = h->is_taking ? 1 : takes_entry(h, k);
        bool goes_on;

        if (taken < 0)
            return;
        if (taken && !take_member(h, k->entry, file)) {
            timer_start(&h->timer, 0);
            return;
        }
        h->list.i_kept++;
        if (!taken)
            continue;
        h->has_delivered = true;
        goes_on =
            h->on_entry(k->entry, &h->now, file[0] ? file : NULL, h->user);
        if (h->retired.is_over)
            return;
        if (file[0]) /* the caller may have taken it */
            unlinkat(h->scratch.fd, strchr(file, '/') + 1, 0);
        if (!goes_on)
            h->is_paused = true; /* until it is freed */
        if (h->is_paused)
            return;
    }
    if (h->list.i_kept < h->list.kept.n)
        timer_start(&h->timer, 0);
    else
        next_part(h);
}
