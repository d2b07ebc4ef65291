/*
 * wire.h - cuts a message into the frames of its transport, while its bytes are
 * added one slice after the other.
 *
 *     slices    [header][entries of a batch    ][entries of a batch][footer]
 *     wire      [head|  payload_max     ][head|  payload_max   ][head|     ]
 *
 * All frames but the last have STREAM_FRAME_MAX bytes, so a position in the
 * bytes determines its frame.
 */
#pragma once

#include "broker/net/stream.h"
#include "broker/readers/message.h"

/* Most bytes of a frame's header. */
#define WIRE_HEADER_MAX STREAM_CHUNK_HEADER_MAX

/* The frames of a transport. */
struct framing {
    size_t payload_max; /* of a full frame */

    /* Writes the header of a frame; returns its size. NULL: it has none. */
    size_t (*header)(char to[WIRE_HEADER_MAX], size_t payload, bool is_first,
                     bool is_last);
    const char *end; /* behind each payload */
};

struct wire {
    struct buf *to;
    const struct framing *framing;
    size_t left; /* bytes to be added */
    size_t room; /* of them in this frame */
};

/* Begins to append a message of `size` bytes, and reserves room for all of it.
 * A failure shows in the buffer. */
void wire_begin(struct wire *wire, struct buf *to,
                const struct framing *framing, size_t size);

/* Adds its next bytes; with the last of them the message is whole. */
void wire_add(struct wire *wire, struct slice bytes);

/* Adds all slices of a message. */
void wire_add_message(struct wire *wire, const struct message *message);
