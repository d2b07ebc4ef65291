/*
 * page.h - one document of a source: fetched, unpacked, read.
 *
 *     page_start --> on_link, on_entry ... --> on_end       nothing after it
 *          +-------> page_free                 at any moment: nothing more
 *
 * Redirects are followed, up to ten; relative URLs in it are relative to where
 * they led. What the server says its type is does not matter.
 */
#ifndef CLIENT_SOURCE_PAGE_H
#define CLIENT_SOURCE_PAGE_H

#include "client/lib/client.h"
#include "client/lib/failure.h"
#include "client/source/document.h"

/* Of what is no document, that many bytes are looked at. */
#define PAGE_TEXT_MAX (1024 * 1024)

struct page;

struct page_request {
    const char *url;
    const char *accept; /* "Accept: ..."; NULL: for XML */
    const char *etag;   /* what is known already; NULL or "": nothing */
    unsigned silence_s; /* that ends it; 0: as fetch.h has it */
    bool takes_text;    /* what is no document of ResourceSync is no failure */
};

/* What came of it. Lent until on_end returns. */
struct page_answer {
    const char *url; /* after redirects */
    const char *type;
    const char *etag;
    const char *date;  /* by the server's clock */
    const char *link;  /* all Link lines */
    bool is_unchanged; /* 304: nothing was read */
    bool is_document;  /* `head` says of what */
    struct slice text; /* if not: how it begins */
    const struct document_head *head;
};

/* why->rc: TD_OK; TD_REFUSED: the server said no (410, too), TD_UNREACHABLE,
 * TD_BROKEN: it cannot be read, TD_MEMORY. It frees itself after it. */
typedef void page_end_fn(const struct page_answer *answer,
                         const struct failure *why, void *user);

/* `events` may end the reading with STATUS_STOPPED: that was enough, and the
 * end is TD_OK; any other status but STATUS_MEMORY is TD_BROKEN. They must not
 * free the page. NULL: no memory. */
struct page *page_start(struct td_client *client,
                        const struct page_request *request,
                        const struct document_events *events,
                        page_end_fn *on_end, void *user);
void page_free(struct page *page); /* NULL is allowed; not after on_end */

#endif
