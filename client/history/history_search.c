/*
 * history_search.c - finds the part to begin with: the one that has the place.
 *
 *     parts   [0]   [1]   [2]   [3]      from the newest to the oldest, until
 *                    ^<----------+       one begins before the place
 *
 * If the parts do not reach back, it looks for older ones: in the index that
 * the list names, in the archives, by links "prev". No entry was handed over
 * yet.
 */
#include <stdlib.h>
#include <string.h>

#include "client/history/history_state.h"

static void
read_from(struct history *h, size_t i)
{
    h->i = i;
    h->state = HISTORY_READ;
    timer_start(h->timer, 0);
}

static void
read_older(struct history *h)
{
    h->older.i++;
    history_load(h, DOCUMENT_OLDER);
}

/* Adds `url` to the documents that name older lists. False: NULL or known. */
static bool
is_older(struct history *h, const char *url)
{
    size_t n = h->older.documents.n;
    enum status rc = STATUS_OK;

    if (url)
        rc = history_parts_add(&h->older.documents, slice_of(url),
                               DATETIME_NONE, DATETIME_NONE);
    return !rc && h->older.documents.n > n;
}

/* All known parts begin after the place. */
static void
tell_gone(struct history *h)
{
    char time[DATETIME_SIZE + 1] = "";
    int64_t from = h->parts.n ? h->parts.all[0].from_us : DATETIME_NONE;

    /* Lists that left the index may not be in the archive yet; but if the
     * archive names other lists, it would be these that reach back. */
    if (h->older.documents.n > 0 && !h->older.has_parts && history_again(h))
        return;
    if (from != DATETIME_NONE)
        datetime_write(time, from);
    if (h->parts.n && h->parts.all[0].has_seqs)
        history_fail(h, STATUS_GONE,
                     "the Change Lists begin after entry %llu, later than "
                     "entry %llu",
                     (unsigned long long)h->parts.all[0].after,
                     (unsigned long long)h->now.at.seq);
    else
        history_fail(h, STATUS_GONE,
                     "the Change Lists do not reach back that far%s%s",
                     time[0] ? ": they begin at " : "", time);
}

/* The known parts do not reach back: looks for older ones. */
static void
look_further(struct history *h)
{
    struct history_part *first = h->parts.n ? &h->parts.all[0] : NULL;
    enum status rc;

    if (h->older.i < h->older.documents.n) {
        read_older(h);
    } else if (is_older(h, h->older.index) ||
               is_older(h, h->plan.offered->change_list_archive) ||
               is_older(h, h->older.archives) ||
               is_older(h, h->plan.offered->change_dump) ||
               is_older(h, h->plan.offered->change_dump_archive)) {
        read_older(h);
    } else if (first && !first->is_probed) {
        h->i = 0;
        history_load(h, DOCUMENT_PROBE);
    } else if (first && first->prev) {
        rc = history_parts_add(&h->found, slice_of(first->prev), DATETIME_NONE,
                               first->from_us);
        if (rc) {
            history_overflows(h, rc);
            return;
        }
        free(first->prev);
        first->prev = NULL;
        if (history_take_older(h))
            timer_start(h->timer, 0);
    } else {
        tell_gone(h);
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

/* True if the source has no entry at all: then the one list is its history. */
static bool
is_empty(const struct history *h)
{
    return h->now.is_time && h->list.is_loaded && h->parts.n == 1 &&
           h->list.kept.n_seen == 0 && h->list.head.from_us == DATETIME_NONE;
}

void
history_search(struct history *h)
{
    const struct history_part *part;

    /* If the newest list has not changed, a 304 ends the search. */
    if (!h->search.has_looked && h->parts.n > 0 && h->plan.etag &&
        (*h->plan.etag)[0]) {
        h->search.has_looked = true;
        if (!h->list.is_loaded && history_last_etag(h)) {
            h->i = h->parts.n - 1;
            history_load(h, DOCUMENT_PART);
            return;
        }
    }
    while (h->i > 0) {
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
    if (h->search.has_candidate || is_empty(h))
        read_from(h, h->search.candidate);
    else
        look_further(h);
}
