/*
 * resourcelist_views.h - other forms of a Resource List or its index: a plain
 * Sitemap for crawlers that reject ResourceSync's elements, and pages
 * for people.
 *
 * Both read the XML line by line: an entry is a line (proto/fragment.h,
 * proto/document_write.h). May block.
 */
#ifndef BROKER_DOCUMENTS_RESOURCELIST_VIEWS_H
#define BROKER_DOCUMENTS_RESOURCELIST_VIEWS_H

#include <stdint.h>

#include "broker/documents/documents.h"

/* Entries of a page. */
#define RESOURCELIST_VIEWS_PAGE 1000

/* Measures the plain Sitemap of a document; reads its body to the end. */
MUST_CHECK enum status resourcelist_views_plain_size(struct document *document,
                                                     uint64_t *size,
                                                     struct problem *why);

/* Turns a document that was just opened into a plain Sitemap of that size.
 * After an error it is unchanged, and still the caller's. */
MUST_CHECK enum status resourcelist_views_plain(struct document *document,
                                                uint64_t size,
                                                struct problem *why);

/* The document of a page. */
struct resourcelist_views_page {
    const struct document_wish *wish; /* its page counts from 1 */
    uint64_t generation;
    uint64_t part;    /* GENERATION_INDEX: a page of the index */
    bool has_next;    /* another part follows */
    bool has_several; /* the part is one of several */
};

/* Turns the document into a page. STATUS_NOT_FOUND: there are fewer pages.
 * After an error it is still the caller's. */
MUST_CHECK enum status
resourcelist_views_html(struct document *document,
                        const struct resourcelist_views_page *page,
                        struct problem *why);

#endif
