#include "tests/test.h"
#include "tests/unit/net/streamed.h"

static void
write_text(struct stream *stream, const char *text)
{
    uint8_t frame[1000];
    size_t size = strlen(text);
    size_t n = stream_frame_header(frame, size, true, true);

    memcpy(frame + n, text, size);
    stream_write(stream, frame, n + size);
}

static void
greet(struct stream *stream, void *user)
{
    streamed_keep(stream, user);
    write_text(stream, "welcome");
}

static const struct stream_handlers polite = STREAMED(greet);

static int
open_polite(void **state)
{
    streamed_open(state);
    served.stream_handlers = &polite;
    return 0;
}

static void
assert_message(struct wire *w, const char *text)
{
    struct wire_frame f;

    assert_true(wire_message(w, &f));
    assert_int_equal(f.opcode, WIRE_TEXT);
    assert_string_equal(f.payload, text);
}

/* A WebSocket that was welcomed. */
static struct wire *
welcomed(void)
{
    struct wire *w = streamed_upgrade(served_connect(), NULL);

    assert_message(w, "welcome");
    return w;
}

static void
assert_closed(struct wire *w, unsigned code, const char *reason)
{
    struct wire_frame f;

    assert_true(wire_message(w, &f));
    assert_int_equal(f.opcode, WIRE_CLOSE);
    assert_int_equal(wire_close_code(&f), code);
    assert_string_equal(f.payload + 2, reason);
}

FIXTURE(open_polite, streamed_close);
SERVED_GROUPS;

TEST(says_the_chosen_subprotocol_alone)
{
    static const char *const lists[][2] = {
        {NULL, NULL},
        {"resourcesync.xml", "resourcesync.xml"},
        {"resourcesync.json", "resourcesync.json"},
        {"resourcesync.xml, resourcesync.json", "resourcesync.xml"},
        {"resourcesync.json,resourcesync.xml", "resourcesync.json"}};
    struct wire_answer a;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct wire *w = served_connect();

        assert_true(wire_upgrade(w, "/stream", lists[i][0], &a));
        served_assert_header(&a, "Sec-WebSocket-Protocol", lists[i][1]);
        assert_message(w, "welcome");
        wire_close(w);
    }
    served_await(&n_gone, 5);
}

/* RFC 7692: once agreed, a client may send compressed messages, which are
 * ignored as others are, unless RSV1 stands where it may not. */
TEST(takes_compressed_messages_if_that_was_agreed)
{
    static const struct {
        const char *deflate;
        unsigned first, code;
    } rows[] = {
        {NULL, 0x40 | WIRE_TEXT, 1002},
        {"permessage-deflate", 0x40 | WIRE_TEXT, 0},
        {"permessage-deflate", WIRE_TEXT, 0},
        {"permessage-deflate", 0x40 | WIRE_PING, 1002},
        {"permessage-deflate", 0x20 | WIRE_TEXT, 1002},
    };
    struct wire_answer a;
    struct wire_frame f;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wire *w = served_connect();

        served.deflate = rows[i].deflate;
        assert_true(wire_upgrade(w, "/stream", NULL, &a));
        served_assert_header(&a, "Sec-WebSocket-Extensions", rows[i].deflate);
        assert_message(w, "welcome");
        assert_true(wire_send_frame(w, rows[i].first, true, "J\4\0", 3));
        assert_true(wire_send_frame(w, WIRE_PING, true, "x", 1));
        assert_true(wire_frame(w, &f));
        assert_int_equal(f.opcode, rows[i].code ? WIRE_CLOSE : WIRE_PONG);
        if (rows[i].code)
            assert_int_equal(wire_close_code(&f), rows[i].code);
        wire_close(w);
    }
    served_await(&n_gone, sizeof(rows) / sizeof(rows[0]));
}

TEST(lets_the_handler_refuse)
{
    struct wire *w = served_connect();
    struct wire_answer a;

    assert_false(wire_upgrade(w, "/stream", "mqtt", &a));
    assert_int_equal(a.status, 400);
    served_assert_ended(w);

    assert_int_equal(atomic_load(&n_opened), 0);
}

