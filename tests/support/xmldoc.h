/*
 * xmldoc.h - a document or a message of a broker, as a stranger reads it: by
 * libxml2's tree, with nothing of proto/'s readers.
 *
 *     struct xmldoc d;
 *
 *     if (xmldoc_read(&d, text, &why))
 *         ... d.capability, d.entries[0].loc ...
 *     xmldoc_free(&d);
 *
 * Nothing here ends a test, so it may be used on any thread.
 */
#ifndef TESTS_SUPPORT_XMLDOC_H
#define TESTS_SUPPORT_XMLDOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libxml/tree.h>

#include "proto/problem.h"
#include "proto/slice.h"

#define XMLDOC_LINKS_MAX 8

struct xmldoc_link {
    const char *rel;
    const char *href;
    const char *digest; /* td:digest; "" if it has none */
};

/* A <url> or <sitemap>. What is not there is "". */
struct xmldoc_entry {
    const char *loc;
    const char *change;
    const char *datetime;
    const char *from;
    const char *until;
    const char *digest;
    const char *capability;
    uint64_t seq;      /* 0: none */
    struct slice line; /* its bytes, newline included */
};

/* All is lent by the document or by the text that was read. */
struct xmldoc {
    xmlDoc *tree;
    bool is_index; /* <sitemapindex>, else <urlset> */
    const char *capability;
    const char *from;
    const char *until;
    const char *epoch;
    const char *digest;
    bool has_coverage; /* td:after and td:last are there */
    uint64_t after;
    uint64_t last;
    struct xmldoc_link links[XMLDOC_LINKS_MAX];
    size_t n_links;
    struct xmldoc_entry *entries;
    size_t n_entries;
};

/* false: not such a document, `why` says what is wrong. To be freed in any
 * case. `text` is to stay as long as the document. */
bool xmldoc_read(struct xmldoc *d, struct slice text, struct problem *why);
void xmldoc_free(struct xmldoc *d);

/* The root's link with that relation; NULL: none. */
const struct xmldoc_link *xmldoc_link(const struct xmldoc *d, const char *rel);

#endif
