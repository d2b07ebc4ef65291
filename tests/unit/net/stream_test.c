#include "tests/test.h"
#include "tests/unit/net/served.h"

static atomic_uint n_opened, n_gone, n_rooms;
static struct stream *last; /* of one stream at a time; on its service thread */

static void
count_gone(struct stream *stream, void *user)
{
    (void)stream;
    (void)user;
    last = NULL;
    atomic_fetch_add(&n_gone, 1);
}

static void
count_room(struct stream *stream, void *user)
{
    (void)stream;
    (void)user;
    atomic_fetch_add(&n_rooms, 1);
}

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
keep(struct stream *stream, void *user)
{
    (void)user;
    last = stream;
    atomic_fetch_add(&n_opened, 1);
}

static void
greet(struct stream *stream, void *user)
{
    keep(stream, user);
    write_text(stream, "welcome");
}

static const struct stream_handlers quiet = {keep, count_room, count_gone};
static const struct stream_handlers polite = {greet, count_room, count_gone};

static int
open_streams(void **state)
{
    (void)state;
    served_open_with(1, 10000000);
    served.stream_handlers = &polite;
    last = NULL;
    atomic_store(&n_opened, 0);
    atomic_store(&n_gone, 0);
    atomic_store(&n_rooms, 0);
    return 0;
}

static int
close_streams(void **state)
{
    served_close(state);
    assert_int_equal(atomic_load(&n_opened), atomic_load(&n_gone));
    return 0;
}

static struct wire *
opened(const char *subprotocols)
{
    unsigned n = atomic_load(&n_opened);
    struct wire *w = served_connect();
    struct wire_answer a;

    assert_true(wire_upgrade(w, "/stream", subprotocols, &a));
    served_await(&n_opened, n + 1);
    return w;
}

static void
assert_message(struct wire *w, const char *text)
{
    struct wire_frame f;

    assert_true(wire_message(w, &f));
    assert_int_equal(f.opcode, WIRE_TEXT);
    assert_string_equal(f.payload, text);
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

SERVED_GROUPS;

TEST(says_the_chosen_subprotocol_alone, open_streams, close_streams)
{
    static const char *const lists[][2] = {
        {NULL, NULL},
        {"resourcesync.xml", "resourcesync.xml"},
        {"resourcesync.json", "resourcesync.json"},
        {"resourcesync.xml, resourcesync.json", "resourcesync.xml"},
        {"resourcesync.json,resourcesync.xml", "resourcesync.json"}};
    struct wire_answer a;
    char value[64];

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct wire *w = served_connect();

        assert_true(wire_upgrade(w, "/stream", lists[i][0], &a));
        assert_true(wire_header(&a, "Sec-WebSocket-Protocol", value,
                                sizeof(value)) == (lists[i][1] != NULL));
        if (lists[i][1])
            assert_string_equal(value, lists[i][1]);
        assert_message(w, "welcome");
        wire_close(w);
    }
    served_await(&n_gone, 5);
}

TEST(lets_the_handler_refuse, open_streams, close_streams)
{
    struct wire *w = served_connect();
    struct wire_answer a;

    assert_false(wire_upgrade(w, "/stream", "mqtt", &a));
    assert_int_equal(a.status, 400);
    assert_true(wire_is_ended(w));
    wire_close(w);

    /* No subprotocol is to be had by the library's own names. */
    w = served_connect();
    assert_false(wire_upgrade(w, "/stream", "tidings http", &a));
    wire_close(w);
    assert_int_equal(atomic_load(&n_opened), 0);
}

/* RFC 6455 section 4.2.1. */
TEST(refuses_bad_handshakes, open_streams, close_streams)
{
#define UPGRADE "GET /stream HTTP/1.1\r\nUpgrade: websocket\r\n"
#define KEY     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"

    static const struct {
        const char *text;
        unsigned status;
    } cases[] = {
        {UPGRADE "Host: a\r\n" KEY VERSION "\r\n", 400},
        {UPGRADE "Host: a\r\nConnection: close\r\n" KEY VERSION "\r\n", 400},
        {UPGRADE "Connection: Upgrade\r\n" KEY VERSION "\r\n", 400},
        {UPGRADE "Host: a\r\nConnection: Upgrade\r\n" VERSION "\r\n", 400},
        {UPGRADE
         "Host: a\r\nConnection: Upgrade\r\nSec-WebSocket-Key: abc\r\n" VERSION
         "\r\n",
         400},
        {UPGRADE "Host: a\r\nConnection: Upgrade\r\n" KEY "\r\n", 426},
        {UPGRADE "Host: a\r\nConnection: Upgrade\r\n" KEY
                 "Sec-WebSocket-Version: 8\r\n\r\n",
         426},
        {"HEAD /stream HTTP/1.1\r\nUpgrade: websocket\r\nHost: a\r\n"
         "Connection: Upgrade\r\n" KEY VERSION "\r\n",
         400},
    };
    struct wire_answer a;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wire *w = served_connect();

        assert_true(wire_send_text(w, cases[i].text));
        assert_true(wire_answer_head(w, &a));
        assert_int_equal(a.status, cases[i].status);
        if (a.status == 426) {
            char value[64] = "";

            wire_header(&a, "Upgrade", value, sizeof(value));
            assert_string_equal(value, "websocket");
            wire_header(&a, "Connection", value, sizeof(value));
            assert_string_equal(value, "upgrade, close");
        }
        assert_true(wire_is_ended(w));
        wire_close(w);
    }
    served_assert_alive();
    assert_int_equal(atomic_load(&n_opened), 0);
}