/* RFC 6455 section 4.2.1. */
TEST(refuses_bad_handshakes)
{
#define UPGRADE    "GET /stream HTTP/1.1\r\nUpgrade: websocket\r\n"
#define HOST       "Host: a\r\n"
#define CONNECTION "Connection: Upgrade\r\n"
#define KEY        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define VERSION    "Sec-WebSocket-Version: 13\r\n"
#define HANDSHAKE  UPGRADE HOST CONNECTION KEY VERSION "\r\n"

    static const struct {
        const char *text;
        unsigned status;
    } rows[] = {
        {UPGRADE CONNECTION KEY VERSION "\r\n", 400},
        {UPGRADE HOST CONNECTION VERSION "\r\n", 400},
        {UPGRADE HOST CONNECTION "Sec-WebSocket-Key: abc\r\n" VERSION "\r\n",
         400},
        {UPGRADE HOST CONNECTION KEY "\r\n", 426},
        {UPGRADE HOST CONNECTION KEY "Sec-WebSocket-Version: 8\r\n\r\n", 426},
        {"HEAD /stream HTTP/1.1\r\nUpgrade: websocket\r\n" HOST CONNECTION KEY
             VERSION "\r\n",
         400},
    };
    struct wire_answer a;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wire *w = served_sent(rows[i].text);

        assert_true(wire_answer_head(w, &a));
        if (a.status != rows[i].status)
            fail_msg("%u is the answer to %s", a.status, rows[i].text);
        if (a.status == 426) {
            served_assert_header(&a, "Upgrade", "websocket");
            served_assert_header(&a, "Connection", "upgrade, close");
        }
        served_assert_ended(w);
    }
    served_assert_alive();
    assert_int_equal(atomic_load(&n_opened), 0);
}

TEST(takes_an_upgrade_on_a_kept_connection_and_cut_anywhere)
{
    static const char text[] =
        "GET /stream HTTP/1.1\r\nHost: a\r\nUpgrade: WebSocket\r\n"
        "Connection: keep-alive, Upgrade\r\n" KEY VERSION "\r\n";

    for (size_t at = 1; at < sizeof(text) - 1; at += 7) {
        struct wire *w = served_connect();

        served_assert_kept(w);
        assert_true(wire_send(w, text, at));
        served_turn(); /* reads the first piece */
        assert_true(wire_send_text(w, text + at));
        served_assert_answer(w, 101, NULL);
        assert_message(w, "welcome");
        wire_close(w);
    }
    served_await(&n_gone, atomic_load(&n_opened));
}

TEST(reads_frames_that_come_with_the_handshake)
{
    static const char text[] = HANDSHAKE "\x89\x82\x00\x00\x00\x00hi";
    struct wire *w = served_connect();
    struct wire_frame f;

    assert_true(wire_send(w, text, sizeof(text) - 1));
    served_assert_answer(w, 101, NULL);
    assert_message(w, "welcome");
    assert_true(wire_frame(w, &f));
    assert_int_equal(f.opcode, WIRE_PONG);
    assert_string_equal(f.payload, "hi");
    wire_close(w);
    served_await(&n_gone, 1);
}

TEST(composes_frame_headers)
{
    static const struct {
        size_t size;
        bool is_first, is_last;
        uint8_t header[10];
        size_t header_size;
    } rows[] = {
        {0, true, true, {0x81, 0}, 2},
        {125, true, true, {0x81, 125}, 2},
        {126, false, true, {0x80, 126, 0, 126}, 4},
        {65535, true, false, {0x01, 126, 255, 255}, 4},
        {65536, false, false, {0x00, 127, 0, 0, 0, 0, 0, 1, 0, 0}, 10},
    };

    uint8_t header[STREAM_FRAME_HEADER_MAX];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t n = stream_frame_header(header, rows[i].size, rows[i].is_first,
                                       rows[i].is_last);

        assert_int_equal(n, rows[i].header_size);
        assert_memory_equal(header, rows[i].header, n);
    }
}

static void
write_from_outside(void)
{
    write_text(last, "from outside");
}

TEST(writes_from_anywhere_on_its_thread)
{
    struct wire *w = welcomed();

    for (int i = 0; i < 10; i++)
        served_on_service(write_from_outside);
    for (int i = 0; i < 10; i++)
        assert_message(w, "from outside");
    wire_close(w);
}

TEST(answers_pings_and_ignores_messages)
{
    struct wire *w = welcomed();
    struct wire_frame f;
    char bytes[65000];

    memset(bytes, 'x', sizeof(bytes));
    assert_true(wire_send_frame(w, WIRE_TEXT, true, "hello", 5));
    assert_true(wire_send_frame(w, WIRE_BINARY, false, bytes, 500));
    assert_true(wire_send_frame(w, WIRE_PING, true, "between", 7));
    assert_true(
        wire_send_frame(w, WIRE_CONTINUATION, true, bytes, sizeof(bytes)));
    assert_true(wire_frame(w, &f));
    assert_int_equal(f.opcode, WIRE_PONG);
    assert_string_equal(f.payload, "between");
    assert_true(wire_send_frame(w, WIRE_PING, true, "", 0));
    assert_true(wire_frame(w, &f));
    assert_int_equal(f.opcode, WIRE_PONG);
    assert_int_equal(f.size, 0);
    wire_close(w);
}

