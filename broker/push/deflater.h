/*
 * deflater.h - compresses messages, each one alone (RFC 7692 section 7.2.1).
 *
 * A service thread has one deflater. The first message allocates its 268 KB;
 * each message begins with them cleared (no context takeover). So the bytes
 * depend on the message alone: all subscribers at a place share them, and a
 * frame that is made again is the same.
 *
 * One thread at a time.
 */
#pragma once

#include "proto/buf.h"

/* Bytes of a message; the broker sends a smaller one as it is, for
 * compression would save at most 90 bytes of its one packet. */
#define DEFLATER_LEAST 256

/* Bytes of the largest message that a service thread compresses itself, in 0.5
 * ms; a larger one (1 MB: 8 ms) is for the worker pool. */
#define DEFLATER_AT_ONCE 65536

struct deflater {
    struct z_stream_s *z; /* NULL until the first message, which makes it */
};

void deflater_fini(struct deflater *d);

/* Sets `packed`, which is empty, to the compressed message. False: the message
 * is to be sent as it is, because it is small, would not become smaller, or
 * there is no memory. */
bool deflater_pack(struct deflater *d, struct slice message,
                   struct buf *packed);
