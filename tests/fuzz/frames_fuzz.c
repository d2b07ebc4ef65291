#include "client/follow/websocket_frames.h"
#include "proto/buf.h"
#include "tests/fuzz/fuzz.h"

/* A server that sends these bytes, so many at a time, and then ends the
 * connection; and a way back that takes some whenever nothing comes. */
struct wire {
    struct slice rest;
    size_t step;
    size_t room;
    bool is_over;
};

static ssize_t
on_read(void *to, size_t size, void *user)
{
    struct wire *w = user;
    struct slice piece = fuzz_take(&w->rest, size < w->step ? size : w->step);

    if (piece.size > 0)
        memcpy(to, piece.data, piece.size);
    else if (w->is_over)
        return -1;
    return (ssize_t)piece.size;
}

static ssize_t
on_write(const void *from, size_t size, void *user)
{
    struct wire *w = user;
    size_t n = size < w->room ? size : w->room;

    (void)from;
    w->room -= n;
    return (ssize_t)n;
}

/* Reads all of it and records the messages, and whether an invalid one ends
 * them. Other ends depend on the pieces: wslay checks the UTF-8 of a farewell
 * only as far as it comes at once. */
static void
read_in_steps(struct slice bytes, size_t step, struct buf *seen)
{
    struct wire wire = {.rest = bytes, .step = step};
    struct frames *f = frames_new(on_read, on_write, &wire);
    enum frames_next next;
    const struct live_end *end;
    char *message;
    size_t size;

    FUZZ_ASSERT(f);
    while ((next = frames_next(f, &message, &size)) != FRAMES_OVER) {
        if (next == FRAMES_DRY) {
            FUZZ_ASSERT(frames_wants(f) != 0);
            wire.is_over = wire.rest.size == 0;
            wire.room += 1 + bytes.size % 97;
            continue;
        }
        FUZZ_ASSERT(size <= bytes.size);
        FUZZ_ASSERT(fuzz_is_utf8((struct slice){message, size}));
        buf_add_format(seen, "%zu:", size);
        buf_add(seen, message, size);
        if (size > 0)
            message[0] ^= 1; /* it is ours until the next one */
    }
    end = frames_end(f);
    FUZZ_ASSERT(end->how == LIVE_CLOSED || end->how == LIVE_LOST ||
                end->how == LIVE_BROKEN);
    FUZZ_ASSERT(end->why.rc != STATUS_OK);
    FUZZ_ASSERT(end->code == 0 ||
                (end->how == LIVE_CLOSED && end->code < 5000));
    fuzz_check_sentence(end->why.text);
    buf_add_format(seen, "%d", end->how == LIVE_BROKEN);
    FUZZ_ASSERT(frames_next(f, &message, &size) == FRAMES_OVER);
    frames_free(f);
}

FUZZ_TARGET(frames, bytes)
{
    struct buf whole, pieces;

    buf_init(&whole, SIZE_MAX);
    buf_init(&pieces, SIZE_MAX);
    read_in_steps(bytes, SIZE_MAX, &whole);
    read_in_steps(bytes, 1 + bytes.size % 7, &pieces);
    FUZZ_ASSERT(slice_equal(buf_slice(&whole), buf_slice(&pieces)));
    buf_fini(&whole);
    buf_fini(&pieces);
}
