/*
 * chunked.h - a chunked body (RFC 9112 section 7.1), read as it arrives.
 *
 *     5;name=value CR LF      size in hexadecimal, extensions
 *     hello CR LF
 *     0 CR LF                 the last chunk
 *     Digest: x CR LF         trailers
 *     CR LF
 *
 * The reader checks extensions and trailers, and drops them.
 *
 *     struct chunked body = {0};
 *
 *     while ((next = chunked_read(&body, &bytes, &data, &why)) == CHUNKED_DATA)
 *         ... data ...
 *
 * The result depends on the bytes alone, not on how they were cut. Pure, any
 * thread. Allocates nothing; holds no bytes.
 */
#pragma once

#include "proto/problem.h"

/* Hexadecimal digits of a size, leading zeros included: no sum overflows. */
#define CHUNKED_DIGITS_MAX 15

/* Bytes of extensions, with the white space before them: behind one size, and
 * in a whole body. */
#define CHUNKED_EXTENSION_MAX  4096
#define CHUNKED_EXTENSIONS_MAX 16384

/* Bytes of all trailers with their line ends. */
#define CHUNKED_TRAILERS_MAX 8192

struct chunked {
    uint64_t left;       /* bytes to come of the chunk */
    uint16_t extensions; /* bytes so far, in the body */
    uint16_t line;       /* bytes so far: digits, the extensions of this chunk,
                            or all trailers */
    uint8_t state;
};

enum chunked_next {
    CHUNKED_DATA, /* `*data`, not empty, points to bytes that were taken */
    CHUNKED_MORE, /* the call took all bytes; the body goes on */
    CHUNKED_END,  /* the body has ended; `*bytes` begin with the next request */
    CHUNKED_BROKEN /* answer 400 with `why`, and close */
};

/* Takes bytes of the body off the front of `*bytes`. After CHUNKED_END and
 * CHUNKED_BROKEN it takes nothing and returns the same again. */
enum chunked_next chunked_read(struct chunked *c, struct slice *bytes,
                               struct slice *data, struct problem *why);