TEST(closes_on_a_message_over_64_kb)
{
    char bytes[65537];
    struct wire *w = welcomed();

    memset(bytes, 'x', sizeof(bytes));
    assert_true(wire_send_frame(w, WIRE_TEXT, true, bytes, sizeof(bytes)));
    assert_closed(w, 1009, "the message is too large");
    wire_close(w);

    w = welcomed();
    assert_true(wire_send_frame(w, WIRE_TEXT, false, bytes, 60000));
    assert_true(wire_send_frame(w, WIRE_CONTINUATION, false, bytes, 5536));
    assert_true(wire_send_frame(w, WIRE_CONTINUATION, false, bytes, 1));
    assert_closed(w, 1009, "the message is too large");
    wire_close(w);
    served_await(&n_gone, 2);
}

static void
close_4410(void)
{
    stream_close(last, 4410, "position is gone");
    stream_close(last, 1001, "again");
    write_text(last, "too late");
}

TEST(closes_with_code_and_reason)
{
    struct wire *w = welcomed();
    struct wire_frame f;

    served_on_service(close_4410);
    assert_closed(w, 4410, "position is gone");
    assert_true(wire_send_frame(w, WIRE_CLOSE, true, "\x11\x3a", 2));
    assert_false(wire_frame(w, &f));
    served_assert_ended(w);
    served_await(&n_gone, 1);
}

TEST(cuts_who_does_not_answer_a_close)
{
    struct wire *w = welcomed();

    served_on_service(close_4410);
    assert_closed(w, 4410, "position is gone");
    assert_in_range(served_pass_until(&n_gone, 1), 5, 6);
    served_assert_ended(w);
}

TEST(echoes_a_close_of_the_client)
{
    struct wire *w = welcomed();

    assert_true(wire_send_frame(w, WIRE_CLOSE, true, "\x03\xe8", 2));
    assert_closed(w, 1000, "");
    served_assert_ended(w);
    served_await(&n_gone, 1);
}

TEST(hears_of_clients_that_vanish)
{
    for (int i = 0; i < 20; i++) {
        struct wire *w = streamed_upgrade(served_connect(),
                                          i % 3 ? NULL : "resourcesync.xml");

        if (i % 2)
            wire_abort(w);
        else
            wire_close(w);
    }
    served_await(&n_gone, 20);
}

static void
want_room(void)
{
    stream_want_room(last);
}

TEST(gives_room_when_asked)
{
    struct wire *w = welcomed();

    served_on_service(want_room);
    served_await(&n_rooms, 1);
    wire_close(w);
}

/* A stream to a client that does not read, so that no more bytes get through.
 */
static struct wire *
stuck(void)
{
    served.stream_handlers = &streamed_quiet;
    return streamed_upgrade(served_connect_narrow(), NULL);
}

TEST(says_when_there_is_room_again)
{
    struct wire *w = stuck();
    struct wire_frame f;

    for (unsigned round = 1; round <= 3; round++) {
        unsigned n = streamed_choke();

        assert_int_equal(atomic_load(&n_rooms), round - 1);
        served_assert_alive();
        for (; n; n--) {
            assert_true(wire_frame(w, &f));
            assert_int_equal(f.opcode, WIRE_TEXT);
            assert_int_equal(f.size, sizeof(large) - LARGE_HEADER);
            assert_int_equal(f.payload[f.size - 1], 'y');
        }
        served_await(&n_rooms, round);
    }
    wire_close(w);
}

/* The stream closes behind the frame that is stuck, which arrives whole; also
 * where the client closes at the same time. */
TEST(closes_behind_what_was_begun)
{
    for (unsigned i = 0; i < 2; i++) {
        struct wire *w = stuck();
        unsigned written = streamed_choke(), n = 0;
        struct wire_frame f;

        served_on_service(close_4410);
        if (i == 1)
            assert_true(wire_send_frame(w, WIRE_CLOSE, true, "", 0));
        served_turn();
        while (wire_frame(w, &f) && f.opcode == WIRE_TEXT)
            n++;
        assert_int_equal(n, written);
        assert_int_equal(f.opcode, WIRE_CLOSE);
        assert_int_equal(wire_close_code(&f), 4410);
        wire_close(w);
        served_await(&n_gone, i + 1);
    }
}

/* Bytes wait for room, and none of them moves: 10 seconds, and the two between
 * which the server looks. */
TEST(cuts_a_stream_that_does_not_move)
{
    struct wire *w = stuck();

    streamed_choke();
    assert_in_range(served_pass_until(&n_gone, 1), 10, 12);
    wire_close(w);
}

TEST(leaves_a_stream_that_waits_for_nothing)
{
    struct wire *w = stuck();
    struct wire_frame f;

    for (unsigned n = streamed_choke(); n; n--)
        assert_true(wire_frame(w, &f));
    served_await(&n_rooms, 1);
    served_pass_seconds(30);
    assert_int_equal(atomic_load(&n_gone), 0);
    wire_close(w);
}

TEST(cuts_who_does_not_even_read)
{
    struct wire *w = stuck();

    streamed_choke();
    served_on_service(close_4410);
    assert_in_range(served_pass_until(&n_gone, 1), 5, 6);
    wire_close(w);
}
