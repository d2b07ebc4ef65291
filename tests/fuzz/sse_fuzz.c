#include "proto/http/sse.h"

#include "tests/fuzz/fuzz.h"

/* Longest data of an event: within reach of an input. */
#define DATA_MAX 500

/* Reads all of it and writes down what came: names, ids, data, the end. */
static enum status
read_in_steps(struct slice bytes, size_t step, struct buf *seen)
{
    struct sse sse;
    struct sse_event event;
    struct problem why = {.text = ""};
    enum status rc = STATUS_AGAIN;

    sse_init(&sse, DATA_MAX);
    while (rc == STATUS_AGAIN && bytes.size > 0) {
        struct slice piece = fuzz_take(&bytes, step);

        while (!(rc = sse_read(&sse, &piece, &event, &why))) {
            FUZZ_ASSERT(event.name.size > 0);
            FUZZ_ASSERT(event.name.size <= SSE_VALUE_MAX);
            FUZZ_ASSERT(event.id.size <= SSE_VALUE_MAX);
            FUZZ_ASSERT(event.size <= DATA_MAX);
            FUZZ_ASSERT(event.size == 0 ||
                        !memchr(event.data, '\r', event.size));
            buf_add_format(seen, "%zu %zu %zu:", event.name.size, event.id.size,
                           event.size);
            buf_add_slice(seen, event.name);
            buf_add_slice(seen, event.id);
            buf_add(seen, event.data, event.size);
            if (event.size > 0)
                event.data[0] ^= 1; /* it is ours until the next one */
        }
        FUZZ_ASSERT(rc == STATUS_AGAIN || rc == STATUS_TOO_LARGE);
        FUZZ_ASSERT(rc != STATUS_AGAIN || piece.size == 0);
    }
    FUZZ_ASSERT(sse.retry_ms <= SSE_RETRY_MAX);
    buf_add_format(seen, "%u", rc == STATUS_AGAIN ? sse.retry_ms : 0);
    sse_fini(&sse);
    if (rc != STATUS_AGAIN)
        fuzz_check_problem(&why);
    return rc;
}

FUZZ_TARGET(sse, bytes)
{
    struct buf whole, pieces;

    buf_init(&whole, SIZE_MAX);
    buf_init(&pieces, SIZE_MAX);
    FUZZ_ASSERT(read_in_steps(bytes, SIZE_MAX, &whole) ==
                read_in_steps(bytes, 1 + bytes.size % 7, &pieces));
    FUZZ_ASSERT(slice_equal(buf_slice(&whole), buf_slice(&pieces)));
    buf_fini(&whole);
    buf_fini(&pieces);
}
