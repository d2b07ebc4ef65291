/*
 * page.h - pages for people: the HTML around and inside every document.
 *
 *     page_begin   head, breadcrumbs: Tidings > Sets > news > Change List
 *       page_value, page_link, page_table ...
 *     page_end     the other form of the same address, and where to go from
 * here
 *
 * A page needs no script and loads only our style sheet (web/tidings.css).
 * Links to other pages of the broker are relative, so they hold behind a proxy
 * that adds a prefix.
 *
 * Texts of `struct slice` are escaped already (xml_escape), as those of our XML
 * are. Only http and https become links, because a browser would run a
 * javascript: URL.
 */
#ifndef BROKER_DOCUMENTS_PAGE_H
#define BROKER_DOCUMENTS_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/slice.h"

/* The longest text that a page shows whole, and the longest URL that it links
 * to. */
#define PAGE_TEXT_MAX 4096

struct page_head {
    const char *title;      /* not escaped; not longer than PAGE_TEXT_MAX */
    const char *set;        /* the name of its set; NULL: none */
    unsigned depth;         /* page_depth of the request's path */
    const char *other_name; /* of `other`: "As XML" */

    /* Addresses, all escaped; empty: none. */
    struct slice other;      /* the same in the form that programs read */
    struct slice capability; /* the set's Capability List */
    struct slice prev, next; /* the neighbouring pages of a long document */
};

/* The number of folders in a path. "/sets/news" has 1. */
unsigned page_depth(struct slice path);

/* Appends everything before the content, up to the <h1>. */
void page_begin(struct buf *to, const struct page_head *head);

/* Appends everything behind the content. */
void page_end(struct buf *to, const struct page_head *head);

/* Appends a text, cut if it is long. */
void page_text(struct buf *to, struct slice text);

/* Appends a text: a time as <time>, an http URL as a link, else page_text. */
void page_value(struct buf *to, struct slice text);

/* False: what a link with this relation leads to does not answer to a browser's
 * GET: a hub, a stream. */
bool page_leads(struct slice rel);

/* Appends a link with relation `rel` (escaped; empty: none) to `href`, or only
 * the text if it must not be followed, or leads nowhere. */
void page_link(struct buf *to, struct slice rel, struct slice href,
               struct slice text);

/* A column of a table; a title NULL ends the array of columns. */
struct page_column {
    const char *title;
    const char *name; /* of what it has, for the caller; NULL: the entry
                         itself, in the widest column */
    bool is_number;
};

/* Appends the beginning of a table. */
void page_table(struct buf *to, const struct page_column *columns);

/* Appends the beginning of a cell. The caller adds the content and "</td>". */
void page_cell(struct buf *to, const struct page_column *column);

#endif
