/*
 * ws_frames.c - the WebSocket frames of a client.
 *
 * Why not wslay: a connection costs 8.8 KB there (4.3 KB without its queue) and
 * 24 bytes here. CPU of a frame: a text of 32 bytes 159 ns there, 25 ns here;
 * of 4,000 bytes 19.5 us and 1.2 us (9.4 us if no character is ASCII); a binary
 * message of 4,000 bytes, which needs no look, 9.1 us and 0.02 us.
 *
 *      0                   1                   2                   3
 *      0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
 *     +-+-+-+-+-------+-+-------------+-------------------------------+
 *     |F|R|R|R| opcode|M| Payload len |    Extended payload length    |
 *     |I|S|S|S|  (4)  |A|     (7)     |             (16/64)           |
 *     |N|V|V|V|       |S|             |   (if payload len==126/127)   |
 *     | |1|2|3|       |K|             |                               |
 *     +-+-+-+-+-------+-+-------------+ - - - - - - - - - - - - - - - +
 *     |          the rest of 8 bytes of length, if it is 127          |
 *     +---------------------------------------------------------------+
 *     |                          Masking-key                          |
 *     +---------------------------------------------------------------+
 *     |                         Payload data                          |
 *     +---------------------------------------------------------------+
 */
#include "proto/http/ws_frames.h"

#include "proto/status.h"
#include "proto/swar.h"

enum {
    OPCODE_CONTINUATION = 0,
    OPCODE_TEXT = 1,
    OPCODE_BINARY = 2,
    OPCODE_CLOSE = 8,
    OPCODE_PING = 9,
    OPCODE_PONG = 10
};

enum {
    BIT_FINAL = 0x80,
    BITS_RESERVED = 0x70,
    BIT_COMPRESSED = 0x40, /* RSV1 (RFC 7692 section 6) */
    BITS_OPCODE = 0x0f,
    BIT_CONTROL = 0x08,
    BIT_MASKED = 0x80,
    LENGTH_16 = 126, /* and 2 bytes with the length */
    LENGTH_64 = 127  /* and 8 */
};

/* Bits of f->state. */
enum {
    STATE_HAS_DEFLATE = 1,
    STATE_TEXT = 2,  /* the message is a text that can be checked */
    STATE_FINAL = 4, /* the frame is the last one of its message */
    STATE_OVER = 8,  /* nothing counts any more */
    STATE_BINARY = 16,
    STATE_DEFLATED = 32 /* the message is compressed */
};

#define MASK_SIZE 4

void
ws_frames_init(struct ws_frames *f, uint32_t message_max, bool has_deflate)
{
    *f = (struct ws_frames){
        .message_max = message_max,
        .state = has_deflate ? STATE_HAS_DEFLATE : 0,
    };
}

struct header {
    uint8_t first;
    uint8_t size; /* of the header itself */
    uint64_t length;
    uint8_t mask[MASK_SIZE];
};

static enum status
refuse_frame(struct ws_frame *frame, uint16_t code, const char *reason)
{
    frame->code = code;
    frame->reason = reason;
    frame->size = 0;
    return STATUS_INVALID;
}

/* Headers */

/* Returns NULL, or a sentence if the first byte breaks the protocol. */
static const char *
check_first(const struct ws_frames *f, uint8_t first)
{
    uint8_t opcode = first & BITS_OPCODE;
    uint8_t allowed = 0;

    if ((f->state & STATE_HAS_DEFLATE) &&
        (opcode == OPCODE_TEXT || opcode == OPCODE_BINARY))
        allowed = BIT_COMPRESSED;
    if (first & BITS_RESERVED & ~allowed)
        return "a reserved bit is set";
    if (opcode > OPCODE_PONG ||
        (opcode > OPCODE_BINARY && opcode < OPCODE_CLOSE))
        return "a reserved opcode";
    if (opcode & BIT_CONTROL)
        return first & BIT_FINAL ? NULL : "a control frame in fragments";
    if (opcode == OPCODE_CONTINUATION)
        return f->n_frames > 0 ? NULL : "a continuation of no message";
    return f->n_frames == 0 ? NULL : "a message within a message";
}

static uint64_t
read_number(const unsigned char *bytes, size_t size)
{
    uint64_t n = 0;

    for (size_t i = 0; i < size; i++)
        n = n << 8 | bytes[i];
    return n;
}

/* Reads the header of a frame. STATUS_AGAIN: the header is not whole.
 * STATUS_INVALID: `*frame` says why. */
