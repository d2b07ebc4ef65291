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
enum framing {
    FRAMING_NONE,    /* the body of an answer of HTTP/1.0 */
    FRAMING_CHUNKS,  /* of HTTP/1.1 */
    FRAMING_FRAMES,  /* of a WebSocket */
    FRAMING_DEFLATED /* of a WebSocket, with a compressed message */
};

struct wire {
    struct buf *to;
    enum framing framing;
    size_t left; /* bytes to be added */
    size_t room; /* of them in this frame; 0: it is whole */
    bool is_begun;
};

/* Begins to append a message of `size` bytes, and reserves room for all of it.
 * A failure shows in the buffer. */
void wire_begin(struct wire *wire, struct buf *to, enum framing framing,
                size_t size);

/* Adds its next bytes; with the last of them the message is whole. */
void wire_add(struct wire *wire, struct slice bytes);

/* Appends a text as a message of its own. */
void wire_text(struct buf *to, enum framing framing, struct slice text);

/* Adds all slices of a message. */
void wire_add_message(struct wire *wire, const struct message *message);
