/*
 * ws_frames.h - the WebSocket frames of a client (RFC 6455 section 5), for a
 * server that takes no messages.
 *
 *     bytes --> ws_frames_read --> ping, pong, close: handed over
 *                        |-------> messages: checked and dropped
 *                        +-------> a broken rule: the code to close with
 *
 * The reader keeps the place within a message and nothing else: 24 bytes for
 * each connection. So bytes of a header or of a control frame that is not whole
 * stay with the caller, at most WS_FRAMES_REST_MAX of them:
 *
 *     struct slice bytes = rest of the last time, then what has arrived;
 *
 *     while ((next = ws_frames_read(&f, &bytes, &frame)) != WS_FRAMES_MORE)
 *         ... frame ...
 *     keep bytes.data, bytes.size                 often 0
 *
 * The frames depend on the bytes alone, not on how they were cut. Pure, any
 * thread. Allocates nothing.
 */
#ifndef PROTO_WS_FRAMES_H
#define PROTO_WS_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/slice.h"

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
    WS_CLOSE_TOO_LARGE = 1009
};

struct ws_frames {
    uint32_t message_max;
    uint32_t message;  /* bytes so far of the message, its frames' lengths */
    uint32_t left;     /* bytes to come of the data frame */
    uint8_t mask[4];   /* of the next byte of it first */
    uint16_t n_frames; /* of the message; 0: in none */
    uint8_t state;
    uint8_t utf8[3]; /* struct utf8_place of a text */
};

/* A message may have `message_max` bytes as sent. `has_deflate`: the client was
 * granted permessage-deflate, so a message may be compressed (RSV1); what is in
 * such a message is not looked at. */
void ws_frames_init(struct ws_frames *f, uint32_t message_max,
                    bool has_deflate);

struct ws_frame {
    uint16_t code;      /* WS_FRAMES_CLOSE: as received, WS_CLOSE_NONE if none;
                           WS_FRAMES_BROKEN: to be sent */
    const char *reason; /* WS_FRAMES_BROKEN: a sentence, fit for the close frame
                           that is sent; else NULL */
    uint8_t size;       /* of the payload; with CLOSE: of the reason */
    char payload[WS_CONTROL_MAX]; /* unmasked; with CLOSE: the reason, UTF-8 */
};

enum ws_frames_next {
    WS_FRAMES_MORE,
    WS_FRAMES_PING,
    WS_FRAMES_PONG,
    WS_FRAMES_CLOSE,
    WS_FRAMES_BROKEN
};

/*
 * Takes frames off the front of `*bytes`, up to a control frame or an error,
 * and fills in `*frame`. WS_FRAMES_MORE: nothing more can be said of the bytes;
 * what is left of them has to come again, with more behind it. After CLOSE and
 * BROKEN it takes all bytes and returns MORE.
 *
 * Pings are not counted: it is the caller that bounds the answers it owes.
 */
enum ws_frames_next ws_frames_read(struct ws_frames *f, struct slice *bytes,
                                   struct ws_frame *frame);

#endif
