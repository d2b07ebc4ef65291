/*
 * document.h - reads a document of a source, packed or not, as it arrives.
 *
 *     bytes --> [gunzip, if gzip] --> document_read.h --> on_link, on_entry
 *
 * A robots.txt at the root of a host is an index of the Sitemaps that it names
 * (R-262).
 */
#pragma once

#include "proto/input/document_read.h"

struct document;

/* `base`: the document's URL, to resolve relative ones; copied. NULL: no
 * memory.
 */
struct document *document_new(const char *base,
                              const struct document_events *events, void *user);

/* The same for a document to which `url` redirects: a host's robots.txt is one
 * wherever it is kept (RFC 9309 section 2.3.1.2). `max_bytes`:
 * DOCUMENT_UNPACKED_MAX; less in tests. */
struct document *document_new_moved(const char *url, const char *base,
                                    uint64_t max_bytes,
                                    const struct document_events *events,
                                    void *user);
void document_free(struct document *document); /* NULL is allowed */

/* STATUS_MALFORMED: it is no such document, `why` says more; STATUS_TOO_LARGE:
 * more than `DOCUMENT_UNPACKED_MAX` bytes; STATUS_MEMORY; or the status of a
 * callback. After a failure the document reads nothing more. */
MUST_CHECK enum status document_feed(struct document *document,
                                     struct slice bytes, struct problem *why);
MUST_CHECK enum status document_end(struct document *document,
                                    struct problem *why);

const struct document_head *document_head(const struct document *document);

/* Bytes of XML: R-027 allows 50 MB; some documents are longer. */
#define DOCUMENT_UNPACKED_MAX (1024u * 1024 * 1024)

/* The part of a URL that messages quote. */
#define DOCUMENT_URL_QUOTED 300

/* Completes the reason why the document at `url` cannot be read: puts its
 * address and the line before the text. `rc`: how the reading ended. */
void document_unreadable(struct problem *why, enum status rc, const char *url);
