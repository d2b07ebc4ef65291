#include "proto/http/ws_frames.h"

#include "proto/buf.h"
#include "tests/fuzz/fuzz.h"

#define MESSAGE_MAX 300

static void
check_frame(enum ws_frames_next next, const struct ws_frame *frame)
{
    struct slice payload = {frame->payload, frame->size};

    FUZZ_ASSERT(frame->size <= WS_CONTROL_MAX);
    if (next == WS_FRAMES_CLOSE) {
        FUZZ_ASSERT(frame->code >= 1000 && frame->code < 5000);
        FUZZ_ASSERT(frame->size + 2 <= WS_CONTROL_MAX);
        FUZZ_ASSERT(fuzz_is_utf8(payload));
    } else if (next == WS_FRAMES_BROKEN) {
        FUZZ_ASSERT(frame->size == 0);
        FUZZ_ASSERT(frame->code == WS_CLOSE_PROTOCOL ||
                    frame->code == WS_CLOSE_UTF8 ||
                    frame->code == WS_CLOSE_POLICY ||
                    frame->code == WS_CLOSE_TOO_LARGE);
        FUZZ_ASSERT(strlen(frame->reason) + 2 <= WS_CONTROL_MAX);
        fuzz_check_sentence(frame->reason);
    } else {
        FUZZ_ASSERT(frame->code == 0 && !frame->reason);
    }
}

/* Reads `step` bytes at a time, keeps what is left of them, and writes down
 * what came. */
static void
read_cut(struct slice bytes, size_t step, bool has_deflate, struct buf *seen)
{
    struct slice rest = {bytes.data, 0};
    struct ws_frames f;
    bool is_over = false;

    ws_frames_init(&f, MESSAGE_MAX, has_deflate);
    while (bytes.size > 0) {
        size_t had = rest.size;
        struct ws_frame frame;
        enum ws_frames_next next;

        rest.size += fuzz_take(&bytes, step).size;
        while ((next = ws_frames_read(&f, &rest, NULL, &frame)) !=
               WS_FRAMES_MORE) {
            FUZZ_ASSERT(!is_over);
            check_frame(next, &frame);
            buf_add_format(seen, "%d %u %s ", next, frame.code,
                           frame.reason ? frame.reason : "");
            buf_add(seen, frame.payload, frame.size);
            is_over = next == WS_FRAMES_CLOSE || next == WS_FRAMES_BROKEN;
        }
        FUZZ_ASSERT(rest.size <= WS_FRAMES_REST_MAX);
        FUZZ_ASSERT(had <= WS_FRAMES_REST_MAX);
        FUZZ_ASSERT(f.message <= MESSAGE_MAX && f.left <= f.message);
        FUZZ_ASSERT(f.n_frames <= WS_FRAMES_MAX);
    }
    buf_add_format(seen, "%d", is_over ? 0 : (int)rest.size);
}

/* The first byte says whether compression was agreed. */
FUZZ_TARGET(ws_frames, input)
{
    struct slice first = fuzz_take(&input, 1);
    bool has_deflate = first.size > 0 && (first.data[0] & 1);
    struct buf whole, pieces;

    buf_init(&whole, SIZE_MAX);
    buf_init(&pieces, SIZE_MAX);
    read_cut(input, SIZE_MAX, has_deflate, &whole);
    read_cut(input, 1 + input.size % 7, has_deflate, &pieces);
    FUZZ_ASSERT(slice_equal(buf_slice(&whole), buf_slice(&pieces)));
    buf_fini(&whole);
    buf_fini(&pieces);
}
