/*
 * decoding.h - passes the bytes of a body, plain or in gzip, to its reader.
 *
 *     decoding_decode -> decoding_feed ... -> decoding_end
 *                            |     ^
 *                            v     |   gunzip_is_behind: in another turn
 *                          gunzip_step
 *
 * One thread at a time.
 */
#pragma once

#include "base/gunzip.h"
#include "proto/input/input_formats.h"

/* The Content-Encodings that the broker reads. */
#define DECODING_OFFERED "gzip"

struct decoding {
    struct input_reader *reader; /* the caller's */
    struct gunzip *gunzip;       /* owned; NULL: the body is plain */
};

/* Sets the Content-Encoding, before the first byte: "gzip" or "x-gzip";
 * "identity" is none (RFC 9110 section 8.4.1). The body inflates to at most
 * `max_bytes`. STATUS_UNSUPPORTED: another coding, or several. */
MUST_CHECK enum status decoding_decode(struct decoding *decoding,
                                       struct slice coding, uint64_t max_bytes,
                                       struct problem *why);

/* Reads some more of the body. STATUS_TOO_LARGE: it inflates to more than
 * max_bytes. After an error only gunzip_free. */
MUST_CHECK enum status decoding_feed(struct decoding *decoding,
                                     struct slice bytes, struct problem *why);

/* Ends the body, once all fed bytes are read. */
MUST_CHECK enum status decoding_end(struct decoding *decoding,
                                    struct problem *why);
