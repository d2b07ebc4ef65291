#include "broker/push/websocket.h"

#include "broker/net/stream.h"
#include "broker/push/deflater.h"

/* A frame of more than 65,535 payload bytes would have a longer header: the
 * payload of a full frame is STREAM_FRAME_MAX without a header of 4 bytes. */
#define PAYLOAD_MAX (STREAM_FRAME_MAX - 4)

void
websocket_accept(struct request *rq, const struct stream_terms *terms,
                 const struct stream_handlers *handlers, void *user)
{
    request_accept_stream(rq, terms, handlers, user);
}

/* Appends the frames of a message; adds `bits` to the first byte. */
static void
wrap(struct buf *to, struct slice message, uint8_t bits)
{
    bool is_first = true;

    do {
        size_t size =
            message.size < PAYLOAD_MAX ? message.size : (size_t)PAYLOAD_MAX;
        uint8_t header[STREAM_FRAME_HEADER_MAX];
        size_t header_size =
            stream_frame_header(header, size, is_first, size == message.size);

        header[0] |= is_first ? bits : 0;
        buf_add(to, header, header_size);
        buf_add(to, message.data, size);
        message.data += size;
        message.size -= size;
        is_first = false;
    } while (message.size > 0);
}

void
websocket_wrap(struct buf *to, struct slice message,
               const struct envelope *envelope)
{
    (void)envelope; /* the message contains everything */
    wrap(to, message, 0);
}

void
websocket_wrap_deflated(struct buf *to, struct slice message,
                        const struct envelope *envelope)
{
    struct buf packed;

    buf_init(&packed, SIZE_MAX);
    if (deflater_pack(envelope->deflater, message, &packed))
        wrap(to, buf_slice(&packed), STREAM_FRAME_DEFLATED);
    else
        wrap(to, message, 0);
    buf_fini(&packed);
}

void
websocket_close(struct stream *stream, const struct ending *ending)
{
    stream_close(stream, ending->code, ending->reason);
}
