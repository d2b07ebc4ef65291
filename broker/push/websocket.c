#include "broker/push/websocket.h"

#include "broker/push/deflater.h"
#include "broker/push/wire.h"

/* A frame of more than 65,535 payload bytes would have a longer header: the
 * payload of a full frame is STREAM_FRAME_MAX without a header of 4 bytes. */
#define PAYLOAD_MAX (STREAM_FRAME_MAX - 4)

static size_t
write_header(char *to, size_t payload, bool is_first, bool is_last)
{
    return stream_frame_header((uint8_t *)to, payload, is_first, is_last);
}

static size_t
write_header_deflated(char *to, size_t payload, bool is_first, bool is_last)
{
    size_t size = write_header(to, payload, is_first, is_last);

    if (is_first)
        to[0] |= STREAM_FRAME_DEFLATED;
    return size;
}

static const struct framing plain = {PAYLOAD_MAX, write_header, ""};
static const struct framing deflated = {PAYLOAD_MAX, write_header_deflated, ""};

/* Appends the compressed message (RFC 7692). Returns false, and appends
 * nothing, if deflater_pack does. */
static bool
wrap_deflated(struct buf *to, const struct message *message,
              struct deflater *deflater)
{
    struct buf text, packed;
    struct wire wire;
    bool is_packed;

    buf_init(&text, MESSAGE_MAX);
    buf_init(&packed, MESSAGE_MAX);
    message_copy(message, &text);
    is_packed =
        !text.failed && deflater_pack(deflater, buf_slice(&text), &packed);
    if (is_packed) {
        wire_begin(&wire, to, &deflated, packed.size);
        wire_add(&wire, buf_slice(&packed));
    }
    buf_fini(&text);
    buf_fini(&packed);
    return is_packed;
}

/* The message contains everything. */
void
websocket_wrap(struct buf *to, const struct message *message,
               struct deflater *deflater)
{
    struct wire wire;

    if (deflater && wrap_deflated(to, message, deflater))
        return;
    wire_begin(&wire, to, &plain, message->size);
    wire_add_message(&wire, message);
}

void
websocket_note(struct buf *to, struct slice json)
{
    struct wire wire;

    wire_begin(&wire, to, &plain, json.size);
    wire_add(&wire, json);
}
