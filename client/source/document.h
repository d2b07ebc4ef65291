/*
 * document.h - any document of ResourceSync, a plain Sitemap or a robots.txt,
 * read as it arrives.
 *
 *     bytes --> [gunzip, if they begin so] --> XML --> on_link, on_entry
 *                                                  --> head
 *
 * Sources are taken as they are: what is missing is missing (head, md, from,
 * capability), times may be coarse or have zones, an index may pass for a list;
 * elements of others are passed over; an entry that cannot be read (no loc) is
 * counted and left out. What is refused: no XML, a DOCTYPE, a root that is
 * neither urlset nor sitemapindex, more than the limits of proto/xml.h. What is
 * strict about our own messages is proto/formats.h.
 *
 * A robots.txt at the root of a host is an index of the Sitemaps that it names
 * one that names none is no such document.
 */
#ifndef CLIENT_SOURCE_DOCUMENT_H
#define CLIENT_SOURCE_DOCUMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/change.h"
#include "proto/coverage.h"
#include "proto/problem.h"

/* What its root says. Complete at document_end; in a document that keeps the
 * order when the first entry is handed over. */
struct document_head {
    bool has_root; /* urlset or sitemapindex: it is such a document */
    bool is_index; /* sitemapindex */
    bool has_capability;
    enum capability capability;
    int64_t at_us, completed_us, from_us, until_us; /* or DATETIME_NONE */
    struct coverage td; /* td:epoch, after, last, digest; epoch "": none */
    bool has_td_range;  /* td:after and td:last are there */
    uint64_t n_entries; /* handed over */
    uint64_t n_unfit;   /* left out */
};

/* rs:ln of the root or of an entry; empty where nothing was given. Lent until
 * the function returns. */
struct document_link {
    struct slice rel; /* as it stands: perhaps several words */
    struct slice href;
    struct slice type;
    struct slice hash;
    struct slice path;
    uint64_t length; /* or LENGTH_NONE */
    uint32_t pri;    /* 0: none */
    int64_t modified_us;
    struct digest digest; /* td:digest, of a link "prev" */
    bool has_digest;
};

/* <url> or <sitemap>. Lent until the function returns. */
struct document_entry {
    bool has_kind;        /* rs:md change=: change.kind says which */
    struct change change; /* loc, datetime, lastmod, hash, length, type,
                             encoding, seq, tags; links as in `links` */
    int64_t when_us;      /* its event time: datetime, else lastmod, else
                             DATETIME_NONE */
    struct slice capability;
    struct slice path; /* of a manifest */
    int64_t at_us, completed_us, from_us, until_us;
    const struct document_link *links;
    size_t n_links;
};

/* The change of an entry as writers take it, with its links in `links`, which
 * it lends; an update where the entry has no kind. */
struct change document_change(const struct document_entry *entry,
                              struct link links[CHANGE_LINKS_MAX]);

struct document_events {
    /* Each returns 0 to go on; another status ends the reading with it. NULL:
     * nobody asks. */
    enum status (*on_link)(const struct document_link *link, void *user);
    enum status (*on_entry)(const struct document_entry *entry,
                            const struct document_head *head, void *user);
};

struct document;

/* `base`: the document's URL, against which relative ones are resolved; copied.
 * NULL: no memory. */
struct document *document_new(const char *base,
                              const struct document_events *events, void *user);

/* The same for the document that `url` led to by redirects, if any: a host's
 * robots.txt is one wherever it is kept (RFC 9309 section 2.3.1.2). */
struct document *document_new_moved(const char *url, const char *base,
                                    const struct document_events *events,
                                    void *user);
void document_free(struct document *document); /* NULL is allowed */

/* STATUS_MALFORMED: it is no such document, `why` says more; STATUS_TOO_LARGE:
 * more than `DOCUMENT_UNPACKED_MAX` bytes; STATUS_MEMORY; what a function
 * returned. After it nothing is read any more. */
MUST_CHECK enum status document_feed(struct document *document,
                                     struct slice bytes, struct problem *why);
MUST_CHECK enum status document_end(struct document *document,
                                    struct problem *why);

const struct document_head *document_head(const struct document *document);

/* Bytes of XML: R-027 allows 50 MB; what is odd may be longer. */
#define DOCUMENT_UNPACKED_MAX (1024u * 1024 * 1024)

#endif