TEST(takes_an_upgrade_on_a_kept_connection_and_cut_anywhere, open_streams,
     close_streams)
{
    static const char text[] =
        "GET /stream HTTP/1.1\r\nHost: a\r\nUpgrade: WebSocket\r\n"
        "Connection: keep-alive, Upgrade\r\n" KEY VERSION "\r\n";
    struct wire_answer a;

    for (size_t at = 1; at < sizeof(text) - 1; at += 7) {
        struct wire *w = served_connect();

        assert_true(wire_request(w, "GET", "/small", NULL, NULL, &a));
        assert_true(wire_send(w, text, at));
        served_assert_alive();
        assert_true(wire_send_text(w, text + at));
        assert_true(wire_answer(w, &a, false));
        assert_int_equal(a.status, 101);
        assert_message(w, "welcome");
        wire_close(w);
    }
    served_await(&n_gone, atomic_load(&n_opened));
}

TEST(reads_frames_that_come_with_the_handshake, open_streams, close_streams)
{
    struct wire *w = served_connect();
    struct wire_answer a;
    struct wire_frame f;

    assert_true(wire_send(
        w,
        UPGRADE "Host: a\r\nConnection: Upgrade\r\n" KEY VERSION
                "\r\n\x89\x82\x00\x00\x00\x00hi",
        sizeof(UPGRADE "Host: a\r\nConnection: Upgrade\r\n" KEY VERSION
                       "\r\n\x89\x82\x00\x00\x00\x00hi") -
            1));
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 101);
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
    } cases[] = {
        {0, true, true, {0x81, 0}, 2},
        {125, true, true, {0x81, 125}, 2},
        {126, false, true, {0x80, 126, 0, 126}, 4},
        {65535, true, false, {0x01, 126, 255, 255}, 4},
        {65536, false, false, {0x00, 127, 0, 0, 0, 0, 0, 1, 0, 0}, 10},
    };

    uint8_t header[STREAM_FRAME_HEADER_MAX];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t n = stream_frame_header(header, cases[i].size, cases[i].is_first,
                                       cases[i].is_last);

        assert_int_equal(n, cases[i].header_size);
        assert_memory_equal(header, cases[i].header, n);
    }
}

static void
write_from_outside(void)
{
    write_text(last, "from outside");
}

TEST(writes_from_anywhere_on_its_thread, open_streams, close_streams)
{
    struct wire *w = opened(NULL);

    assert_message(w, "welcome");
    for (int i = 0; i < 10; i++)
        served_on_service(write_from_outside);
    for (int i = 0; i < 10; i++)
        assert_message(w, "from outside");
    wire_close(w);
}

