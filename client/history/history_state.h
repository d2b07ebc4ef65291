/*
 * history_state.h - a history while it reads, for this folder only:
 *
 *     history.c            the way through the states
 *     history_search.c     decides where to begin
 *     history_deliver.c    hands over the new entries
 *     history_document.c   asks for documents, and takes what they have
 *     history_state.c      pauses, forgets, asks again, ends
 *
 * Each calls only those below it.
 */
#pragma once

#include "client/dumps/scratch_dir.h"
#include "client/dumps/zip_reader.h"
#include "client/history/history.h"
#include "client/history/list_entries.h"
#include "client/history/part_list.h"
#include "client/source/document_fetch.h"
#include "proto/fnv1a.h"

/*
 *   TOP --> SEARCH --> READ --> DELIVER --> READ ... --> END
 *    ^       |  ^        |
 *    |       v  |        |
 *    |   PROBE, OLDER    |
 *    +-- moved on -------+
 */
enum history_state {
    HISTORY_TOP,    /* the document at the capability's address */
    HISTORY_SEARCH, /* for the part that has the place */
    HISTORY_READ,   /* the whole part `i` */
    HISTORY_DELIVER /* hands over its kept entries */
};

/* The document being read. */
enum history_document {
    DOCUMENT_TOP,
    DOCUMENT_OLDER, /* an index, an archive or its index: names parts */
    DOCUMENT_PROBE, /* the root of the part `i` */
    DOCUMENT_PART,
    DOCUMENT_PAGE /* the next page of a part */
};

/* The root of a document, and whether it names lists or changes. */
struct history_root {
    bool is_known; /* lists or changes */
    bool is_index;
    int64_t first_us; /* earliest time of its entries, in a probe */
    char *next, *prev;
};

#define HISTORY_PACKAGE "history.zip"

/* The search for the part to begin with. */
struct history_search {
    bool has_looked;    /* whether the newest list is unchanged */
    bool has_candidate; /* a part begins at the very moment of the place */
    size_t candidate;
    bool is_quiet;    /* the newest list, that of the place, has no news */
    bool may_be_same; /* the newest list may be unchanged: that is the end */
    size_t first;     /* the search by time begins there at the latest */
};

/* Lists older than the known parts */
struct history_older {
    char *index, *archives;
    struct history_parts documents; /* to read for them */
    size_t i;                       /* the next one of these */
    bool has_parts;                 /* they named unknown parts */
};

/* The place at HISTORY_TOP, among the parts. A place without a list has no
 * order: there, times decide. */
struct history_origin {
    struct source_position place;
    bool has_lists; /* plan.lists knows the lists of this place */
    bool has_part;  /* `part` is the list of the place */
    size_t part;
    size_t n_parts;   /* of those looked at */
    bool is_passed;   /* that list was read: later ones are new */
    uint64_t n_again; /* entries of the time of the place, handed over before */
};

/* The list read last, with all its pages. */
struct history_list {
    struct document_head head; /* of the first page */
    int64_t begin_us;          /* or DATETIME_NONE */
    char *next;                /* the list after it, with seqs */
    struct history_parts pages;
    struct list_past past;
    bool wants_known; /* past.known is needed from the first entry on */
    struct list_entries kept;
    size_t i_kept;  /* the next to hand over */
    bool is_whole;  /* it was never read before */
    bool is_behind; /* it is before the list of the place */
    bool is_by_time;
    struct mark_set last; /* the marks of the list before it, of this reading */
    struct source_position begun; /* the place before its first new entry */
    size_t n_summed;              /* of its marks */
    uint64_t sum;
    char etag[256]; /* for history_plan's */
    bool is_loaded; /* `kept` are those of the last part */
};

/* Further attempts and looks */
struct history_retry {
    int64_t due_ms;             /* the end of the pause; 0: no pause */
    bool has_failed;            /* then the document is loaded again ... */
    struct list_entries before; /* ... with the entries before it ... */
    size_t n_found, n_older;    /* ... and the parts */
    unsigned pause_ms;          /* of the next attempt */
    unsigned n_looks; /* at lists that moved on, without anything new */
    unsigned look_pause_ms;
};

struct history {
    struct retired retired; /* the first */
    struct td_client *client;
    struct history_plan plan;
    struct history_notes *notes; /* the plan's */
    history_entry_fn *on_entry;
    history_end_fn *on_end;
    void *user;
    struct timer timer;
    bool is_paused;

    enum history_state state;
    struct source_position now; /* the place reached */
    struct history_origin origin;
    bool has_delivered; /* an entry was handed over since HISTORY_TOP */

    struct history_parts parts;
    size_t i; /* the one being looked at */
    struct history_search search;
    struct history_older older;
    struct history_parts found; /* in older documents, or in this one */
    bool is_top_closed;         /* the top is a list with an end */

    enum history_document document;
    struct document_fetch *page;
    struct download *download; /* of a package */
    struct scratch scratch;    /* from the first package on */
    struct zip_reader
        *package;      /* of the list read last, for its members; NULL */
    bool is_expecting; /* the members are expected */
    bool is_taking;    /* a member is unpacked, of an entry that counts */
    struct history_root root;
    struct history_list list;
    struct history_retry retry;
};

/* Closes and removes the package. */
void history_close_package(struct history *h);

/* Ends the history and frees it. Always false. */
bool history_end(struct history *h, const struct problem *why);
bool history_end_well(struct history *h); /* up to `now` */
bool history_fail(struct history *h, enum status rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, if no more documents fit: STATUS_MEMORY, _TOO_LARGE. */
bool history_overflows(struct history *h, enum status rc);

/* Forgets the root of the document that was read last. */
void history_clear_root(struct history *h);

/* The lists have moved on while they were read: searches again for the place
 * reached. False: it has done so often enough without any new entry. */
bool history_again(struct history *h);

/* True if no pause is under way; else sets the timer for its end. */
bool history_is_due(struct history *h);

/* Returns the hash of the URL of the part `i`. */
uint64_t history_url(const struct history *h, size_t i);

/* True if the part `i` was read, or was older than the beginning, and its index
 * says that it has not changed since. */
bool history_was_read(const struct history *h, size_t i);

/* True if the list read last has the entries of the place, or some of them. */
bool history_is_recognised(const struct history *h);

/* Notes where the lists begin that do not reach back, if that is the first
 * doubt. */
void history_begins(struct history *h, int64_t us);

/* Notes that entries may be missing. */
void history_doubt(struct history *h, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Handles a document that the server cannot send for now. True: it is asked for
 * again after a pause, or the history is gone. */
bool history_waits(struct history *h, const struct problem *why);

/* Begins to read a document: the capability's, the last one of `older` that was
 * begun, the part `i`, the last of `pages`. False: the history is gone. */
bool history_load(struct history *h, enum history_document document);

/* One step of HISTORY_SEARCH: loads a document, goes on to HISTORY_READ, or
 * ends. */
void history_search(struct history *h);

/* A turn of HISTORY_DELIVER; then HISTORY_READ of the next part. */
void history_deliver(struct history *h);

/* Adds the parts of older documents before all others. False: gone. */
bool history_take_older(struct history *h);

/* Writes the ETag of the newest list for the next time, after a hash of the
 * list's URL and of the one before it, which changes when the source closes the
 * list. Without an ETag: that prefix alone. */
void history_tag(char to[256], const struct history *h, const char *etag);

/* The ETag of the last time, if it is of the same list; else NULL. */
const char *history_last_etag(const struct history *h);
