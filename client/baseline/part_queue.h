/*
 * part_queue.h - the documents and packages that a baseline still has to
 * read, without repeats, and the documents that it has read.
 *
 * An index may have 50,000 parts, and some have more: PARTS_BYTES_MAX bounds
 * the memory for them, and PARTS_DEPTH_MAX indexes within indexes.
 */
#pragma once

#include "base/map.h"
#include "proto/resourcesync/digest.h"

#define PARTS_BYTES_MAX (64u * 1024 * 1024)
#define PARTS_DEPTH_MAX 8

struct part {
    char *url;
    char *hash; /* of a package; "": unknown */
    uint64_t length;
    unsigned depth;
    bool is_package;
    bool has_time; /* a document above it has a time ... */
    bool has_seq;  /* ... a seq */
    bool is_alone; /* a robots.txt names it: other parts count without it */

    bool is_manifest;  /* of the package after it ... */
    bool has_manifest; /* ... which says so */
    bool is_same;      /* a package that the last reading has, unchanged */
    int64_t from_us, until_us; /* of a Change Dump's; or DATETIME_NONE */
    int64_t distance_us; /* those of less come first; 0: as they were added */

    /* Of a document that was read, to see whether it is still the same. */
    char *etag; /* NULL: none */
    char bytes[DIGEST_TEXT_SIZE + 1];
    struct digest rows; /* of what it names, in order */
};

/* All zero: empty. */
struct parts {
    struct part *all;
    size_t n, capacity;
    size_t next;          /* the first one not read yet; the caller moves it */
    size_t n_bytes;       /* of URLs, digests and ETags */
    struct text_set seen; /* all URLs */
};

void baseline_parts_fini(struct parts *parts);

/* Adds a copy of `like` with that URL and digest behind all that are not
 * farther away, unless the URL is known (!*is_new). STATUS_TOO_LARGE,
 * STATUS_MEMORY */
MUST_CHECK enum status baseline_parts_add(struct parts *parts,
                                          const struct part *like,
                                          struct slice url, struct slice hash,
                                          bool *is_new);

/* The next part, lent until baseline_parts_fini; NULL: none is left. */
struct part *baseline_parts_first(struct parts *parts);

/* Keeps the ETag of a part. STATUS_MEMORY */
enum status baseline_parts_keep_etag(struct parts *parts, struct part *part,
                                     const char *etag);
