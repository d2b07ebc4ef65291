#include "broker/push/websocket.h"

#include "broker/push/deflater.h"
#include "broker/push/wire.h"

/* The message contains everything. */
void
websocket_wrap(struct buf *to, const struct message *message,
               struct deflater *deflater)
{
    struct buf text, packed;
    struct wire wire;
    bool is_packed = false;

    buf_init(&text, MESSAGE_MAX);
    buf_init(&packed, MESSAGE_MAX);
    if (deflater) {
        message_copy(message, &text);
        is_packed =
            !text.failed && deflater_pack(deflater, buf_slice(&text), &packed);
    }
    if (is_packed) { /* RFC 7692 */
        wire_text(to, FRAMING_DEFLATED, buf_slice(&packed));
    } else {
        wire_begin(&wire, to, FRAMING_FRAMES, message->size);
        wire_add_message(&wire, message);
    }
    buf_fini(&text);
    buf_fini(&packed);
}
