/*
 * stream.h - long answers: a WebSocket, from acceptance to farewell.
 *
 * All calls and callbacks on the stream's service thread.
 *
 *     on_open --> stream_write ... --+--> on_gone
 *                  ^      | choked   |
 *                  +- on_room <------+
 *
 * After a stream_write that says "choked" write nothing more until on_room.
 */
#ifndef BROKER_NET_STREAM_H
#define BROKER_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/net/server.h"
#include "proto/slice.h"

struct stream;

/* Largest frame that may be written at once, its header included: what
 * libwebsockets may have to keep of a slow client. */
#define STREAM_FRAME_MAX 65536

/* Longest header of a frame that the server sends. */
#define STREAM_FRAME_HEADER_MAX 10

struct stream_handlers {
    void (*on_open)(struct stream *stream, void *user);
    void (*on_room)(struct stream *stream, void *user);
    /* The connection is gone, or never came about although accepted. Once. The
     * stream must not be touched afterwards. */
    void (*on_gone)(struct stream *stream, void *user);
};

enum stream_result {
    STREAM_SENT,
    STREAM_CHOKED, /* taken, but not all sent: wait for on_room */
    STREAM_DEAD    /* on_gone will come, later */
};

/* Writes one whole frame, its header included (stream_frame_header), as it is;
 * never writes into it: it may be shared by all threads. */
enum stream_result stream_write(struct stream *stream, const void *frame,
                                size_t size);

/* Composes the header of a text frame (RFC 6455 section 5.2) of `size` payload
 * bytes; returns its size. is_first: opcode text, else continuation. */
size_t stream_frame_header(uint8_t to[STREAM_FRAME_HEADER_MAX], size_t size,
                           bool is_first, bool is_last);

/* Asks for on_room. */
void stream_want_room(struct stream *stream);

/* Sends a close frame with `code` and `reason` (at most 123 bytes), then ends;
 * on_gone comes later. Nothing may be written after it. */
void stream_close(struct stream *stream, unsigned code, const char *reason);

struct service *stream_service(const struct stream *stream);

#endif
