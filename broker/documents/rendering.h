/*
 * rendering.h - a Resource List, or an index of them, told otherwise than it
 * stands in its file: as a plain Sitemap, for crawlers that take nothing of
 * ResourceSync, and as pages for people.
 *
 * Both are made of the XML as it is read, line by line: an entry is a line
 * (proto/fragment.h, proto/document.h). May block.
 */
#ifndef BROKER_DOCUMENTS_RENDERING_H
#define BROKER_DOCUMENTS_RENDERING_H

#include <stdint.h>

#include "broker/documents/documents.h"

/* Entries of a page. */
#define RENDERING_PAGE 1000

/* How large the plain Sitemap of a document is, whose body is read to its end.
 */
MUST_CHECK enum status rendering_plain_size(struct document *document,
                                            uint64_t *size,
                                            struct problem *why);

/* Makes a document that was just opened a plain Sitemap of that size. After an
 * error it is still the caller's, as it was. */
MUST_CHECK enum status rendering_plain(struct document *document, uint64_t size,
                                       struct problem *why);

/* What a page is of. */
struct rendering_page {
    const struct document_wish *wish; /* its page counts from 1 */
    uint64_t generation;
    uint64_t part;    /* GENERATION_INDEX: of the index */
    bool has_next;    /* there is a part behind it */
    bool has_several; /* it is one of several parts */
};

/* Makes it a page. STATUS_NOT_FOUND: there are not so many pages. After an
 * error it is still the caller's. */
MUST_CHECK enum status rendering_html(struct document *document,
                                      const struct rendering_page *page,
                                      struct problem *why);

#endif
