/*
 * document_read.h - reads any document of ResourceSync, a Sitemap, a text of
 * URLs, a feed or a robots.txt, as it arrives.
 *
 *     bytes --> text_encoding --> XML --> on_link, on_entry
 *                          \--> lines --^      --> head
 *
 * It mends what is clear, leaves out what is not, and counts both in the
 * head's report. It takes sources as they are: anything may be missing (head,
 * md, from, capability), times may be coarse or have no zone, an index may
 * replace a list. A URL is resolved against the document, and encoded (RFC 3987
 * section 3.1). A document of Tidings names its resources exactly: their loc
 * stays, whatever its scheme. The reader ignores foreign elements. It refuses:
 * no XML, a DOCTYPE, another root, the namespaces of 2012 (R-407), more than
 * the limits of xml.h. Posts have the same reader with a strict policy
 * (list_read.h).
 *
 * A text whose first line is a URL of http or https is a list of URLs, one on
 * each line; "#" begins a comment. In a feed (RSS, Atom) an item is an entry:
 * its link the loc, its date the lastmod. A robots.txt is an index of the
 * Sitemaps that it names (R-262); one without a Sitemap is malformed.
 */
#pragma once

#include "proto/input/list_report.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/position.h"

enum document_kind {
    DOCUMENT_SITEMAP, /* urlset or sitemapindex without a capability */
    DOCUMENT_RESOURCESYNC,
    DOCUMENT_TEXT,
    DOCUMENT_RSS,
    DOCUMENT_ATOM,
    DOCUMENT_ROBOTS
};

/* "sitemap", "resourcesync", ... */
const char *document_kind_name(enum document_kind kind);

/* The attributes of the root. Complete at document_end; if the document keeps
 * the order (R-006), complete at the first entry. */
struct document_head {
    bool has_root; /* its kind is known */
    enum document_kind kind;
    bool is_index; /* sitemapindex */
    bool has_capability;
    enum capability capability;
    int64_t at_us, completed_us, from_us, until_us; /* or DATETIME_NONE */
    struct coverage td; /* td:epoch, after, last, digest; epoch "": none */
    bool has_td_range;  /* td:after and td:last are given */
    uint64_t n_entries; /* entries handed over */
    struct list_report report;
};

/* <url> or <sitemap>, a line, an item of a feed. Lent until the function
 * returns. */
struct document_entry {
    bool has_kind;        /* rs:md change=: change.kind says which */
    struct change change; /* without a kind, an update */
    int64_t when_us;      /* its event time: datetime, else lastmod, else
                             DATETIME_NONE */
    struct slice capability;
    struct slice path; /* of a manifest (R-020) */
    int64_t at_us, completed_us, from_us, until_us;
    struct digest digest; /* td:digest, of a list that an index names */
    bool has_digest;
};

struct document_events {
    /* on_link gets the links of the root, which have a rel and an href; a rel
     * is unchanged, perhaps several words. Each returns 0 to go on; another
     * status ends the reading with it. NULL is allowed. */
    enum status (*on_link)(const struct link *link, void *user);
    enum status (*on_entry)(const struct document_entry *entry,
                            const struct document_head *head, void *user);
};

struct document_reader;

/* `base`: the document's URL, to resolve relative ones; "": none; copied.
 * `is_robots`: it is a robots.txt. NULL: no memory. */
struct document_reader *
document_reader_new(const char *base, bool is_robots,
                    const struct document_events *events, void *user);
void document_reader_free(struct document_reader *d); /* NULL is allowed */

/* STATUS_MALFORMED: it is no such document, `why` says more, with the line;
 * STATUS_MEMORY; or the status of a callback. After a failure it reads nothing
 * more. */
MUST_CHECK enum status document_reader_feed(struct document_reader *d,
                                            struct slice bytes,
                                            struct problem *why);
MUST_CHECK enum status document_reader_end(struct document_reader *d,
                                           struct problem *why);

const struct document_head *
document_reader_head(const struct document_reader *d);
