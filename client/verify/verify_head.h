/*
 * verify_head.h - reads the root of a Change List, and the lists that an index
 * or archive names.
 *
 *     bytes --> XML --> head; on_entry for each <url> or <sitemap>
 *
 * Stricter than client/source/document.h, which accepts what sources send: a
 * proof needs documents as the broker writes them.
 */
#ifndef CLIENT_VERIFY_VERIFY_HEAD_H
#define CLIENT_VERIFY_VERIFY_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/datetime.h"
#include "proto/problem.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/position.h"
#include "proto/resourcesync/vocab.h"
#include "proto/slice.h"

#define VERIFY_HREF_MAX 2048

/* The root's fields. */
struct verify_head {
    bool is_index; /* sitemapindex */
    bool has_capability;
    enum capability capability;
    char epoch[EPOCH_SIZE + 1]; /* "" if it is missing, as all below */
    bool has_range;             /* td:after and td:last are there */
    uint64_t after;
    uint64_t last;
    bool has_digest;
    struct digest digest; /* d(last) */
    int64_t from_us;      /* or DATETIME_NONE */
    int64_t until_us;     /* or DATETIME_NONE: open */
    char prev[VERIFY_HREF_MAX + 1];
    char next[VERIFY_HREF_MAX + 1];
    bool has_before;
    struct digest before; /* d(after), of the link prev */
};

/* A named list. Lent until the function returns. */
struct verify_entry {
    struct slice loc;
    int64_t until_us; /* or DATETIME_NONE */
    bool has_digest;
    struct digest digest;
};

/* Returns 0 to go on. */
typedef enum status verify_entry_fn(const struct verify_entry *entry,
                                    void *user);

struct verify_reader;

/* NULL: no memory. `on_entry` may be NULL. */
struct verify_reader *verify_reader_new(verify_entry_fn *on_entry, void *user);
void verify_reader_free(struct verify_reader *reader); /* NULL is allowed */

/* STATUS_MALFORMED, STATUS_INVALID: not such a document, `why` says why;
 * STATUS_MEMORY; or the result of on_entry. */
MUST_CHECK enum status verify_reader_feed(struct verify_reader *reader,
                                          struct slice bytes,
                                          struct problem *why);
MUST_CHECK enum status verify_reader_end(struct verify_reader *reader,
                                         struct problem *why);
const struct verify_head *verify_reader_head(const struct verify_reader *r);

#endif
