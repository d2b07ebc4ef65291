/*
 * history_inside.h - a history: history.c asks for its documents,
 * history_document.c sees what came of them,
 * history_search.c decides where to begin, history_tell.c what is new,
 * history_again.c what is asked for again; history_events.c and history_dump.c
 * read. Only these include it.
 */
#ifndef CLIENT_HISTORY_HISTORY_INSIDE_H
#define CLIENT_HISTORY_HISTORY_INSIDE_H

#include "client/dumps/scratch.h"
#include "client/history/history.h"
#include "client/history/history_parts.h"
#include "client/history/kept.h"
#include "client/source/page.h"

/*
 *   TOP --> SEARCH --> READ --> TELL --> READ ... --> END
 *    ^       |  ^        |
 *    |       v  |        |
 *    |   PROBE, OLDER    |
 *    +-- moved on -------+
 */
enum history_state {
    HISTORY_TOP,    /* what stands at the capability's address */
    HISTORY_SEARCH, /* the part in which the place is */
    HISTORY_READ,   /* the part `i`, whole */
    HISTORY_TELL    /* what was kept of it */
};

/* The document that is being read. */
enum history_document {
    DOCUMENT_TOP,
    DOCUMENT_OLDER, /* an index, an archive or its index: names parts */
    DOCUMENT_PROBE, /* the root of the part `i` */
    DOCUMENT_PART,
    DOCUMENT_PAGE /* the next page of a part */
};

/* What its root says, and whether it names lists or changes. */
struct history_root {
    bool is_known; /* which of both */
    bool is_index;
    int64_t first_us; /* earliest time of its entries, looked at in a probe */
    char *next, *prev, *index, *archives;
};

/* An entry, as far as it is told from others of its moment. */
struct met {
    uint64_t hash; /* mark_of it */
    size_t part, page;
};

/* What there was before the document that is being read. */
struct history_mark {
    struct kept kept;
    size_t n_found, n_older;
};

struct history {
    struct td_client *client;
    const struct offered *offered;
    char (*etag)[256];
    bool *is_closed; /* history_plan's */
    unsigned silence_s;
    history_entry_fn *on_entry;
    history_wait_fn *on_wait;
    history_end_fn *on_end;
    void *user;
    struct timer *timer;
    bool *is_freed; /* told to whoever calls back */
    bool is_paused;

    enum history_state state;
    struct place now; /* that was reached */
    uint64_t n_at;    /* entries of that very time that were met ... */
    struct met *met;  /* ... the first of them */
    size_t n_met;
    bool is_met_mixed; /* they are of several parts or pages */

    struct history_parts parts;
    size_t i;           /* the one that is looked at */
    bool is_loaded;     /* the last one is in `kept` */
    bool has_candidate; /* begins at the very moment of the place */
    size_t candidate;
    bool has_looked; /* for a list that has not changed */
    bool has_told;   /* something, since it was begun or begun again */

    /* Older ones */
    char *index, *archives;
    struct history_parts older; /* documents of them that are to be read */
    size_t i_older;
    bool has_older;     /* they named parts that were not known */
    bool is_top_closed; /* the capability is a list with an end */
    struct history_parts
        found; /* in them, or in the document that is being read */

    struct page *page;
    struct download *download; /* of a package */
    const char *scratch_path;  /* NULL: none */
    struct scratch scratch;    /* from the first package on */
    enum history_document document;
    struct history_root root;
    struct document_head head; /* of the list in `kept`: its first page */
    int64_t begin_us;          /* of it, or DATETIME_NONE */
    char *next;                /* what follows it, with seqs */
    struct kept kept;
    size_t i_kept; /* the next to be told */
    struct history_parts pages;
    char seen_etag[256]; /* of the part that was read last */

    /* history_again.c */
    int64_t due_ms;  /* nothing is done before; 0: no pause */
    bool has_failed; /* the document is asked for again then */
    struct history_mark before;
    unsigned pause_ms; /* of the next attempt */
    unsigned n_looks;  /* at lists that moved on, without anything new */
    unsigned look_pause_ms;
};

/* Ends it. False, always: it is gone. */
bool history_end(struct history *h, const struct failure *why);
bool history_end_well(struct history *h); /* up to `now` */
bool history_fail(struct history *h, enum td_status rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, where no more documents can be known: STATUS_MEMORY, _TOO_LARGE. */
bool history_overflows(struct history *h, enum status rc);

/* Knows of no document any more. */
void history_forget(struct history *h);

/* The lists have moved on while they were read: looks for the place that was
 * reached anew. False: that was done again and again, and nothing came of it.
 */
bool history_again(struct history *h);

/* Is no pause under way? Else the timer is set for its end. */
bool history_is_due(struct history *h);

/* Before a document is read; and when it was not to be had. */
void history_mark(struct history *h);
void history_rewind(struct history *h);

/* The document is not to be had for now. True: it is asked for again after a
 * pause, or it is gone. */
bool history_waits(struct history *h, const struct failure *why);

/* Begins to read a document: the capability's, the last one of `older` that is
 * begun, the part `i`, the last of `pages`. False: gone. */
bool history_load(struct history *h, enum history_document document);

/* The same, of the manifest in a package. */
bool history_load_package(struct history *h, const char *url);

/* What is read of each. */
extern const struct document_events history_events;

/* A document was read, or is not to be had. */
void history_end_document(struct history *h, const struct page_answer *answer,
                          const struct failure *why);

/* One step of HISTORY_SEARCH: loads something, or goes on to HISTORY_READ, or
 * ends. */
void history_search(struct history *h);

/* A turn of HISTORY_TELL; then HISTORY_READ of the next part. */
void history_tell(struct history *h);

/* Adds what was found in older documents before all parts. False: gone. */
bool history_take_older(struct history *h);

/* The ETag of the newest list as it is kept for the next time, with what tells
 * which list that was: its URL and that of the one before it, which is another
 * one as soon as the list was closed. Without an ETag, as it begins. */
void history_tag(char to[256], const struct history *h, const char *etag);

#endif
