/*
 * document_write.h - header, footer and index entries of every document we
 * write.
 *
 * A document is header + fragments + footer (lists, notifications), or header +
 * document_entry for each + footer (descriptions, indexes, archives). All of
 * them are UTF-8 with one declaration, the root in the sitemap namespace, rs
 * and td declared there, links before rs:md.
 */
#pragma once

#include "proto/resourcesync/position.h"
#include "proto/resourcesync/vocab.h"

/* Longest header, footer included, whatever the settings: five links of at most
 * 700 bytes and the root. List limits count it. */
#define DOCUMENT_FRAME_MAX 5120

enum document_root { DOCUMENT_URLSET, DOCUMENT_SITEMAPINDEX };

struct document_link {
    const char *rel;
    struct slice href;
    const struct digest *digest; /* written as td:digest; or NULL */
    const char *type;            /* media type; or NULL */
};

struct document_head {
    enum document_root root;
    enum capability capability;
    const struct document_link *links; /* one without href is left out */
    size_t n_links;
    int64_t from_us; /* 0 or DATETIME_NONE: no attribute; so are the others */
    int64_t until_us;
    int64_t at_us;
    int64_t completed_us;
    /* td:epoch, td:after, td:last, td:digest and, in heartbeats, td:now and
     * td:heartbeat (seconds); NULL: none. from and until are those above. */
    const struct coverage *coverage;
    const char *sum; /* td:sum; or NULL */
};

void document_header(struct buf *to, const struct document_head *head);
void document_footer(struct buf *to, enum document_root root);
struct slice document_footer_of(enum document_root root);

/* The first two lines of the header: the declaration, and the root. */
struct slice document_open_of(enum document_root root);

/* The bytes at an address: a package of a dump. */
struct document_bytes {
    const char *type; /* media type */
    uint64_t length;
    struct digest sha256;
};

/* An entry that names another document, or a package. */
struct document_entry {
    struct slice loc;
    int has_capability; /* write `capability`? */
    enum capability capability;
    int64_t from_us; /* these four as in the head */
    int64_t until_us;
    int64_t at_us;
    int64_t completed_us;
    const struct digest *digest;        /* td:digest; or NULL */
    const struct document_bytes *bytes; /* or NULL */
    const struct document_link *links;
    size_t n_links;
};

void document_entry(struct buf *to, enum document_root root,
                    const struct document_entry *entry);

/* The value behind `start`, ` NAME="`, up to the next quote, as it is written;
 * empty: there is none. */
struct slice document_value(struct slice text, const char *start);

/* Appends text with & < > " and the control characters that XML allows
 * (tab, LF, CR) as references, so that it can stand in content and in an
 * attribute (R-024). */
void xml_escape(struct buf *to, struct slice text);

/* Appends the text that xml_escape was given. */
void xml_unescape(struct buf *to, struct slice text);
