/*
 * deflater.h - compresses messages, each one alone (RFC 7692 section 7.2.1).
 *
 * A service thread has one deflater, whose 268 KB are allocated with the first
 * message and cleared for each one. A message does not need the one
 * before it (no context takeover), so all subscribers at a place share its
 * bytes, and they are a function of the message: a frame that is made again is
 * the same.
 *
 * One thread at a time.
 */
#ifndef BROKER_PUSH_DEFLATER_H
#define BROKER_PUSH_DEFLATER_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/buf.h"
#include "proto/slice.h"

/* Bytes of a message; a smaller one is not compressed: it would become 90 bytes
 * shorter at most, and leaves in one packet either way. */
#define DEFLATER_LEAST 256

/* Bytes of the largest message that a service thread compresses itself, in 0.5
 * ms; a larger one (1 MB: 8 ms) is for the worker pool. */
#define DEFLATER_AT_ONCE 65536

struct z_stream_s;

struct deflater {
    struct z_stream_s *z; /* NULL until the first message */
};

void deflater_init(struct deflater *d);
void deflater_fini(struct deflater *d);

/* Sets `packed`, which is empty, to the compressed message. False: the message
 * is to be sent as it is, because it is small, would not become smaller, or
 * there is no memory. */
bool deflater_pack(struct deflater *d, struct slice message,
                   struct buf *packed);

#endif
