/*
 * history.h - the changes after a place, from a source's Change Lists, oldest
 * first.
 *
 *     Change List, or its Index --+-- reaches back? --> parts in order --> end
 *          next page by `next`    |                        ^
 *                                 +-- prev, archives, -----+
 *                                     their index, or Change Dumps
 *
 * A part may cover less than it seems: a list without `from` begins with its
 * first entry, a sliding window has lost its older entries, an index may stand
 * where a list is expected. Before it hands over the first entry, the history
 * decides whether all parts together reach back to the place; else the end is
 * STATUS_GONE.
 *
 * Lists of Tidings have seqs; then these decide. Other lists are followed by
 * their order (source_position.h, list_entries.h): new are the entries behind
 * those that were read, and all entries of a list that was never read
 * (read_lists.h). Before the first list is read, times decide: the entries
 * since a baseline. The place "0" needs seqs: a list without them never claims
 * to have all changes ever.
 */
#pragma once

#include "client/history/read_lists.h"
#include "client/lib/client.h"
#include "client/source/discovery.h"
#include "client/source/source_position.h"

struct history;

/* One change, and the place after it. `file`: the path of its representation
 * below plan.scratch, from the package of a Change Dump, with the right digests
 * and not synced; the caller may rename it until it returns; NULL: none. Not
 * called while history_hold holds it. False: history_free is
 * called next, or was. */
typedef bool history_entry_fn(const struct document_entry *entry,
                              const struct source_position *after,
                              const char *file, void *user);

/* The end. STATUS_OK: all entries were handed over; `upto` is the place
 * reached, which may be later than the last entry's. STATUS_GONE: the lists do
 * not reach back to the place, or end before it: then `upto`, before the place,
 * is where; STATUS_REFUSED, STATUS_UNREACHABLE, STATUS_MALFORMED, STATUS_IO
 * (scratch), STATUS_MEMORY. */
typedef void history_end_fn(const struct problem *why,
                            const struct source_position *upto, void *user);

/* The server cannot send a document for now (5xx, 429, a broken connection):
 * the history asks again in *ms milliseconds, which the callback may reduce,
 * and keeps what it has found. Called during a pause, too. False: history_free
 * is called next, or was. */
typedef bool history_wait_fn(const struct problem *why, unsigned *ms,
                             void *user);

/* What a follower keeps from one history to the next. */
struct history_notes {
    /* In and out: the ETag of the list that the history ended with, so that an
     * unchanged list costs a 304. "" at first. */
    char etag[256];
    int64_t unknown_us; /* in and out: changes before that time are not known
                           (source_position.h) */

    /* Out, with STATUS_OK */
    bool is_closed;       /* the source offers one list, and it is closed; later
                             changes stand in another one */
    struct problem doubt; /* why entries may be missing in spite of that
                             unchanged if there is no doubt */
    int64_t until_us;     /* where the newest list ends; or DATETIME_NONE: it is
                             open */

    /* Out: where the lists begin, if they do not reach back, or the list of the
     * doubt; or DATETIME_NONE. */
    int64_t begins_us;

    /* Adds the rows of the lists that it mended or left out. */
    struct list_report report;
};

struct history_plan {
    const struct offered *offered; /* must stay until the end */
    struct source_position after;
    struct read_lists *lists; /* of a source without seqs; NULL: the place
                                 alone counts. Notes what was read; the caller
                                 commits it. Must stay until the end */
    const char *scratch; /* directory for packages of Change Dumps, must stay
                            until the end; NULL: a temporary one */
    /* Must stay until the end. */
    struct history_notes *notes;

    /* A list without seqs that is gone for good (404, 410) is left out, and
     * counted at each look, if notes->unknown_us says so already, or if
     * may_lose: then there is a doubt, too, and that grows to the end of the
     * list. Else it is STATUS_GONE. */
    bool may_lose;
    unsigned silence_s; /* that end a document; 0: document_fetch.h's default */
    history_wait_fn *on_wait; /* NULL: the first failure ends it */
};

/* NULL: no memory. It frees itself after on_end. */
struct history *history_start(struct td_client *client,
                              const struct history_plan *plan,
                              history_entry_fn *on_entry,
                              history_end_fn *on_end, void *user);

/* `history`: a struct history. */
void history_hold(void *history, bool is_held);
void history_free(void *history); /* NULL is allowed; not after on_end */
