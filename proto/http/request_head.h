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
 *     struct head_seen seen = {0};    one for each connection
 *     struct request_head h;          one for each thread
 *
 *     switch (request_head_read(&h, bytes, &seen, &why)) {
 *     case STATUS_OK:     the body, or the next request, begins at h.size
 *     case STATUS_AGAIN:  not whole: read more
 *     default:            answer h.refusal with `why`, and close
 *     }
 *
 * The reader decodes, normalises and guesses nothing: the caller routes the
 * path that the client sent. The reader refuses a head that two readers could
 * understand differently. The result depends on the bytes alone, not on how
 * they were cut: the first bad line decides, and errors that need several
 * fields (two Hosts) come last.
 *
 * Pure, any thread. Allocates nothing.
 */
#pragma once

#include "proto/http/head_lines.h"

/* Bytes of a head, including the empty lines before it and the empty line at
 * its end: a longer head is 431. A buffer of this size can hold every head. */
#define REQUEST_HEAD_MAX 16384

#define REQUEST_TARGET_MAX 8192 /* bytes; longer is 414 */
#define REQUEST_FIELD_MAX  8192 /* bytes of a field line; longer is 431 */
#define REQUEST_FIELDS_MAX 100  /* more field lines are 431 */
#define REQUEST_METHOD_MAX 32   /* bytes; longer is 501 */

#define REQUEST_EMPTY_LINES 4 /* before the head; one more is 400 */

enum request_upgrade {
    REQUEST_UPGRADE_NONE,
    REQUEST_UPGRADE_WEBSOCKET, /* also if other protocols are named with it */
    REQUEST_UPGRADE_OTHER
};

/* All slices point into the caller's bytes, except the path of an absolute form
 * without one. */
struct request_head {
    size_t size; /* bytes of the head, with the empty line that ends it */

    struct slice method; /* any token, case as sent: "GET" */
    struct slice path;   /* begins with "/"; escapes as sent, well-formed, never
                            %00. "*": OPTIONS of the server. For an absolute form
                            without a path "/", or "*" for OPTIONS. */
    struct slice query;  /* behind "?"; escapes as those of the path */
    bool has_query;      /* the target has a "?" */
    bool is_https;       /* absolute form of https: refuse it without TLS (RFC
                            9110 section 7.4) */
    unsigned minor;      /* version: HTTP/1.0 or HTTP/1.1 */

    struct slice host; /* Host: host[:port], never empty in HTTP/1.1; size 0:
                          HTTP/1.0 without the field */

    struct head_body body;

    bool is_kept;     /* the connection stays open for another request (RFC 9112
                         section 9.3) */
    bool is_continue; /* a body follows, and the client waits for 100 */
    enum request_upgrade upgrade;

    unsigned refusal; /* the status to answer if the head is refused, 400, 414,
                         417, 431, 501 or 505; else 0 */

    size_t n_fields;
    struct head_field fields[REQUEST_FIELDS_MAX]; /* in the order sent */
};

/*
 * Reads the head at the front of `bytes`, which are all bytes since the
 * beginning of the head. `seen` is that of the last call for this head. Skips
 * REQUEST_EMPTY_LINES empty lines before the head: some clients end a body with
 * them (RFC 9112 section 2.2).
 *
 * STATUS_OK: `h` is the head, and `seen` is all 0 again for the next one.
 *
 * STATUS_AGAIN: the head is not whole; `h` has nothing to rely on. A bad line
 * does not wait for the end of the head, nor a control character for the end of
 * its line.
 *
 * STATUS_INVALID: answer h->refusal with `why` and close, because nobody knows
 * where the next request begins. The rest of `h` has nothing to rely on.
 */
MUST_CHECK enum status request_head_read(struct request_head *h,
                                         struct slice bytes,
                                         struct head_seen *seen,
                                         struct problem *why);

/* Returns the first field of that name (any case) from fields[*at] on and sets
 * *at behind it, or returns NULL. To see all fields of a name, begin with 0:
 *
 *     for (size_t at = 0; (f = request_head_field(h, "Accept", &at));)
 */
const struct head_field *request_head_field(const struct request_head *h,
                                            const char *name, size_t *at);
