#include <stdlib.h>
#include <string.h>

#include "broker/net/stream.h"
#include "broker/push/deflater.h"
#include "broker/push/transports.h"
#include "tests/support/gzip.h"
#include "tests/test.h"
#include "tests/unit/push/cut_message.h"

/* A frame, read as RFC 6455 section 5.2 says. */
struct frame {
    bool fin;
    unsigned reserved; /* bits */
    unsigned opcode;
    size_t size; /* with its header */
    struct slice payload;
};

static struct frame
parse(struct slice bytes)
{
    const uint8_t *b = (const uint8_t *)bytes.data;
    struct frame f = {
        .fin = b[0] & 0x80, .reserved = b[0] & 0x70, .opcode = b[0] & 0x0f};
    size_t header = 2, payload = b[1] & 0x7f;

    assert_int_equal(b[1] & 0x80, 0); /* a server does not mask */
    if (payload == 126) {
        header = 4;
        payload = (size_t)b[2] << 8 | b[3];
        assert_true(payload > 125); /* the shortest form there is */
    } else if (payload == 127) {
        header = 10;
        payload = 0;
        for (int i = 2; i < 10; i++)
            payload = payload << 8 | b[i];
        assert_true(payload > 65535);
    }
    assert_true(header + payload <= bytes.size);
    f.size = header + payload;
    f.payload = (struct slice){bytes.data + header, payload};
    return f;
}

/* Checks every frame of a message, of which the first has the reserved bits;
 * appends their payloads. Returns how many there are. */
static unsigned
assert_frames(struct slice wire, unsigned reserved, struct buf *to)
{
    unsigned n = 0;

    for (size_t at = 0; at < wire.size; n++) {
        struct slice rest = {wire.data + at, wire.size - at};
        struct frame f = parse(rest);
        struct slice told = transports_piece(wire, at);

        assert_true(f.size <= STREAM_FRAME_MAX);
        assert_int_equal(f.opcode, at == 0 ? 1 : 0);
        assert_int_equal(f.reserved, at == 0 ? reserved : 0);
        assert_int_equal(f.fin, f.size == rest.size);
        assert_true(f.fin || f.size == STREAM_FRAME_MAX);
        assert_ptr_equal(told.data, rest.data);
        assert_int_equal(told.size, f.size);
        buf_add_slice(to, f.payload);
        at += f.size;
    }
    return n;
}

static void
wrap(struct buf *wire, struct slice text, size_t piece,
     struct deflater *deflater)
{
    struct message message = cut_message(text, piece);

    transports_frame(wire, &message, deflater);
    free(message.slices);
}

/* Wraps a message of `size` bytes in slices of `piece` bytes; checks its
 * frames, and that they hold the message. Returns how many there are. */
static unsigned
assert_cut_and_wrapped(size_t size, size_t piece)
{
    struct buf message, wire, unwrapped;
    unsigned n;

    buf_init(&message, SIZE_MAX);
    buf_init(&wire, SIZE_MAX);
    buf_init(&unwrapped, SIZE_MAX);
    for (size_t i = 0; i < size; i++)
        buf_add(&message, &"0123456789abcdefghijklmnopqrstuvwxyz"[i % 36], 1);
    wrap(&wire, buf_slice(&message), piece, NULL);
    assert_false(wire.failed);
    n = assert_frames(buf_slice(&wire), 0, &unwrapped);
    assert_true(slice_equal(buf_slice(&unwrapped), buf_slice(&message)));
    buf_fini(&message);
    buf_fini(&wire);
    buf_fini(&unwrapped);
    return n;
}

/* The same, whatever the slices are. */
static unsigned
assert_wrapped(size_t size)
{
    static const size_t pieces[] = {1000, 65395, 65396, 65397};
    unsigned n = assert_cut_and_wrapped(size, size);

    for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++)
        assert_int_equal(assert_cut_and_wrapped(size, pieces[i]), n);
    return n;
}

/* Frames of at most 65,400 bytes with their headers, all but the last exactly
 * that. */
TEST(cuts_a_message_into_full_frames_and_a_rest)
{
    for (size_t n = 1; n <= 4; n++) {
        assert_int_equal(assert_wrapped(65396 * n - 1), n);
        assert_int_equal(assert_wrapped(65396 * n), n);
        assert_int_equal(assert_wrapped(65396 * n + 1), n + 1);
    }
    assert_int_equal(assert_wrapped(1000000), 16);
}

/* RFC 6455: the shortest header that holds the size. */
TEST(heads_a_short_message_by_its_size)
{
    assert_int_equal(assert_wrapped(1), 1);
    assert_int_equal(assert_wrapped(125), 1);
    assert_int_equal(assert_wrapped(126), 1);
    assert_int_equal(assert_wrapped(127), 1);
    assert_int_equal(assert_wrapped(65395), 1);
}

/* Frames are appended: earlier bytes stay. */
TEST(appends_to_what_is_there)
{
    struct buf wire;

    buf_init(&wire, 100);
    wrap(&wire, SLICE("one"), 3, NULL);
    wrap(&wire, SLICE("two"), 2, NULL);
    assert_int_equal(wire.size, 10);
    assert_memory_equal(wire.data, "\x81\x03one\x81\x03two", 10);
    buf_fini(&wire);
}

/* A failure shows in the buffer. */
TEST(fails_without_room)
{
    struct buf wire;

    buf_init(&wire, 100);
    wrap(&wire, SLICE("0123456789"), 3, NULL);
    assert_false(wire.failed);
    buf_fini(&wire);
    buf_init(&wire, 11);
    wrap(&wire, SLICE("0123456789"), 3, NULL);
    assert_true(wire.failed);
    buf_fini(&wire);
}

/* RFC 7692 section 6: RSV1 stands on the first frame of a compressed message. A
 * small message goes out as it is. */
TEST(marks_a_compressed_message_on_its_first_frame)
{
    static const struct {
        size_t size;
        unsigned reserved, n_frames;
    } rows[] = {{100, 0, 1}, {DEFLATER_LEAST, 0x40, 1}, {400000, 0x40, 3}};
    struct deflater deflater = {NULL};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf message, wire, payload, again;

        buf_init(&message, SIZE_MAX);
        buf_init(&wire, SIZE_MAX);
        buf_init(&payload, SIZE_MAX);
        buf_init(&again, SIZE_MAX);
        for (uint32_t k = 0, x = 0; k < rows[i].size; k++) {
            x = x * 1664525 + 1013904223;
            buf_add(&message, &"0123456789abcdef"[x >> 29], 1);
        }
        wrap(&wire, buf_slice(&message), 5000, &deflater);
        assert_int_equal(
            assert_frames(buf_slice(&wire), rows[i].reserved, &payload),
            rows[i].n_frames);
        if (rows[i].reserved)
            gzip_add_message(&again, buf_slice(&payload));
        else
            buf_add_slice(&again, buf_slice(&payload));
        assert_true(slice_equal(buf_slice(&again), buf_slice(&message)));
        buf_fini(&message);
        buf_fini(&wire);
        buf_fini(&payload);
        buf_fini(&again);
    }
    deflater_fini(&deflater);
}
