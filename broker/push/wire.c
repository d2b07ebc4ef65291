#include "broker/push/wire.h"

#include <assert.h>

static void
begin_frame(struct wire *w, bool is_first)
{
    char header[WIRE_HEADER_MAX];
    size_t max = w->framing->payload_max;

    w->room = w->left < max ? w->left : max;
    if (w->framing->header)
        buf_add(
            w->to, header,
            w->framing->header(header, w->room, is_first, w->room == w->left));
}

void
wire_begin(struct wire *w, struct buf *to, const struct framing *framing,
           size_t size)
{
    *w = (struct wire){.to = to, .framing = framing, .left = size};
    buf_room(to, size + (size / framing->payload_max + 1) *
                            (WIRE_HEADER_MAX + strlen(framing->end)));
    begin_frame(w, true);
}

void
wire_add(struct wire *w, struct slice bytes)
{
    assert(bytes.size <= w->left);
    while (bytes.size > 0) {
        size_t size = bytes.size < w->room ? bytes.size : w->room;

        buf_add(w->to, bytes.data, size);
        slice_skip(&bytes, size);
        w->left -= size;
        w->room -= size;
        if (w->room == 0) {
            buf_add_text(w->to, w->framing->end);
            if (w->left == 0)
                return;
            begin_frame(w, false);
        }
    }
}

void
wire_add_message(struct wire *w, const struct message *message)
{
    for (size_t i = 0; i < message->n_slices; i++)
        wire_add(w, message->slices[i]);
}
