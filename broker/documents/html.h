/*
 * html.h - pages for people: the HTML around and inside every document, and the
 * page of an object of JSON.
 *
 *     html_begin   head, breadcrumbs: Tidings > Sets > news > Change List
 *       html_value, html_link, html_table ...
 *     html_end     the other form of this address, and where to go from here
 *
 * A page needs no script and loads only our style sheet (web/tidings.css).
 * Links to other pages of the broker are relative, so they hold behind a proxy
 * that adds a prefix.
 *
 * Texts of `struct slice` are escaped already (xml_escape), as those of our XML
 * are. Only http and https become links, because a browser would run a
 * javascript: URL.
 *
 * The page of an object (of a set, of a problem) is made of the JSON that
 * programs get, so it says the same. Members become a list of terms, objects in
 * them lists of their own. Links, objects with `rel` and `href`, become links.
 */
#pragma once

#include "proto/buf.h"

/* The longest text that a page shows whole, and the longest URL that it links
 * to. */
#define HTML_TEXT_MAX 4096

struct html_head {
    const char *title;      /* not escaped; not longer than HTML_TEXT_MAX */
    const char *set;        /* the name of its set; NULL: none */
    unsigned depth;         /* html_depth of the request's path */
    const char *other_name; /* of `other`: "As XML" */

    /* Addresses, all escaped; empty: none. */
    struct slice other;      /* the same in the form that programs read */
    struct slice capability; /* the set's Capability List */
    struct slice prev, next; /* the neighbouring pages of a long document */
};

/* The number of folders in a path. "/sets/news" has 1. */
unsigned html_depth(struct slice path);

/* Appends everything before the content, up to the <h1>. */
void html_begin(struct buf *to, const struct html_head *head);

/* Appends everything behind the content. */
void html_end(struct buf *to, const struct html_head *head);

/* Appends a text, cut if it is long. */
void html_text(struct buf *to, struct slice text);

/* Appends a text: a time as <time>, an http URL as a link, else html_text. */
void html_value(struct buf *to, struct slice text);

/* False: what a link with this relation leads to does not answer to a browser's
 * GET: a hub, a stream. */
bool html_leads(struct slice rel);

/* Appends a link with relation `rel` (escaped; empty: none) to `href`, or only
 * the text if it must not be followed, or leads nowhere. */
void html_link(struct buf *to, struct slice rel, struct slice href,
               struct slice text);

/* A column of a table; a title NULL ends the array of columns. */
struct html_column {
    const char *title;
    const char *name; /* of what it has, for the caller; NULL: the entry
                         itself, in the widest column */
    bool is_number;
};

/* Appends the beginning of a table. */
void html_table(struct buf *to, const struct html_column *columns);

/* Appends the beginning of a cell. The caller adds the content and "</td>". */
void html_cell(struct buf *to, const struct html_column *column);

/* Appends the page of `json`, perhaps a problem, to `to`, which is empty.
 * False: it is no JSON, or there is no memory; then `to` is void. */
bool html_json(struct buf *to, const struct html_head *head, struct slice json,
               bool is_problem);

/* Appends the page of a problem (RFC 9457), the answer to a request for
 * `path`. For server_options.write_problem. */
void html_problem(struct buf *to, unsigned status, struct slice path,
                  struct slice problem);
