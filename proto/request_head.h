/*
 * request_head.h - the head of an HTTP/1.1 request (RFC 9110, RFC 9112), read
 * strictly.
 *
 *     POST /sets/demo/changes?wait=1 HTTP/1.1
 *     Host: b.example
 *     Content-Length: 5
 *
 * The caller keeps all bytes since the beginning of the head, and calls
 * request_head_read again when more of them have arrived:
 *
 *     struct request_seen seen = {0};           one for each connection
 *     struct request_head h;                    one for each thread
 *
 *     switch (request_head_read(&h, bytes, &seen, &why)) {
 *     case STATUS_OK:     the body, or the next request, begins at h.size
 *     case STATUS_AGAIN:  not whole: read more
 *     default:            answer h.refusal with `why`, and close
 *     }
 *
 * Nothing is decoded, normalised or guessed: the path is routed as the client
 * sent it, and a head that two readers could understand differently is refused.
 * The result depends on the bytes alone, not on how they were cut. The first
 * bad line decides; what several fields mean together is judged last.
 *
 * Pure, any thread. Allocates nothing.
 */
#ifndef PROTO_REQUEST_HEAD_H
#define PROTO_REQUEST_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* The whole head in bytes, with an empty line before it and the one that ends
 * it: longer is 431. A caller with room for so many bytes can read any head. */
#define REQUEST_HEAD_MAX 16384

#define REQUEST_TARGET_MAX 8192 /* bytes; longer is 414 */
#define REQUEST_FIELD_MAX  8192 /* bytes of a field line; longer is 431 */
#define REQUEST_FIELDS_MAX 100  /* more field lines are 431 */
#define REQUEST_METHOD_MAX 32   /* bytes; longer is 501 */

struct request_field {
    struct slice name;  /* a token, as sent */
    struct slice value; /* without white space around it; may be empty */
};

enum request_upgrade {
    REQUEST_UPGRADE_NONE,
    REQUEST_UPGRADE_WEBSOCKET, /* also if other protocols are named with it */
    REQUEST_UPGRADE_OTHER
};

/* All slices point into the bytes that were read, except a path that was not
 * sent (see there). */
struct request_head {
    size_t size; /* bytes of the head, with the empty line that ends it */

    struct slice method; /* any token, case as sent: "GET" */
    struct slice path;   /* begins with "/", escapes as sent: well-formed, none
                            is %00. "*": OPTIONS of the server. In absolute form
                            an empty path means "/", or "*" for OPTIONS. */
    struct slice query;  /* behind "?", escapes as sent; may be empty */
    bool has_query;      /* there was a "?" */
    unsigned minor;      /* version: HTTP/1.0 or HTTP/1.1 */

    struct slice host; /* Host: host[:port], never empty in HTTP/1.1; size 0:
                          HTTP/1.0 without the field */

    /* The body (RFC 9112 section 6.3): chunked, or `length` bytes. */
    bool is_chunked;
    bool has_length;
    uint64_t length; /* at most INT64_MAX; 0 if not has_length */

    bool is_kept;     /* the client expects that the connection stays (RFC 9112
                         section 9.3) */
    bool is_continue; /* there is a body, and the client waits for 100 */
    enum request_upgrade upgrade;

    unsigned refusal; /* the status to answer if the head is refused, 400, 414,
                         417, 431, 501 or 505; else 0 */

    size_t n_fields;
    struct request_field fields[REQUEST_FIELDS_MAX]; /* in the order sent */
};

/* What is known of a head that is not whole: how far it was looked at. All 0
 * before the first byte of a head. */
struct request_seen {
    uint16_t line;     /* where the line begins that is not whole */
    uint16_t scanned;  /* where the search for its end goes on */
    uint16_t n_fields; /* field lines before it */
};

/*
 * Reads the head that `bytes` begin with: all bytes since the beginning of the
 * head, of which `seen` knows the earlier ones. One empty line before it is
 * read over (RFC 9112 section 2.2).
 *
 * STATUS_OK: `h` is the head; the caller sets `seen` to 0 for the next one.
 * STATUS_AGAIN: it is not whole; only `seen` is set. Bytes that no head can
 * begin with are refused as soon as their line has ended, control characters at
 * once.
 * STATUS_INVALID: h->refusal and `why` say what to answer; the rest of `h` is
 * not set. Where the next request begins is unknown: close.
 */
MUST_CHECK enum status request_head_read(struct request_head *h,
                                         struct slice bytes,
                                         struct request_seen *seen,
                                         struct problem *why);

/* Returns the first field of that name (any case) from field *at on, and sets
 * *at behind it; NULL: there is none. To see all of a name, begin with 0:
 *
 *     for (size_t at = 0; (f = request_head_field(h, "Accept", &at));)
 */
const struct request_field *request_head_field(const struct request_head *h,
                                               const char *name, size_t *at);

#endif
