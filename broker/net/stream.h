/*
 * stream.h - long answers: a WebSocket, from acceptance to farewell, and an
 * HTTP answer without a known end (request_accept_long), for which holds the
 * same.
 *
 * What a client sends behind the request for a long HTTP answer is never read:
 * the connection ends with the answer. That the client has gone is seen within
 * a second, or when it is written to; one that only ends its sending counts as
 * gone, too.
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

/* Largest frame or chunk that may be written at once, its header included: what
 * the connection may have to keep for a slow client. */
#define STREAM_FRAME_MAX 65536

/* Around the bytes of a chunk (RFC 9112 section 7.1): its size before them, a
 * line's end behind. The last chunk, with which an answer ends, is empty. */
#define STREAM_CHUNK_HEADER_MAX 18
#define STREAM_CHUNK_END        "\r\n"
#define STREAM_CHUNK_LAST       "0\r\n\r\n"

/* Longest header of a frame that the server sends. */
#define STREAM_FRAME_HEADER_MAX 10

/* What the answer to a WebSocket's handshake says; NULL: nothing of it. */
struct stream_terms {
    const char *subprotocol; /* from the client's list */
    const char *deflate;     /* the answer of ws_deflate_agree: both sides may
                                send compressed messages */
};

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

/* Writes one whole frame, its header included (stream_frame_header), or one
 * whole chunk, as it is; never writes into it: it may be shared by all threads.
 */
enum stream_result stream_write(struct stream *stream, const void *frame,
                                size_t size);

/* In the first byte of a message's first frame: the message is compressed
 * (RSV1, RFC 7692 section 6). */
#define STREAM_FRAME_DEFLATED 0x40

/* Composes the header of a text frame (RFC 6455 section 5.2) of `size` payload
 * bytes; returns its size. is_first: opcode text, else continuation. */
size_t stream_frame_header(uint8_t to[STREAM_FRAME_HEADER_MAX], size_t size,
                           bool is_first, bool is_last);

/* Composes the header of a chunk of `size` bytes, 1 at least; returns its size.
 */
size_t stream_chunk_header(char to[STREAM_CHUNK_HEADER_MAX], size_t size);

/* Asks for on_room. */
void stream_want_room(struct stream *stream);

/* WebSocket: sends a close frame with `code` and `reason` (at most 123 bytes),
 * then ends; on_gone comes later. Nothing may be written after it. */
void stream_close(struct stream *stream, unsigned code, const char *reason);

/* HTTP: sends the last bytes of the answer, then ends; on_gone comes later.
 * Nothing may be written after it. Without the last chunk the client is told
 * that the answer is not whole. */
void stream_end(struct stream *stream, const void *last, size_t size);

struct service *stream_service(const struct stream *stream);

#endif
