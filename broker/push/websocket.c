#include "broker/push/websocket.h"

#include "broker/net/stream.h"

/* A frame of more than 65,535 payload bytes would have a longer header: the
 * payload of a full frame is what a header of 4 bytes leaves. */
#define PAYLOAD_MAX (STREAM_FRAME_MAX - 4)

void
websocket_accept(struct request *rq, const struct transport *transport,
                 bool is_named, const struct stream_handlers *handlers,
                 void *user)
{
    request_accept_stream(rq, is_named ? transport->subprotocol : NULL,
                          handlers, user);
}

void
websocket_wrap(struct buf *to, struct slice message,
               const struct envelope *envelope)
{
    bool is_first = true;

    (void)envelope; /* the message says it all itself */
    do {
        size_t size =
            message.size < PAYLOAD_MAX ? message.size : (size_t)PAYLOAD_MAX;
        uint8_t header[STREAM_FRAME_HEADER_MAX];
        size_t header_size =
            stream_frame_header(header, size, is_first, size == message.size);

        buf_add(to, header, header_size);
        buf_add(to, message.data, size);
        message.data += size;
        message.size -= size;
        is_first = false;
    } while (message.size > 0);
}

void
websocket_close(struct stream *stream, const struct ending *ending)
{
    stream_close(stream, ending->code, ending->reason);
}
