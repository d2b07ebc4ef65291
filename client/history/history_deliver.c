/*
 * history_deliver.c - selects the new entries of a list, with the place after
 * each.
 *
 * By seqs a list either continues the last one or is broken. By time it skips
 * entries before the place, and as many entries at the time of the place as the
 * place says.
 */
#include <stdlib.h>
#include <string.h>

#include "client/history/history_state.h"

/* Entries handed over in one turn of the loop. */
#define TURN 1000

/* Entries of one moment that are compared with each other. */
#define MET_MAX 10000

/* 0xff ends the text: it is not in UTF-8. */
static uint64_t
add_text(uint64_t hash, struct slice text)
{
    return history_hash(history_hash(hash, text), SLICE("\xff"));
}

/* Hashes what distinguishes an entry from others of its moment; never 0. */
static uint64_t
mark_of(const struct document_entry *e)
{
    uint64_t hash = FNV1A_BEGIN + (uint64_t)e->change.kind;

    hash = add_text(hash, e->change.loc);
    hash = add_text(hash, e->change.hash);
    hash = (hash ^ e->change.length) * FNV1A_PRIME;
    return hash ? hash : 1;
}

/*
 * The same entry may stand in two lists or pages: if a list has two addresses,
 * or moves on while it is read. An entry of the same resource and moment from
 * another part or page is neither handed over again nor counted.
 */
static bool
was_met_elsewhere(struct history *h, const struct list_entries_entry *k,
                  uint64_t mark)
{
    struct met met = {mark, h->i, k->page};

    if (h->moment.n_met == 0)
        h->moment.is_mixed = false;
    else if (h->moment.met[0].part != met.part ||
             h->moment.met[0].page != met.page)
        h->moment.is_mixed = true;
    for (size_t i = 0; h->moment.is_mixed && i < h->moment.n_met; i++)
        if (h->moment.met[i].hash == met.hash &&
            (h->moment.met[i].part != met.part ||
             h->moment.met[i].page != met.page))
            return true;
    if (!h->moment.met)
        h->moment.met = malloc(MET_MAX * sizeof(*h->moment.met));
    if (h->moment.met && h->moment.n_met < MET_MAX)
        h->moment.met[h->moment.n_met++] = met;
    return false;
}

/* True if the entry is new; then `h->now` is the place after it. */
static bool
passes_by_time(struct history *h, const struct list_entries_entry *k)
{
    uint64_t mark = mark_of(k->entry);

    if (k->when_us < h->now.time_us)
        return false;
    if (k->when_us > h->now.time_us) {
        h->now.time_us = k->when_us;
        h->now.n_at = 0;
        h->moment.n = 0;
        h->moment.n_met = 0;
    }
    if (was_met_elsewhere(h, k, mark))
        return false;
    if (++h->moment.n <= h->now.n_at)
        return false;
    h->now.n_at = h->moment.n;
    h->now.mark = mark;
    return true;
}

/* Finds the entry with the place's mark among those of its moment. Returns the
 * number of the last candidate, 0 if there is none; `*is_there`: the list has
 * that mark at all. */
static uint64_t
find_mark(struct history *h, bool *is_there)
{
    size_t n_met = h->moment.n_met;
    uint64_t n = h->moment.n;
    uint64_t found = 0;

    *is_there = false;
    for (size_t i = 0; i < h->list.kept.n; i++) {
        const struct list_entries_entry *k = &h->list.kept.entries[i];
        uint64_t mark;

        if (k->when_us != h->now.time_us)
            continue;
        mark = mark_of(k->entry);
        if (was_met_elsewhere(h, k, mark))
            continue;
        n++;
        if (mark != h->now.mark)
            continue;
        *is_there = true;
        if (n <= h->now.n_at)
            found = n;
    }
    h->moment.n_met = n_met;
    return found;
}

/*
 * Lists do not always keep R-142: a window loses entries at its beginning,
 * another list has only the last change of each resource. Then the count is
 * wrong: of the entries at the place's moment, those up to the one with its
 * mark were handed over. Without that mark all of the moment are handed over
 * again, rather than one missed; unless the list begins with that moment and
 * may have lost later entries. False: gone.
 */
static bool
begin_list(struct history *h)
{
    const struct history_part *part = &h->parts.all[h->i];
    bool is_window = h->list.head.from_us == DATETIME_NONE &&
                     part->from_us == h->now.time_us &&
                     h->list.kept.first_us == h->now.time_us;
    bool is_there;
    uint64_t found;

    if (!h->now.is_time || !h->now.mark || h->has_told)
        return true;
    found = find_mark(h, &is_there);
    if (found) {
        h->now.n_at = found;
        return true;
    }
    if (h->moment.n > 0 || h->i + 1 < h->parts.n) /* another list may have it */
        return true;
    if (is_window && !is_there)
        return history_fail(h, STATUS_GONE,
                            "%s no longer has the last reported change",
                            part->url);
    h->now.n_at = 0;
    return true;
}

static bool
is_numbered(const struct history *h)
{
    return h->list.head.has_td_range && h->list.head.td.epoch[0];
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
        if (!passes_by_time(h, k))
            return 0;
        if (is_numbered(h) && seq)
            stand_at(h, seq);
        return 1;
    }
    if (seq && seq <= h->now.at.seq)
        return 0;
    if (seq != h->now.at.seq + 1) {
        history_fail(h, STATUS_MALFORMED, "%s: after entry %llu comes %llu",
                     h->parts.all[h->i].url, (unsigned long long)h->now.at.seq,
                     (unsigned long long)seq);
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
        return true;
    if (h->now.is_time && h->i + 1 == h->parts.n) {
        stand_at(h, last);
        return true;
    }
    if (h->now.is_time)
        return true;
    if (h->now.at.seq < last)
        return history_fail(
            h, STATUS_MALFORMED, "%s: it ends with entry %llu, not with %llu",
            h->parts.all[h->i].url, (unsigned long long)h->now.at.seq,
            (unsigned long long)last);
    if (h->now.at.seq > last && h->i + 1 == h->parts.n && !h->list.next) {
        uint64_t seq = h->now.at.seq;

        stand_at(h, last);
        return history_fail(h, STATUS_GONE,
                            "entry %llu is ahead of the log, which ends with "
                            "%llu",
                            (unsigned long long)seq, (unsigned long long)last);
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
        rc = history_parts_add(&h->parts, slice_of(h->list.next), DATETIME_NONE,
                               DATETIME_NONE);
    if (rc) {
        history_overflows(h, rc);
        return;
    }
    h->i++;
    h->list.is_loaded = false;
    h->state = HISTORY_READ;
    timer_start(h->timer, 0);
}

void
history_tell(struct history *h)
{
    bool is_freed = false;

    if (h->list.i_kept == 0 && !begin_list(h))
        return;
    for (size_t n = 0; n < TURN && h->list.i_kept < h->list.kept.n; n++) {
        const struct list_entries_entry *k =
            &h->list.kept.entries[h->list.i_kept++];
        int taken = takes_entry(h, k);
        bool goes_on;

        if (taken < 0)
            return;
        if (!taken)
            continue;
        h->has_told = true;
        h->is_freed = &is_freed;
        goes_on = h->on_entry(k->entry, &h->now, h->user);
        if (is_freed)
            return;
        h->is_freed = NULL;
        if (!goes_on)
            h->is_paused = true; /* until it is freed */
        if (h->is_paused)
            return;
    }
    if (h->list.i_kept < h->list.kept.n)
        timer_start(h->timer, 0);
    else
        next_part(h);
}
