/* Requests and frames, whole and broken, one behind the other and cut anywhere:
 * the server answers the next request in any case. */
#include <sys/socket.h>
#include <unistd.h>

#include "tests/test.h"
#include "tests/unit/net/streamed.h"

#define TEXT_MAX 65536

static uint64_t state_of_chance;

/* xorshift64: the same numbers from the same seed. */
static unsigned
chance(unsigned n)
{
    state_of_chance ^= state_of_chance << 13;
    state_of_chance ^= state_of_chance >> 7;
    state_of_chance ^= state_of_chance << 17;
    return (unsigned)(state_of_chance >> 33) % n;
}

static void
add_body(struct buf *to, unsigned size)
{
    char *room = buf_room(to, size);

    if (room) {
        memset(room, 'b', size);
        to->size += size;
    }
}

static void
add_request_with_body(struct buf *to)
{
    static const char *const methods[] = {"POST", "PUT",    "GET",  "post",
                                          "HEAD", "DELETE", "PATCH"};
    static const char *const paths[] = {"/echo", "/later", "/refuse",
                                        "/refuse-data", "/never"};
    static const unsigned sizes[] = {0, 1, 3, 50, 1000, 3000, 5000, 9000};
    unsigned size = sizes[chance(8)];

    buf_add_format(to, "%s %s HTTP/1.%u\r\nContent-Length: %u\r\n%s" HEAD_END,
                   methods[chance(chance(2) ? 2 : 7)], paths[chance(5)],
                   chance(10) ? 1 : 0, size,
                   chance(10) ? "" : "Expect: 100-continue\r\n");
    add_body(to, chance(5) ? size : size / 2);
}

static void
add_frame(struct buf *to)
{
    unsigned size = chance(3) ? chance(126) : chance(4000);
    uint8_t head[8] = {0};
    size_t n = 0;

    head[n++] = (uint8_t)((chance(4) ? 0x80 : 0) | (chance(20) ? 0 : 0x40) |
                          (chance(3) ? 1 + chance(2) : chance(16)));
    if (size < 126) {
        head[n++] = (uint8_t)((chance(20) ? 0x80 : 0) | size);
    } else {
        head[n++] = 0x80 | 126;
        head[n++] = (uint8_t)(size >> 8);
        head[n++] = (uint8_t)size;
    }
    buf_add(to, head, n);
    buf_add(to, "\1\2\3\4", 4);
    add_body(to, size);
}

static void
add_upgrade(struct buf *to)
{
    buf_add_format(to,
                   "GET /stream HTTP/1.1\r\nUpgrade: %s\r\n"
                   "Connection: Upgrade\r\n%s"
                   "Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n"
                   "Sec-WebSocket-Version: 13\r\n" HEAD_END,
                   chance(6)   ? "websocket"
                   : chance(2) ? "h2c"
                               : "foo",
                   chance(2) ? ""
                             : "Sec-WebSocket-Protocol: resourcesync.xml\r\n");
}

static void
add_noise(struct buf *to)
{
    for (unsigned n = chance(200); n; n--) {
        char c = (char)chance(256);

        buf_add(to, &c, 1);
    }
}

static void
add_piece(struct buf *to)
{
    static const char *const texts[] = {
        GET("/small"),
        GET("/later"),
        GET("/never"),
        GET("/big?size=200000"),
        GET("/pool?size=200000"),
        GET("/broken?size=200000"),
        GET("/long"),
        "GET /long HTTP/1.0\r\nConnection: keep-alive\r\n" HEAD_END,
        "POST /echo HTTP/1.1\r\n" HEAD_END,
        "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD_END
        "3\r\nabc\r\n0\r\n\r\n",
        POST("/echo", "-1") "abc",
        "PATCH /echo HTTP/1.1\r\n" HEAD_END "abc",
        "CONNECT a:1 HTTP/1.1\r\n" HEAD_END,
        "TRACE / HTTP/1.1\r\n" HEAD_END,
        "OPTIONS * HTTP/1.1\r\n" HEAD_END,
        "\r\n",
    };

    switch (chance(10)) {
    case 0:
    case 1:
    case 2:
        buf_add_text(to, texts[chance(5)]);
        break;
    case 3:
    case 4:
    case 5:
        add_request_with_body(to);
        break;
    case 6:
        add_upgrade(to);
        for (unsigned n = chance(4); n; n--)
            add_frame(to);
        break;
    case 7:
        add_frame(to);
        break;
    case 8:
        buf_add_text(to, texts[chance(16)]);
        break;
    default:
        if (chance(2)) {
            add_noise(to);
            break;
        }
        buf_add_text(to, "GET /small HTTP/1.1\r\nX-Long: ");
        add_body(to, chance(20000));
        buf_add_text(to, "\r\n" HEAD_END);
    }
}

static void
greet(struct stream *stream, void *user)
{
    stream_write(stream, "\x81\x02hi", 4);
    if (!(service_number(user) % 2))
        stream_close(stream, 1000, "enough");
}

static void
greet_long(struct stream *stream, void *user)
{
    stream_write(stream, "2\r\nhi\r\n", 7);
    if (!(service_number(user) % 2))
        stream_end(stream, STREAM_CHUNK_LAST, strlen(STREAM_CHUNK_LAST));
}

static const struct stream_handlers streams = {greet, streamed_ignore,
                                               streamed_ignore};
static const struct stream_handlers longs = {greet_long, streamed_ignore,
                                             streamed_ignore};

/* One connection: a few pieces, cut at a few places, its end polite or not. */
static void
talk(void)
{
    /* Over TLS some do not begin it, and some go on without it. */
    bool is_rude = served_way == SERVED_TLS && !chance(10);
    struct wire *w = is_rude ? served_dial() : served_connect();
    struct buf text;
    size_t at = 0;
    char some[4096];

    buf_init(&text, TEXT_MAX);
    if (is_rude && chance(2))
        buf_add(&text, "\x16\x03\x01\x00", 1 + chance(4));
    for (unsigned n = 1 + chance(5); n; n--)
        add_piece(&text);
    wire_set_wait(w, 0);
    for (unsigned cuts = chance(5); at < text.size;
         cuts = cuts ? cuts - 1 : 0) {
        size_t n =
            cuts ? chance((unsigned)(text.size - at) + 1) : text.size - at;

        if (!wire_send(w, text.data + at, n))
            break;
        at += n;
        if (chance(3) == 0)
            served_turn(); /* another cut */
    }
    if (served_way == SERVED_TLS && !chance(20))
        (void)!send(wire_fd(w), text.data, text.size,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    if (!chance(3))
        served_turn();
    wire_read_some(w, some, sizeof(some));
    if (chance(4))
        wire_close(w);
    else
        wire_abort(w);
    buf_fini(&text);
}

static int
open_with_streams(void **state)
{
    served_open(state);
    served.stream_handlers = &streams;
    served.long_handlers = &longs;
    return 0;
}

FIXTURE(open_with_streams, served_close);
SERVED_GROUPS;

TEST(answers_after_whatever_was_sent)
{
    unsigned long n = test_size(600, 20000);

    state_of_chance = test_seed() * 20261120 | 1;
    for (unsigned long i = 0; i < n; i++) {
        talk();
        if (i % 25 == 0) {
            served_assert_alive();
            served_pass_seconds(1); /* the server notices closed connections */
        }
    }
    served_assert_alive();
    served_pass_until(&served.n_open, 0);
    served_pass_until(&served.n_bodies, 0);
}
