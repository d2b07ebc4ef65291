/*
 * stream.h - long answers: a WebSocket, from acceptance to farewell, and,
 * likewise, an HTTP answer without a known end (request_accept_long).
 *
 * Bytes of a client behind the request for a long HTTP answer are never read:
 * the connection ends with the answer. The broker notices the end of the client
 * within a second, or at the next write; a client that only ends its sending
 * counts as gone, too.
 *
 * All calls and callbacks are on the stream's service thread.
 *
 *     on_open --> stream_write ... --+--> on_gone
 *                  ^      | choked   |
 *                  +- on_room <------+
 *
 * After a stream_write that says "choked" write nothing more until on_room.
 */
#pragma once

#include "broker/net/server.h"

struct stream;

/* The largest frame or chunk of a write, its header included: the connection
 * may have to keep so much for a slow client. Nearly 64 KB: Linux's loopback
 * device, where proxies and local clients are, takes 65,464 bytes of TCP in a
 * packet (MTU 65,536, less the heads of IPv6 and TCP and a timestamp). A write
 * of 65,536 bytes would be two packets, the second one nearly empty. */
#define STREAM_FRAME_MAX 65400
_Static_assert(STREAM_FRAME_MAX <= 65536 - 40 - 20 - 12, "one packet");

/* Around the bytes of a chunk (RFC 9112 section 7.1): its size before them,
 * terminated; a line end behind. The last chunk, which ends an answer, is
 * empty.
 */
#define STREAM_CHUNK_HEADER_MAX 19
#define STREAM_CHUNK_END        "\r\n"
#define STREAM_CHUNK_LAST       "0\r\n\r\n"

/* Longest header of a frame that the server sends. */
#define STREAM_FRAME_HEADER_MAX 10

/* Most bytes of a client's message on the wire, if the owner takes messages. */
#define STREAM_MESSAGE_MAX 262144

/* A message of a WebSocket's client; lent. */
struct stream_message {
    struct slice bytes;
    bool is_text;     /* UTF-8, unless it is deflated */
    bool is_deflated; /* to be inflated (RFC 7692 section 7.2.2) */
};

/* The fields of the answer to a WebSocket's handshake; NULL: none. */
struct stream_terms {
    const char *subprotocol; /* from the client's list */
    const char *deflate;     /* the result of ws_deflate_agree: both sides may
                                send compressed messages */
};

struct stream_handlers {
    void (*on_open)(struct stream *stream, void *user);
    void (*on_room)(struct stream *stream, void *user);
    /* The connection has ended, or failed after it was accepted. Once. The
     * stream must not be touched afterwards. */
    void (*on_gone)(struct stream *stream, void *user);
    /* The client has sent a message, of at most STREAM_MESSAGE_MAX bytes; a
     * larger one closes the stream (1009). The stream reads no further message
     * before this returns, and none while it is choked. The bytes of a message
     * that is not whole count as memory for posts of its client. NULL:
     * messages of at most 64 KB are checked, and dropped. */
    void (*on_message)(struct stream *stream,
                       const struct stream_message *message, void *user);
    /* True if the owner has not answered earlier messages: no further one is
     * read until stream_read_on. NULL: false. */
    bool (*is_behind)(const void *user);
};

enum stream_result {
    STREAM_SENT,
    STREAM_CHOKED, /* taken, but not sent completely: wait for on_room */
    STREAM_DEAD    /* on_gone will come, later */
};

/* Writes one whole frame, its header included (stream_frame_header), or one
 * whole chunk, unchanged. Never modifies the frame, which all threads may
 * share. */
enum stream_result stream_write(struct stream *stream, const void *frame,
                                size_t size);

/* A bit in the first byte of a message's first frame: the message is compressed
 * (RSV1, RFC 7692 section 6). */
#define STREAM_FRAME_DEFLATED 0x40

/* Composes the header of a text frame (RFC 6455 section 5.2) of `size` payload
 * bytes; returns its size. is_first: opcode text, else continuation. */
size_t stream_frame_header(uint8_t to[STREAM_FRAME_HEADER_MAX], size_t size,
                           bool is_first, bool is_last);

/* Composes the header of a chunk of `size` bytes, 1 at least; returns its size.
 */
size_t stream_chunk_header(char to[STREAM_CHUNK_HEADER_MAX], size_t size);

/* Counts a message of the owner's, for the end of the stream
 * (struct request_end). */
void stream_count_message(struct stream *stream);

/* Requests on_room. */
void stream_want_room(struct stream *stream);

/* Reads the client's messages again: after is_behind. */
void stream_read_on(struct stream *stream);

/* True if the authority of its request has ended (request.h). */
bool stream_is_denied(const struct stream *stream, int64_t now_us);

/* WebSocket: sends a close frame with `code` and `reason` (at most 123 bytes),
 * then ends; on_gone comes later. Nothing may be written after it. */
void stream_close(struct stream *stream, unsigned code, const char *reason);

/* HTTP: sends the last bytes of the answer, then ends; on_gone comes later.
 * Nothing may be written after it. Without the last chunk the client sees that
 * the answer is incomplete. */
void stream_end(struct stream *stream, const void *last, size_t size);
