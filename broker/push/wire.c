#include "broker/push/wire.h"

#include <assert.h>

/* A full frame has STREAM_FRAME_MAX bytes. A full chunk has "ff70\r\n" and
 * "\r\n" around it. A frame of a WebSocket with more than 65,535 payload bytes
 * would have a header of more than 4 bytes. */
static const struct {
    size_t payload_max;
    const char *end; /* behind each payload */
} framings[] = {
    [FRAMING_NONE] = {SIZE_MAX, ""},
    [FRAMING_CHUNKS] = {STREAM_FRAME_MAX - 8, STREAM_CHUNK_END},
    [FRAMING_FRAMES] = {STREAM_FRAME_MAX - 4, ""},
    [FRAMING_DEFLATED] = {STREAM_FRAME_MAX - 4, ""},
};

void
wire_begin(struct wire *w, struct buf *to, enum framing framing, size_t size)
{
    *w = (struct wire){.to = to, .framing = framing, .left = size};
    buf_room(to, size + (size / framings[framing].payload_max + 1) *
                            (WIRE_HEADER_MAX + strlen(framings[framing].end)));
}

void
wire_add(struct wire *w, struct slice bytes)
{
    char header[WIRE_HEADER_MAX];

    assert(bytes.size <= w->left);
    while (bytes.size > 0) {
        size_t size = 0, max = framings[w->framing].payload_max;

        if (w->room == 0) {
            /* Writes the header of the next frame. */
            w->room = w->left < max ? w->left : max;
            if (w->framing == FRAMING_CHUNKS)
                size = stream_chunk_header(header, w->room);
            else if (w->framing != FRAMING_NONE)
                size = stream_frame_header((uint8_t *)header, w->room,
                                           !w->is_begun, w->room == w->left);
            if (w->framing == FRAMING_DEFLATED && !w->is_begun)
                header[0] |= STREAM_FRAME_DEFLATED;
            w->is_begun = true;
            buf_add(w->to, header, size);
        }
        size = bytes.size < w->room ? bytes.size : w->room;
        buf_add(w->to, bytes.data, size);
        slice_skip(&bytes, size);
        w->left -= size;
        w->room -= size;
        if (w->room == 0)
            buf_add_text(w->to, framings[w->framing].end);
    }
}

void
wire_text(struct buf *to, enum framing framing, struct slice text)
{
    struct wire wire;

    wire_begin(&wire, to, framing, text.size);
    wire_add(&wire, text);
}

void
wire_add_message(struct wire *w, const struct message *message)
{
    for (size_t i = 0; i < message->n_slices; i++)
        wire_add(w, message->slices[i]);
}
