#include <stdlib.h>
#include <string.h>

#include "broker/push/transports.h"
#include "tests/test.h"
#include "tests/unit/push/cut_message.h"

/* Takes the body of a chunked answer apart (RFC 9112 section 7.1), from `at`
 * on; returns where the next chunk begins. */
static size_t
take_chunk(struct slice wire, size_t at, struct buf *to)
{
    size_t size = 0, digits = 0;

    for (;; at++, digits++) {
        const char *hex = "0123456789abcdef";
        const char *digit =
            wire.data[at] == '\r' ? NULL : strchr(hex, wire.data[at]);

        assert_true(at < wire.size);
        if (!digit)
            break;
        size = size * 16 + (size_t)(digit - hex);
    }
    assert_true(digits > 0);
    assert_true(size > 0); /* that would be the last */
    assert_memory_equal(wire.data + at, "\r\n", 2);
    assert_true(at + 2 + size + 2 <= wire.size);
    buf_add(to, wire.data + at + 2, size);
    assert_memory_equal(wire.data + at + 2 + size, "\r\n", 2);
    return at + 2 + size + 2;
}

/* Wraps a message of `size` bytes, its line end included, in chunks; checks
 * every one, and that they hold the event. Returns how many there are. */
static unsigned
assert_cut_and_chunked(size_t size, size_t piece)
{
    struct message message;
    struct buf text, wire, plain, event;
    unsigned n = 0;

    buf_init(&text, SIZE_MAX);
    buf_init(&wire, SIZE_MAX);
    buf_init(&plain, SIZE_MAX);
    buf_init(&event, SIZE_MAX);
    for (size_t i = 1; i < size; i++)
        buf_add(&text, &"0123456789abcdefghijklmnopqrstuvwxyz"[i % 36], 1);
    BUF_ADD(&text, "\n");
    message = cut_message(buf_slice(&text), piece);
    eventsource_wrap(&wire, &message,
                     transports_of_events(false, false, MESSAGE_JSON));
    eventsource_wrap(&plain, &message,
                     transports_of_events(true, false, MESSAGE_JSON));
    free(message.slices);
    assert_false(wire.failed);
    for (size_t at = 0; at < wire.size; n++) {
        struct slice told = transports_piece(buf_slice(&wire), at);
        size_t next = take_chunk(buf_slice(&wire), at, &event);

        assert_int_equal(told.size, next - at);
        assert_true(next == wire.size || next - at == STREAM_FRAME_MAX);
        at = next;
    }
    assert_true(slice_equal(buf_slice(&event), buf_slice(&plain)));
    buf_fini(&text);
    buf_fini(&wire);
    buf_fini(&plain);
    buf_fini(&event);
    return n;
}

/* The same, whatever the slices are. */
static unsigned
assert_chunked(size_t size)
{
    static const size_t pieces[] = {1000, 65391, 65392, 65393};
    unsigned n = assert_cut_and_chunked(size, size);

    for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++)
        assert_int_equal(assert_cut_and_chunked(size, pieces[i]), n);
    return n;
}

/* Design section 4: `id: POSITION`, `event: changes`, `data:` the message, and
 * an empty line. */
TEST(writes_a_message_as_an_event)
{
    struct message news = cut_message(SLICE("{\"changes\":[]}\n"), 3);
    struct buf wire;

    buf_init(&wire, 1000);
    eventsource_wrap(&wire, &news,
                     transports_of_events(true, false, MESSAGE_JSON));
    free(news.slices);
    buf_add(&wire, "", 1);
    assert_string_equal(wire.data, "id: 0123456789abcdef-7\n"
                                   "event: changes\n"
                                   "data: {\"changes\":[]}\n"
                                   "\n");
    buf_fini(&wire);
}

/* a client that asks for the lines of the log gets each whole, whatever
 * the slices are: the fields of data of an event are joined by line ends. */
TEST(writes_each_line_of_xml_as_a_field)
{
    struct message news = cut_message(SLICE("<a>\n<url>1</url>\n</a>\n"), 3);
    struct buf wire;

    buf_init(&wire, 1000);
    eventsource_wrap(&wire, &news,
                     transports_of_events(true, false, MESSAGE_XML));
    free(news.slices);
    buf_add(&wire, "", 1);
    assert_string_equal(wire.data, "id: 0123456789abcdef-7\n"
                                   "event: changes\n"
                                   "data: <a>\n"
                                   "data: <url>1</url>\n"
                                   "data: </a>\n"
                                   "\n");
    buf_fini(&wire);
}

/* a heartbeat distinguishes quiet from dead; a client that connects
 * again after it loses nothing. */
TEST(writes_a_heartbeat_with_its_position)
{
    struct message quiet = cut_message(SLICE("{}\n"), 3);
    struct buf wire;

    quiet.covered.now_us = 1;
    buf_init(&wire, 1000);
    eventsource_wrap(&wire, &quiet,
                     transports_of_events(true, false, MESSAGE_JSON));
    free(quiet.slices);
    buf_add(&wire, "", 1);
    assert_string_equal(wire.data, "id: 0123456789abcdef-7\n"
                                   "event: heartbeat\n"
                                   "data: {}\n"
                                   "\n");
    buf_fini(&wire);
}

/* A short event is one chunk; a longer one has full chunks and a rest. */
TEST(cuts_an_event_into_full_chunks_and_a_rest)
{
    const size_t around =
        strlen("id: 0123456789abcdef-7\nevent: changes\ndata: \n");
    const size_t full = STREAM_FRAME_MAX - strlen("fff8\r\n\r\n");

    assert_int_equal(assert_chunked(1), 1);
    assert_int_equal(assert_chunked(1000), 1);
    for (size_t n = 1; n <= 4; n++) {
        assert_int_equal(assert_chunked(full * n - around - 1), n);
        assert_int_equal(assert_chunked(full * n - around), n);
        assert_int_equal(assert_chunked(full * n - around + 1), n + 1);
        assert_int_equal(assert_chunked(full * n), n + 1);
    }
    assert_int_equal(assert_chunked(1000000), 16);
}
