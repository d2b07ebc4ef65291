/*
 * document_fetch.h - fetches and reads one document of a source.
 *
 *     document_fetch_start --> on_link, on_entry ... --> on_end
 *          |                                            nothing after it
 *          +-------> document_fetch_free   at any moment: no further callback
 *
 * Follows up to ten redirects; relative URLs are relative to the final one.
 * Ignores the type that the server states.
 */
#pragma once

#include "client/lib/client.h"
#include "client/source/document.h"

/* Most bytes of a text that is no document. */
#define DOCUMENT_FETCH_TEXT_MAX (1024 * 1024)

struct document_fetch;

struct document_fetch_request {
    const char *url;
    const char *accept; /* "Accept: ..."; NULL: for XML */
    const char *etag;   /* of the known version; NULL or "": none */
    unsigned silence_s; /* that end it; 0: fetch.h's default */
    bool takes_text;    /* accepts texts other than documents */
};

/* The result, lent until on_end returns. */
struct document_fetch_answer {
    const char *url; /* after redirects */
    const char *type;
    const char *etag;
    const char *date;       /* by the server's clock */
    const char *link;       /* all Link lines */
    bool is_unchanged;      /* 304: the known version holds */
    bool is_document;       /* described by `head` */
    const struct buf *text; /* else the beginning; failed: there is more ... */
    const char *unread;     /* ... and why it is none, with its URL */
    const struct document_head *head;
};

/* why->rc: STATUS_OK; STATUS_REFUSED: the server refuses it (410, too),
 * STATUS_UNREACHABLE, STATUS_MALFORMED: unreadable, STATUS_MEMORY. The page
 * frees itself afterwards. */
typedef void document_fetch_end_fn(const struct document_fetch_answer *answer,
                                   const struct problem *why, void *user);

/* `events` may end the reading with STATUS_STOPPED: then the result is
 * STATUS_OK; with any other status but STATUS_MEMORY it is STATUS_MALFORMED.
 * They must not free the page. NULL: no memory. */
struct document_fetch *
document_fetch_start(struct td_client *client,
                     const struct document_fetch_request *request,
                     const struct document_events *events,
                     document_fetch_end_fn *on_end, void *user);
void document_fetch_free(
    struct document_fetch *page); /* NULL is allowed; not after on_end */