static enum status
read_header(const struct ws_frames *f, struct slice bytes, struct header *h,
            struct ws_frame *frame)
{
    const unsigned char *p = (const unsigned char *)bytes.data;
    bool is_control = bytes.size > 0 && (p[0] & BIT_CONTROL);
    const char *fault;
    size_t extended;

    if (bytes.size == 0)
        return STATUS_AGAIN;
    h->first = p[0];
    fault = check_first(f, h->first);
    if (fault)
        return refuse_frame(frame, WS_CLOSE_PROTOCOL, fault);
    if (!is_control && f->n_frames == WS_FRAMES_MAX)
        return refuse_frame(frame, WS_CLOSE_POLICY,
                            "a message of more than 1,000 frames");

    if (bytes.size == 1)
        return STATUS_AGAIN;
    if (!(p[1] & BIT_MASKED))
        return refuse_frame(frame, WS_CLOSE_PROTOCOL, "a frame without a mask");
    h->length = p[1] & ~BIT_MASKED;
    if (is_control && h->length > WS_CONTROL_MAX)
        return refuse_frame(frame, WS_CLOSE_PROTOCOL,
                            "a control frame of more than 125 bytes");

    extended = h->length == LENGTH_16 ? 2 : h->length == LENGTH_64 ? 8 : 0;
    h->size = (uint8_t)(2 + extended + MASK_SIZE);
    if (bytes.size < h->size)
        return STATUS_AGAIN;
    if (extended > 0) {
        uint64_t least = extended == 2 ? LENGTH_16 : 65536;

        h->length = read_number(p + 2, extended);
        if (h->length < least || h->length > INT64_MAX)
            return refuse_frame(frame, WS_CLOSE_PROTOCOL,
                                "a length that is not minimal or has 64 bits");
    }
    if (!is_control && h->length > f->message_max - f->message)
        return refuse_frame(frame, WS_CLOSE_TOO_LARGE,
                            "the message is too large");
    memcpy(h->mask, p + 2 + extended, MASK_SIZE);
    return STATUS_OK;
}

/* Messages */

/* Checks the next piece of a text. */
static bool
check_text(struct ws_frames *f, struct slice masked)
{
    uint64_t mask;
    size_t i = 0;

    memcpy(&mask, f->mask, MASK_SIZE);
    memcpy((char *)&mask + MASK_SIZE, f->mask, MASK_SIZE);
    while (i < masked.size) {
        if (f->utf8.n_missing == 0 && i % 8 == 0 && i + 8 <= masked.size &&
            !((swar_load(masked.data + i) ^ mask) & SWAR_HIGHS)) {
            i += 8;
            continue;
        }
        if (!utf8_advance(&f->utf8, (unsigned char)masked.data[i] ^
                                        f->mask[i % MASK_SIZE]))
            return false;
        i++;
    }
    return true;
}

/* Begins a data frame with that header. */
static void
begin_data(struct ws_frames *f, const struct header *h)
{
    uint8_t opcode = h->first & BITS_OPCODE;

    if (opcode != OPCODE_CONTINUATION) {
        bool is_text = opcode == OPCODE_TEXT && !(h->first & BIT_COMPRESSED);

        f->state = (uint8_t)((f->state &
                              ~(STATE_TEXT | STATE_BINARY | STATE_DEFLATED)) |
                             (is_text ? STATE_TEXT : 0) |
                             (opcode == OPCODE_BINARY ? STATE_BINARY : 0) |
                             (h->first & BIT_COMPRESSED ? STATE_DEFLATED : 0));
    }
    f->state = (uint8_t)((f->state & ~STATE_FINAL) |
                         (h->first & BIT_FINAL ? STATE_FINAL : 0));
    f->n_frames++;
    f->message += (uint32_t)h->length;
    f->left = (uint32_t)h->length;
    memcpy(f->mask, h->mask, MASK_SIZE);
}

/* Takes the bytes of the frame's payload that have arrived. STATUS_AGAIN: more
 * of it will come. */
static enum status
read_data(struct ws_frames *f, struct slice *bytes, struct buf *to,
          struct ws_frame *frame)
{
    struct slice piece = {bytes->data,
                          f->left < bytes->size ? f->left : bytes->size};
    uint8_t mask[MASK_SIZE];

