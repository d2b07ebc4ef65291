/*
 * response_head.h - the head of an answer of HTTP/1.1 (RFC 9110, RFC 9112),
 * read strictly.
 *
 *     HTTP/1.1 200 OK
 *     Content-Type: application/xml
 *     Content-Length: 5
 *
 * The caller keeps all bytes since the beginning of the head, and calls
 * response_head_read again when more of them have arrived, as with
 * request_head.h. An answer may begin with interim heads (1xx): each is a head
 * of its own. The result depends on the bytes alone, not on how they were cut.
 *
 * The reader refuses a head that two readers could understand differently: bare
 * line feeds, folded lines, two lengths, a length beside chunks.
 *
 * Pure, any thread. Allocates nothing.
 */
#pragma once

#include "proto/http/head_lines.h"

/* Bytes of a head, with the empty line at its end. */
#define RESPONSE_HEAD_MAX ((size_t)32 * 1024)

/* All slices point into the caller's bytes. */
struct response_head {
    size_t size;     /* bytes of the head, with the empty line that ends it */
    unsigned minor;  /* version: HTTP/1.0 or HTTP/1.1; a later one counts as
                        HTTP/1.1 */
    unsigned status; /* 100 to 999 */
    struct head_body body; /* neither: up to the end of the connection, unless
                              status and method allow none */
    bool is_kept;          /* the connection stays open behind the body */
    struct slice fields;   /* all field lines, for response_head_next */
};

/*
 * Reads the head at the front of `bytes`. `seen` is that of the last call for
 * this head.
 *
 * STATUS_OK: `h` is the head, and `seen` is all 0 again for the next one.
 * STATUS_AGAIN: the head is not whole; `h` has nothing to rely on.
 * STATUS_UNSUPPORTED: the bytes are not of HTTP/1.
 * STATUS_TOO_LARGE: the head is longer than RESPONSE_HEAD_MAX.
 * STATUS_INVALID: the head is malformed, as `why` says.
 */
MUST_CHECK enum status response_head_read(struct response_head *h,
                                          struct slice bytes,
                                          struct head_seen *seen,
                                          struct problem *why);

/* Takes the next field off the front of `*fields`, a copy of h->fields. False:
 * none is left. */
bool response_head_next(struct slice *fields, struct head_field *field);

/* The reason phrase: "Not Found". */
const char *response_reason(unsigned status);
