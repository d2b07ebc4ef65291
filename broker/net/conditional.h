/*
 * conditional.h - decides the result of a GET or HEAD: the coding, the range,
 * or that no body is needed.
 *
 * The one place for RFC 9110's rules on that: negotiation of the content coding
 * (section 12.5.3), preconditions (13.2.2), ranges (14). Pure.
 *
 * A resource has an identity representation and may have a gzip one; each has a
 * strong ETag of its own. Ranges are of identity only.
 */
#pragma once

#include "broker/net/request.h"

/* The request's headers; no data: not sent. */
struct conditions {
    bool is_get; /* else HEAD, for which Range does not count */
    struct slice accept_encoding;
    struct slice if_match;
    struct slice if_unmodified_since;
    struct slice if_none_match;
    struct slice if_modified_since;
    struct slice if_range;
    struct slice range;
};

/* The document's representations. */
struct validators {
    const char *etag;      /* of identity, in its quotes */
    const char *gzip_etag; /* NULL: there is no gzip representation */
    int64_t modified;      /* seconds since 1970; DATETIME_NONE: unknown */
    uint64_t size;         /* of identity */
};

struct verdict {
    /* 200; 206: `size` bytes from `first` on; 304; 406: identity is refused and
     * there is no other; 412; 416. */
    unsigned status;
    bool is_gzip; /* true: of the gzip representation */
    uint64_t first, size;
};

/* The headers of `rq`; in on_request only, lent until the answer. */
struct conditions conditional_read(struct request *rq);

struct verdict conditional_judge(const struct conditions *c,
                                 const struct validators *v);
