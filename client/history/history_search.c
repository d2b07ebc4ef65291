/*
 * history_search.c - finds the part to begin with: the one that has the place.
 *
 * By order it is the list of the place, or an earlier one that is new in the
 * index, or has changed there. If that list has gone, or is another one now,
 * the times of the lists decide, as after a baseline:
 *
 *     parts   [0]   [1]   [2]   [3]      from the newest to the oldest, until
 *                    ^<----------+       one begins before the place
 *
 * If the parts do not reach back, it looks for older ones: in the index that
 * the list names, in the archives, by links "prev". No entry was handed over
 * yet.
 */

#include "base/random.h"
#include "client/history/history_state.h"

static void
read_from(struct history *h, size_t i)
{
    h->i = h->origin.has_part && h->search.first < i ? h->search.first : i;
    h->state = HISTORY_READ;
    timer_start(&h->timer, 0);
}

/* All known parts begin after the place. */
static void
end_gone(struct history *h)
{
    int64_t from = h->parts.n ? h->parts.all[0].from_us : DATETIME_NONE;
    struct datetime_text time = datetime_text(from);

    if (h->now.is_time && h->now.time_us == DATETIME_NONE && h->parts.n) {
        read_from(h, 0); /* as far back as there is */
        return;
    }
    /* Lists that left the index may not be in the archive yet; but if the
     * archive names other lists, it would be these that reach back. */
    if (h->older.documents.n > 0 && !h->older.has_parts && history_again(h))
        return;
    history_begins(h, from);
    if (h->parts.n && h->parts.all[0].has_seqs)
        history_fail(h, STATUS_GONE,
                     "the Change Lists begin after entry %" PRIu64
                     ", later than entry %" PRIu64,
                     h->parts.all[0].after, h->now.at.seq);
    else
        history_fail(h, STATUS_GONE,
                     "the Change Lists do not reach back that far%s%s",
                     time.text[0] ? ": they begin at " : "", time.text);
}

/* The known parts do not reach back: looks for older ones. */
static void
look_further(struct history *h)
{
    const char *const older[] = {
        h->older.index, h->plan.offered->change_list_archive, h->older.archives,
        h->plan.offered->change_dump, h->plan.offered->change_dump_archive};
    struct history_part *first = h->parts.n ? &h->parts.all[0] : NULL;
    struct history_part before = {.from_us = DATETIME_NONE};
    enum status rc;

    for (size_t i = 0; i < N_ELEMENTS(older); i++)
        if (older[i] && h->older.i == h->older.documents.n &&
            history_parts_add(&h->older.documents, slice_of(older[i]), NULL) ==
                STATUS_MEMORY) {
            history_overflows(h, STATUS_MEMORY);
            return;
        }
    if (h->older.i < h->older.documents.n) {
        h->older.i++;
        history_load(h, DOCUMENT_OLDER);
    } else if (first && !first->is_probed) {
        h->i = 0;
        history_load(h, DOCUMENT_PROBE);
    } else if (first && first->prev) {
        before.until_us = first->from_us;
        rc = history_parts_add(&h->found, slice_of(first->prev), &before);
        if (rc) {
            history_overflows(h, rc);
            return;
        }
        free(first->prev);
        first->prev = NULL;
        if (history_take_older(h))
            timer_start(&h->timer, 0);
    } else {
        end_gone(h);
    }
}

/* True if the begin of the part `i` is known. The end of the part before counts
 * as its begin. */
static bool
is_known(struct history *h, size_t i)
{
    struct history_part *part = &h->parts.all[i];

    if (part->is_probed)
        return true;
    if (!h->now.is_time)
        return false;
    if (part->from_us == DATETIME_NONE && i > 0)
        part->from_us = h->parts.all[i - 1].until_us;
    return part->from_us != DATETIME_NONE;
}

/* Searches by seq. True: the search is over for now. */
static bool
search_seq(struct history *h, const struct history_part *part)
{
    if (!part->has_seqs) {
        history_fail(h, STATUS_GONE,
                     h->now.at.epoch[0]
                         ? "%s is of another source: it has no numbers"
                         : "%s does not have the whole history",
                     part->url);
        return true;
    }
    if (part->after > h->now.at.seq)
        return false;
    read_from(h, h->i);
    return true;
}

/* Searches by time. A part that begins at the very moment of the place is good
 * enough, but the one before may have entries of that moment, too. */
static bool
search_time(struct history *h, const struct history_part *part)
{
    if (part->from_us == DATETIME_NONE || part->from_us > h->now.time_us)
        return false;
    if (part->from_us == h->now.time_us) {
        h->search.has_candidate = true;
        h->search.candidate = h->i;
        if (h->i > 0 && (h->parts.all[h->i - 1].until_us == DATETIME_NONE ||
                         h->parts.all[h->i - 1].until_us >= h->now.time_us))
            return false;
    }
    read_from(h, h->i);
    return true;
}

