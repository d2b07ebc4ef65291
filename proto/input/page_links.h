/*
 * page_links.h - the links that a document has about itself: an HTML page in
 * its head, a feed in its own element (W-003, W-004).
 *
 *     <link rel="hub" href="https://hub.example/">             HTML
 *     <feed xmlns="http://www.w3.org/2005/Atom">
 *       <link rel="hub" href="https://hub.example/"/>          Atom
 *     <rss><channel>
 *       <atom:link rel="hub" href="https://hub.example/"/>     RSS 2.0, 1.0
 *
 * What stands in an entry, an item or a page's body is not the document's own
 * word, and is passed over (W-008). Pure and bounded: html_links.h, xml.h.
 */
#pragma once

#include "proto/problem.h"

/* Longest URL of a link. */
#define PAGELINK_URL_MAX 8192

/* Lent until the function returns. */
struct pagelink {
    struct slice rel;  /* words with white space between, as they stand */
    struct slice href; /* absolute; characters that no URL has are escaped */
};

typedef void pagelink_fn(const struct pagelink *link, void *user);

/* Calls back for each link of a Link header, but for those of another resource
 * and those without a usable URL; `url`: the document's. False: no memory. */
MUST_CHECK bool pagelinks_of_header(struct slice header, struct slice url,
                                    pagelink_fn *on_link, void *user);

/*
 * Reads `document`, or as much of its beginning as there is. `type`: its
 * Content-Type, empty: unknown; the first bytes decide about feeds sent as
 * HTML, and pages sent as XML. `url`: its own; relative links are relative to
 * that (W-007), unless the document names another base (<base>, xml:base).
 *
 * STATUS_UNSUPPORTED: neither HTML nor XML; STATUS_MALFORMED: no XML, a
 * DOCTYPE, no feed, an unknown encoding; STATUS_TOO_LARGE: `url` is;
 * STATUS_MEMORY. Then the links given so far are void.
 */
MUST_CHECK enum status pagelinks_read(struct slice document, struct slice type,
                                      struct slice url, pagelink_fn *on_link,
                                      void *user, struct problem *why);
