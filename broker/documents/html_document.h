/*
 * html_document.h - a document of ResourceSync as a page for people: made of
 * the bytes of the document, so it says what the document says.
 *
 *     lines of XML --> facts and links of the header, a table of the entries
 *
 * A page shows at most HTML_ENTRIES entries; ?page=2 has the next ones. So a
 * list of 50,000 entries is never in memory as a whole: the lines before the
 * page are read and dropped.
 */
#pragma once

#include "broker/documents/document.h"

#define HTML_ENTRIES 1000

/* The longest page. An entry takes at most about 16 KB of it. */
#define HTML_BYTES_MAX ((size_t)32 * 1024 * 1024)

/* A request for a page. */
struct html_wish {
    const char *public_url;
    const char *set;       /* the name of the set; NULL: of the whole Source */
    unsigned depth;        /* html_depth of the path */
    uint64_t number, last; /* in the path of the document; 0: none */
    bool is_range;         /* "N-M" in the path, else "N/M" */
    uint64_t page;         /* from 1 on; 0: all entries, which are few */
    const char *lasting;   /* address of the other pages; "": this one */
    const char *prev, *next; /* addresses of the parts before and behind; "":
                                none */
};

/* Appends the page to `to`, which is empty. Reads the document, `body`, or
 * `text` (body NULL), as far as the page needs it. STATUS_NOT_FOUND: there are
 * fewer pages. STATUS_IO: the document cannot be read. */
MUST_CHECK enum status html_document_write(struct buf *to,
                                           const struct html_wish *wish,
                                           struct body *body, struct slice text,
                                           struct problem *why);