/* Finds the list of the place among the parts. Returns the first part that is
 * to be read by order: that one, or an earlier one that is new. */
static size_t
find_origin(struct history *h)
{
    struct history_origin *o = &h->origin;
    size_t first;

    o->has_part = false;
    for (size_t i = 0; i < h->parts.n && !o->has_part; i++) {
        o->has_part = history_url(h, i) == o->place.list;
        o->part = i;
    }
    for (first = 0; o->has_lists && first < o->part; first++)
        if (!history_was_read(h, first))
            return first;
    return o->part;
}

/* a source may add to a list that it has closed, and its index says
 * nothing. So many older lists, with so many entries together, are read again
 * at a look without news; where a source has more of them, in no order. A
 * comparison with the list of all resources covers the others. */
#define AGAIN_LISTS   4
#define AGAIN_ENTRIES 1000
#define AGAIN_TRIES   64

/* The newest list, that of the place, has nothing new: goes on with what else
 * may be new. */
static void
stay_quiet(struct history *h)
{
    size_t n = h->origin.has_lists ? h->origin.part : 0;
    size_t first = n > 0 ? random_u32() % n : 0;
    uint64_t left = AGAIN_ENTRIES;

    h->search.is_quiet = true;
    if (h->list.etag[0])
        memcpy(h->notes->etag, h->list.etag, sizeof(h->list.etag));
    /* Reads some of the older lists again, from one by chance. */
    for (size_t k = 0, n_lists = 0;
         k < n && k < AGAIN_TRIES && n_lists < AGAIN_LISTS; k++) {
        size_t i = (first + k) % n;
        struct read_list read;

        if (!read_lists_find(h->plan.lists, history_url(h, i), &read) ||
            read.is_skipped || read.n > left || h->parts.all[i].is_package)
            continue;
        h->parts.all[i].is_again = true;
        left -= read.n;
        n_lists++;
        if (i < h->search.first)
            h->search.first = i;
    }
    read_from(h, h->search.first);
}

/* Searches by order. True: the search is over for now. */
static bool
search_order(struct history *h)
{
    struct history_origin *o = &h->origin;
    bool is_newest;

    if (!h->parts.n || !h->now.is_time)
        return false;
    if (h->now.is_end) {
        read_from(h, h->parts.n - 1);
        return true;
    }
    if (!o->place.has_list)
        return false;
    if (o->n_parts != h->parts.n) {
        h->search.first = find_origin(h);
        o->n_parts = h->parts.n;
    }
    if (!o->has_part)
        return false;
    is_newest = o->part + 1 == h->parts.n;
    if (!is_newest || (h->list.is_loaded && history_is_recognised(h)) ||
        h->parts.all[o->part].is_package || h->parts.all[o->part].is_gone) {
        if (is_newest && o->has_lists && h->list.is_loaded &&
            h->list.kept.found == LIST_CONTINUED &&
            h->list.kept.n_marks == o->place.n_read)
            stay_quiet(h); /* all of the list was read before */
        else
            read_from(h, h->search.first);
        return true;
    }
    if (h->list.is_loaded)
        return false;
    h->search.may_be_same = true;
    h->i = o->part;
    history_load(h, DOCUMENT_PART);
    return true;
}

/* If the newest list has not changed, a 304 ends the search by time. True: it
 * is asked for. */
static bool
looks_at_newest(struct history *h)
{
    if (h->search.has_looked || !h->parts.n || !h->notes->etag[0])
        return false;
    h->search.has_looked = true;
    if (h->list.is_loaded || !history_last_etag(h))
        return false;
    h->search.may_be_same = true;
    h->i = h->parts.n - 1;
    history_load(h, DOCUMENT_PART);
    return true;
}

void
history_search(struct history *h)
{
    const struct history_part *part;

    if (h->search.is_quiet) { /* the newest list is as it was */
        stay_quiet(h);
        return;
    }
    if (search_order(h) || looks_at_newest(h))
        return;
    while (h->i > 0 && !(h->now.is_time && h->now.time_us == DATETIME_NONE)) {
        if (!is_known(h, h->i - 1)) {
            h->i--;
            history_load(h, DOCUMENT_PROBE);
            return;
        }
        h->i--;
        part = &h->parts.all[h->i];
        if (h->now.is_time ? search_time(h, part) : search_seq(h, part))
            return;
    }
    /* If the source has no entry at all, the one list is its history. */
    if (h->search.has_candidate ||
        (h->now.is_time && h->list.is_loaded && h->parts.n == 1 &&
         h->list.kept.n_seen == 0 && h->list.head.from_us == DATETIME_NONE))
        read_from(h, h->search.candidate);
    else
        look_further(h);
}
