/*
 * document.h - reads any document of ResourceSync, a plain Sitemap or a
 * robots.txt, as it arrives.
 *
 *     bytes --> [gunzip, if gzip] --> XML --> on_link, on_entry
 *                                                  --> head
 *
 * It accepts sources as they are: anything may be missing (head, md, from,
 * capability), times may be coarse or have zones, an index may replace a list.
 * It ignores foreign elements, and counts and skips an entry without a valid
 * loc. It refuses: no XML, a DOCTYPE, a root that is neither urlset nor
 * sitemapindex, more than the limits of proto/resourcesync/xml.h.
 * proto/resourcesync/input_formats.h is the strict reader of our own messages.
 *
 * A robots.txt at the root of a host is an index of the Sitemaps that it names
 * one without a Sitemap is malformed.
 */
#ifndef CLIENT_SOURCE_DOCUMENT_H
#define CLIENT_SOURCE_DOCUMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/position.h"

/* The attributes of the root. Complete at document_end; if the document keeps
 * the order, complete at the first entry. */
struct document_head {
    bool has_root; /* urlset or sitemapindex */
    bool is_index; /* sitemapindex */
    bool has_capability;
    enum capability capability;
    int64_t at_us, completed_us, from_us, until_us; /* or DATETIME_NONE */
    struct coverage td; /* td:epoch, after, last, digest; epoch "": none */
    bool has_td_range;  /* td:after and td:last are given */
    uint64_t n_entries; /* entries handed over */
    uint64_t n_unfit;   /* entries left out */
};

/* An rs:ln of the root or of an entry; missing values are empty. Lent until the
 * function returns. */
struct document_link {
    struct slice rel; /* unchanged: perhaps several words */
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
    bool has_digest;
    struct digest digest; /* td:digest, of a list that an index names */
    int64_t at_us, completed_us, from_us, until_us;
    const struct document_link *links;
    size_t n_links;
};

/* Returns the change of an entry for writers, with its links in `links`, to
 * which it points; without a kind it is an update. */
struct change document_change(const struct document_entry *entry,
                              struct link links[CHANGE_LINKS_MAX]);

struct document_events {
    /* Each returns 0 to go on; another status ends the reading with it. NULL is
     * allowed. */
    enum status (*on_link)(const struct document_link *link, void *user);
    enum status (*on_entry)(const struct document_entry *entry,
                            const struct document_head *head, void *user);
};

struct document;

/* `base`: the document's URL, to resolve relative ones; copied. NULL: no
 * memory.
 */
struct document *document_new(const char *base,
                              const struct document_events *events, void *user);

/* document_new with a lower limit than DOCUMENT_UNPACKED_MAX, for tests. */
struct document *document_new_within(uint64_t max_bytes, const char *base,
                                     const struct document_events *events,
                                     void *user);

/* The same for a document to which `url` redirects: a host's robots.txt is one
 * wherever it is kept (RFC 9309 section 2.3.1.2). */
struct document *document_new_moved(const char *url, const char *base,
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

#endif
