/*
 * multipart.h - multipart/related (RFC 2387, RFC 2046 section 5.1), read as it
 * arrives: a document and the bitstreams of its entries.
 *
 *     Content-Type: multipart/related; boundary="b"; type="application/xml"
 *
 *     --b
 *     Content-Type: application/xml
 *
 *     <urlset>...</urlset>
 *     --b
 *     Content-Type: image/png
 *     Content-Location: http://example.com/a.png
 *
 *     ...
 *     --b--
 *
 * Lines end with CR LF; the one before a delimiter is the delimiter's, so that
 * a body has exactly the bytes of its source. Skips white space behind a
 * boundary, and text before the first delimiter and behind the last one.
 * Refuses all other breaks of RFC 2046, with the part and the byte of the body.
 *
 *     multipart_read_type -> multipart_init -> multipart_feed ...
 *                                                -> multipart_end
 *
 * Holds the headers of one part. One thread at a time.
 */
#pragma once

#include "proto/buf.h"
#include "proto/problem.h"

/* RFC 2046 section 5.1.1 */
#define MULTIPART_BOUNDARY_MAX 70

/* Of the parameters `type` and `start`. */
#define MULTIPART_PARAMETER_MAX 255

/* All header lines of one part: a loc has 2,048 characters at most. */
#define MULTIPART_HEADERS_MAX 16384

/* What the Content-Type of the whole says. */
struct multipart_type {
    char boundary[MULTIPART_BOUNDARY_MAX + 1];
    char type[MULTIPART_PARAMETER_MAX + 1];  /* of the root part; "": unknown */
    char start[MULTIPART_PARAMETER_MAX + 1]; /* its Content-ID, without "<>";
                                                "": it is the first part */
};

/* STATUS_UNSUPPORTED: it is not multipart/related. STATUS_MALFORMED: a
 * parameter has no value, is there twice or is too long, or there is no
 * boundary that may be one. */
MUST_CHECK enum status multipart_read_type(struct slice content_type,
                                           struct multipart_type *type,
                                           struct problem *why);

/* A part, once its headers were read; lent until `begin` returns. */
struct multipart_part {
    uint64_t number;       /* from 1 */
    uint64_t offset;       /* of its first byte, in the whole */
    struct slice type;     /* Content-Type; empty: it has none */
    struct slice location; /* Content-Location; likewise */
    struct slice id;       /* Content-ID, without "<>"; likewise */
};

/* Takes the parts: `begin`, `add` any number of times (not for an empty body),
 * `end`; then the next one. A return other than 0 ends the reading with that
 * status. */
struct multipart_sink {
    enum status (*begin)(const struct multipart_part *part, void *user,
                         struct problem *why);
    enum status (*add)(struct slice bytes, void *user, struct problem *why);
    enum status (*end)(void *user, struct problem *why);
    void *user;
};

struct multipart {
    struct multipart_sink sink;

    /* Its own: */
    int state;
    char delimiter[MULTIPART_BOUNDARY_MAX + 5]; /* CR LF "--" boundary */
    size_t size;                                /* of the delimiter */
    size_t matched; /* bytes of it that were seen last */
    size_t unseen;  /* the first of these, which are not the body\'s: it
                       begins as if behind an end of line */
    uint64_t offset;
    uint64_t number; /* the part that it is in; 0: before the first */
    struct buf headers;
};

void multipart_init(struct multipart *m, const struct multipart_type *type,
                    const struct multipart_sink *sink);
void multipart_fini(struct multipart *m);

/* STATUS_MALFORMED, STATUS_TOO_LARGE (headers), STATUS_UNSUPPORTED (a
 * Content-Transfer-Encoding that would change the bytes), or what the sink
 * returned. After an error only multipart_fini. */
MUST_CHECK enum status multipart_feed(struct multipart *m, struct slice bytes,
                                      struct problem *why);

/* All was fed. STATUS_MALFORMED: it is cut off, or has no part. */
MUST_CHECK enum status multipart_end(struct multipart *m, struct problem *why);