    if ((f->state & STATE_TEXT) && !check_text(f, piece))
        return refuse_frame(frame, WS_CLOSE_UTF8, "a text that is not UTF-8");
    if (to) {
        char *room = buf_room(to, piece.size);

        if (to->failed)
            return refuse_frame(frame, WS_CLOSE_ERROR, "no memory left");
        for (size_t i = 0; i < piece.size; i++)
            room[i] = (char)(piece.data[i] ^ f->mask[i % MASK_SIZE]);
        to->size += piece.size;
    }
    /* mask[0] is that of the next byte. */
    if (to || (f->state & STATE_TEXT)) {
        memcpy(mask, f->mask, MASK_SIZE);
        for (size_t i = 0; i < MASK_SIZE; i++)
            f->mask[i] = mask[(i + piece.size) % MASK_SIZE];
    }
    slice_skip(bytes, piece.size);
    f->left -= (uint32_t)piece.size;
    if (f->left > 0)
        return STATUS_AGAIN;
    if (f->state & STATE_FINAL) {
        f->n_frames = 0;
        f->message = 0;
        if (f->utf8.n_missing > 0)
            return refuse_frame(frame, WS_CLOSE_UTF8,
                                "a text that is not UTF-8");
    }
    return STATUS_OK;
}

/* Control frames */

bool
ws_close_may_be_sent(unsigned code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

/* Reads the payload of a close frame: empty, a code, or a code and a reason. */
static enum status
read_close(struct ws_frame *frame)
{
    unsigned code;

    if (frame->size == 0) {
        frame->code = WS_CLOSE_NONE;
        return STATUS_OK;
    }
    if (frame->size == 1)
        return refuse_frame(frame, WS_CLOSE_PROTOCOL,
                            "a close frame with half a code");
    code = (unsigned)read_number((unsigned char *)frame->payload, 2);
    frame->code = (uint16_t)code;
    if (!ws_close_may_be_sent(code))
        return refuse_frame(frame, WS_CLOSE_PROTOCOL,
                            "a close frame with a code that may not be sent");
    frame->size -= 2;
    memmove(frame->payload, frame->payload + 2, frame->size);
    return utf8_is_text((struct slice){frame->payload, frame->size}, NULL)
               ? STATUS_OK
               : refuse_frame(frame, WS_CLOSE_UTF8,
                              "the reason of a close frame is not UTF-8");
}

/* Takes a control frame that is whole. */
static enum ws_frames_next
read_control(struct ws_frames *f, struct slice *bytes, const struct header *h,
             struct ws_frame *frame)
{
    slice_skip(bytes, h->size);
    frame->code = 0;
    frame->reason = NULL;
    frame->size = (uint8_t)h->length;
    for (size_t i = 0; i < frame->size; i++)
        frame->payload[i] = (char)(bytes->data[i] ^ h->mask[i % MASK_SIZE]);
    slice_skip(bytes, frame->size);
    if ((h->first & BITS_OPCODE) == OPCODE_PING)
        return WS_FRAMES_PING;
    if ((h->first & BITS_OPCODE) == OPCODE_PONG)
        return WS_FRAMES_PONG;
    f->state |= STATE_OVER;
    return read_close(frame) ? WS_FRAMES_BROKEN : WS_FRAMES_CLOSE;
}

enum ws_frames_next
ws_frames_read(struct ws_frames *f, struct slice *bytes, struct buf *to,
               struct ws_frame *frame)
{
    while (!(f->state & STATE_OVER)) {
        struct header h;
        enum status rc;

        if (f->left > 0) {
            if (bytes->size == 0)
                return WS_FRAMES_MORE;
            rc = read_data(f, bytes, to, frame);
        } else {
            rc = read_header(f, *bytes, &h, frame);
            if (!rc && (h.first & BIT_CONTROL)) {
                if (bytes->size < h.size + h.length)
                    return WS_FRAMES_MORE;
                return read_control(f, bytes, &h, frame);
            }
            if (!rc) {
                slice_skip(bytes, h.size);
                begin_data(f, &h);
                if (f->left == 0)
                    rc = read_data(f, bytes, to, frame);
            }
        }
        if (rc == STATUS_AGAIN)
            return WS_FRAMES_MORE;
        if (rc) {
            f->state |= STATE_OVER;
            return WS_FRAMES_BROKEN;
        }
        if (to && f->left == 0 && f->n_frames == 0) { /* the message is over */
            frame->code = 0;
            frame->reason = NULL;
            frame->size = 0;
            frame->is_text = !(f->state & STATE_BINARY);
            frame->is_deflated = f->state & STATE_DEFLATED;
            return WS_FRAMES_MESSAGE;
        }
    }
    if (bytes->size > 0)
        slice_skip(bytes, bytes->size);
    return WS_FRAMES_MORE;
}
