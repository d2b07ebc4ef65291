/*
 * history.h - what a source's Change Lists tell of what happened after a place,
 * oldest first.
 *
 *     Change List, or its Index --+-- reaches back? --> parts in order --> end
 *          next page by `next`    |                        ^
 *                                 +-- prev, archives, -----+
 *                                     their index, or Change Dumps
 *
 * A part may cover less than it seems: a list without `from` begins with its
 * first entry, a list that is a sliding window no longer has what it had, an
 * index may be served where a list is expected. Whether all of it together
 * reaches back to the place is decided before the first entry is handed over:
 * else it is TD_GONE. Entries out of order in one list are sorted by time,
 * stably; entries without any time are told in their order with the time of the
 * one before.
 *
 * Lists of Tidings have seqs: then those decide, not times. "0" is reached by
 * seqs alone: no list without them says that it tells all that ever happened.
 *
 * An entry that a source puts before others that were told, by its time or its
 * place in the list, is not noticed: forbid it.
 */
#ifndef CLIENT_HISTORY_HISTORY_H
#define CLIENT_HISTORY_HISTORY_H

#include "client/lib/client.h"
#include "client/source/discover.h"
#include "client/source/document.h"
#include "client/source/place.h"

struct history;

/* One change, and the place after it. Not called between history_pause and
 * history_resume. False: history_free is called next, or was. */
typedef bool history_entry_fn(const struct document_entry *entry,
                              const struct place *after, void *user);

/* The end. TD_OK: all there was; `upto`: the place that is reached, which may
 * be later than the last entry's. TD_GONE: the lists do not reach back to the
 * place, or end before it: then `upto`, before the place, says where;
 * TD_REFUSED, TD_UNREACHABLE, TD_BROKEN, TD_IO (scratch), TD_MEMORY. */
typedef void history_end_fn(const struct failure *why, const struct place *upto,
                            void *user);

/* A document is not to be had for now (5xx, 429, a connection that broke): it
 * is asked for again in *ms milliseconds, which may be made less; what was
 * found until then is kept. Called while it is paused, too. False: history_free
 * is called next, or was. */
typedef bool history_wait_fn(const struct failure *why, unsigned *ms,
                             void *user);

struct history_plan {
    const struct offered *offered; /* must stay until the end */
    struct place after;
    const char *scratch; /* directory for packages of Change Dumps, must stay
                            until the end; NULL: their manifests are read where
                            they have addresses of their own, else it
                            is TD_GONE */
    /* What the answer of the last time said of the list it ends with, so that a
     * list that has not changed costs a 304. In and out; "" at first. */
    char (*etag)[256];
    /* Out, with TD_OK: the source offers one list, and that is closed; what
     * happens from then on stands in another one. NULL: unwanted. */
    bool *is_closed;
    unsigned silence_s;       /* that ends a document; 0: as page.h has it */
    history_wait_fn *on_wait; /* NULL: the first failure ends it */
};

/* NULL: no memory. It frees itself after on_end. */
struct history *history_start(struct td_client *client,
                              const struct history_plan *plan,
                              history_entry_fn *on_entry,
                              history_end_fn *on_end, void *user);
void history_pause(struct history *history);
void history_resume(struct history *history);
void history_free(struct history *history); /* NULL is allowed */

#endif