TEST(answers_pings_and_ignores_messages, open_streams, close_streams)
{
    struct wire *w = opened(NULL);
    struct wire_frame f;
    char bytes[65000];

    memset(bytes, 'x', sizeof(bytes));
    assert_message(w, "welcome");
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

TEST(closes_on_a_message_over_64_kb, open_streams, close_streams)
{
    char bytes[65537];
    struct wire *w = opened(NULL);

    memset(bytes, 'x', sizeof(bytes));
    assert_message(w, "welcome");
    assert_true(wire_send_frame(w, WIRE_TEXT, true, bytes, sizeof(bytes)));
    assert_closed(w, 1009, "a message is over 64 KB");
    wire_close(w);

    w = opened(NULL);
    assert_message(w, "welcome");
    assert_true(wire_send_frame(w, WIRE_TEXT, false, bytes, 60000));
    assert_true(wire_send_frame(w, WIRE_CONTINUATION, false, bytes, 5536));
    assert_true(wire_send_frame(w, WIRE_CONTINUATION, false, bytes, 1));
    assert_closed(w, 1009, "a message is over 64 KB");
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

TEST(closes_with_code_and_reason, open_streams, close_streams)
{
    struct wire *w = opened(NULL);
    struct wire_frame f;

    assert_message(w, "welcome");
    served_on_service(close_4410);
    assert_closed(w, 4410, "position is gone");
    assert_true(wire_send_frame(w, WIRE_CLOSE, true, "\x11\x3a", 2));
    assert_false(wire_frame(w, &f));
    assert_true(wire_is_ended(w));
    served_await(&n_gone, 1);
    wire_close(w);
}

TEST(cuts_who_does_not_answer_a_close, open_streams, close_streams)
{
    struct wire *w = opened(NULL);

    assert_message(w, "welcome");
    served_on_service(close_4410);
    assert_closed(w, 4410, "position is gone");
    assert_in_range(served_pass_until(&n_gone, 1), 5, 6);
    assert_true(wire_is_ended(w));
    wire_close(w);
}

TEST(echoes_a_close_of_the_client, open_streams, close_streams)
{
    struct wire *w = opened(NULL);

    assert_message(w, "welcome");
    assert_true(wire_send_frame(w, WIRE_CLOSE, true, "\x03\xe8", 2));
    assert_closed(w, 1000, "");
    assert_true(wire_is_ended(w));
    served_await(&n_gone, 1);
    wire_close(w);
}

TEST(hears_of_clients_that_vanish, open_streams, close_streams)
{
    for (int i = 0; i < 20; i++) {
        struct wire *w = opened(i % 3 ? NULL : "resourcesync.xml");

        if (i % 2)
            wire_abort(w);
        else
            wire_close(w);
    }
    served_await(&n_gone, 20);
}

/* Full speed, until the socket takes no more. */
static uint8_t large[STREAM_FRAME_MAX];
static atomic_uint n_written;
static bool is_choked;

static void
write_until_choked(void)
{
    enum stream_result result = STREAM_SENT;
    size_t n = stream_frame_header(large, sizeof(large) - 10, true, true);

    assert_int_equal(n, 4);
    for (int i = 0; i < 1000 && result == STREAM_SENT; i++) {
        result = stream_write(last, large, n + sizeof(large) - 10);
        atomic_fetch_add(&n_written, 1);
    }
    is_choked = result == STREAM_CHOKED;
}

TEST(says_when_there_is_room_again, open_streams, close_streams)
{
    struct wire *w = NULL;
    struct wire_answer a;
    struct wire_frame f;

    served.stream_handlers = &quiet;
    memset(large, 'y', sizeof(large));
    atomic_store(&n_written, 0);
    w = served_connect_narrow();
    assert_true(wire_upgrade(w, "/stream", NULL, &a));
    served_await(&n_opened, 1);

    for (unsigned round = 1; round <= 3; round++) {
        served_on_service(write_until_choked);
        assert_true(is_choked);
        assert_int_equal(atomic_load(&n_rooms), round - 1);
        served_assert_alive();
        for (unsigned i = atomic_load(&n_written); i; i--) {
            assert_true(wire_frame(w, &f));
            assert_int_equal(f.opcode, WIRE_TEXT);
            assert_int_equal(f.size, sizeof(large) - 10);
            assert_int_equal(f.payload[f.size - 1], 'y');
        }
        served_await(&n_rooms, round);
        atomic_store(&n_written, 0);
    }
    wire_close(w);
}

static void
want_room(void)
{
    stream_want_room(last);
}

TEST(gives_room_when_asked, open_streams, close_streams)
{
    struct wire *w = opened(NULL);

    served_on_service(want_room);
    served_await(&n_rooms, 1);
    wire_close(w);
}

/* A farewell behind a frame that is stuck: the frame first, whole. */
TEST(closes_behind_what_was_begun, open_streams, close_streams)
{
    struct wire *w = NULL;
    struct wire_answer a;
    struct wire_frame f;
    unsigned n = 0;

    served.stream_handlers = &quiet;
    atomic_store(&n_written, 0);
    w = served_connect_narrow();
    assert_true(wire_upgrade(w, "/stream", NULL, &a));
    served_await(&n_opened, 1);
    served_on_service(write_until_choked);
    served_on_service(close_4410);

    while (wire_frame(w, &f) && f.opcode == WIRE_TEXT)
        n++;
    assert_int_equal(n, atomic_load(&n_written));
    assert_int_equal(f.opcode, WIRE_CLOSE);
    assert_int_equal(wire_close_code(&f), 4410);
    wire_close(w);
    served_await(&n_gone, 1);
}

TEST(cuts_who_does_not_even_read, open_streams, close_streams)
{
    struct wire *w = NULL;
    struct wire_answer a;

    served.stream_handlers = &quiet;
    w = served_connect_narrow();
    assert_true(wire_upgrade(w, "/stream", NULL, &a));
    served_await(&n_opened, 1);
    served_on_service(write_until_choked);
    served_on_service(close_4410);

    assert_in_range(served_pass_until(&n_gone, 1), 5, 6);
    wire_close(w);
}
