/*
 * ws_frames.h - the WebSocket frames of a client (RFC 6455 section 5), for a
 * server that takes no messages, or small ones.
 *
 *     bytes --> ws_frames_read --> pings, pongs, the close frame
 *                        |-------> messages: checked and dropped, or kept
 *                        +-------> a broken rule: the code to close with
 *
 * The reader holds a place within a message and no bytes: 24 bytes for each
 * connection. The caller keeps the bytes of a header or a control frame that is
 * not whole, at most WS_FRAMES_REST_MAX of them:
 *
 *     struct slice bytes = the rest of the last time and the new bytes;
 *
 *     while ((next = ws_frames_read(&f, &bytes, to, &frame)) != WS_FRAMES_MORE)
 *         ... frame ...
 *     keep `bytes` for the next time              mostly empty
 *
 * The frames depend on the bytes alone, not on how they were cut. Pure, any
 * thread. Allocates nothing.
 */
#pragma once

#include "proto/buf.h"
#include "proto/utf8.h"

/* Payload of a control frame (RFC 6455 section 5.5). */
#define WS_CONTROL_MAX 125

/* A control frame but for its last byte. */
#define WS_FRAMES_REST_MAX (2 + 4 + WS_CONTROL_MAX - 1)

/* Frames of one message: the 1,001st is answered 1008. */
#define WS_FRAMES_MAX 1000

/* Codes of a close frame (RFC 6455 section 7.4.1). */
enum {
    WS_CLOSE_PROTOCOL = 1002,
    WS_CLOSE_NONE = 1005, /* never sent: the close frame is empty */
    WS_CLOSE_UTF8 = 1007,
    WS_CLOSE_POLICY = 1008,
    WS_CLOSE_TOO_LARGE = 1009,
    WS_CLOSE_ERROR = 1011
};

/* True if a close frame may carry that code: RFC 6455 section 7.4 and IANA's
 * registry (1012 to 1014); from 3000 on, libraries and applications. */
bool ws_close_may_be_sent(unsigned code);

struct ws_frames {
    uint32_t message_max;
    uint32_t message;  /* sum of the lengths of its frames so far */
    uint32_t left;     /* bytes to come of the data frame */
    uint8_t mask[4];   /* mask[0] is that of the next byte */
    uint16_t n_frames; /* of the message; 0: in none */
    uint8_t state;
    struct utf8_place utf8; /* in a text */
};

/* `message_max`: bytes that a message may have on the wire. `has_deflate`: the
 * handshake agreed on permessage-deflate, so the client may send compressed
 * messages (RSV1). The reader keeps or drops these as they are. If it inflated
 * what nobody reads, 64 KB of small bombs would hold a thread for 70 ms
 * (measured), and each half message a window of 32 KB. RFC 6455 section 8.1
 * asks for UTF-8 where an endpoint interprets a text. */
void ws_frames_init(struct ws_frames *f, uint32_t message_max,
                    bool has_deflate);

struct ws_frame {
    uint16_t code;      /* WS_FRAMES_CLOSE: as received, WS_CLOSE_NONE if none;
                           WS_FRAMES_BROKEN: to be sent */
    const char *reason; /* WS_FRAMES_BROKEN: a sentence, fit for the close frame
                           that is sent; else NULL */
    bool is_text;       /* WS_FRAMES_MESSAGE: not binary */
    bool is_deflated;   /* WS_FRAMES_MESSAGE: to be inflated (RFC 7692) */
    uint8_t size;       /* of the payload; with CLOSE: of the reason */
    char payload[WS_CONTROL_MAX]; /* unmasked; with CLOSE: the reason, UTF-8 */
};

enum ws_frames_next {
    WS_FRAMES_MORE,
    WS_FRAMES_PING,
    WS_FRAMES_PONG,
    WS_FRAMES_CLOSE,
    WS_FRAMES_BROKEN,
    WS_FRAMES_MESSAGE /* only with a buffer for messages */
};

/*
 * Takes frames off the front of `*bytes`, up to a control frame or an error,
 * and fills in `*frame`. WS_FRAMES_MORE leaves `*frame` undefined; give the
 * bytes that are left again, with more behind them. After CLOSE and BROKEN the
 * reader takes all bytes and returns MORE.
 *
 * Appends the unmasked bytes of messages to `to`, which the caller empties
 * behind each message (WS_FRAMES_MESSAGE); NULL: drops messages. A compressed
 * message and a binary one are not checked for UTF-8. If `to` fails, so does
 * the reader: WS_CLOSE_ERROR.
 *
 * The reader does not count pings: the caller bounds the answers that it owes.
 */
enum ws_frames_next ws_frames_read(struct ws_frames *f, struct slice *bytes,
                                   struct buf *to, struct ws_frame *frame);
