#include "tests/bench/subscriber.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/publisher.h"
#include "tests/bench/socket.h"

#define NARROW_BYTES 4096

/* The most bytes that one read takes. */
#define READ_BYTES ((size_t)512 << 10)

/* No frame is larger: more waiting means that the framing is broken. */
#define FRAME_MAX ((size_t)64 << 20)

/* Shared by all: the program has one thread. */
static char read_buffer[READ_BYTES];

static void
rest_add(struct rest *r, const char *data, size_t size)
{
    if (r->size + size > r->capacity) {
        r->capacity = (r->size + size) * 2;
        r->data = bench_memory(realloc(r->data, r->capacity));
    }
    memcpy(r->data + r->size, data, size);
    r->size += size;
}

static void
rest_free(struct rest *r)
{
    free(r->data);
    *r = (struct rest){NULL};
}

/* Counting */

static uint64_t
digits(const char *at, unsigned n)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < n; i++)
        value = value * 10 + (uint64_t)(at[i] - '0');
    return value;
}

/* false: the entry had come before. */
static bool
is_new(struct subscriber *s, const char *mark)
{
    uint64_t publisher = digits(mark, ENTRY_NUMBER);
    uint64_t number = digits(mark + ENTRY_NUMBER, 14);

    if (publisher >= SUBSCRIBER_PUBLISHERS_MAX)
        bench_fail("an entry of publisher %u came", (unsigned)publisher);
    if (number < s->next[publisher])
        return false;
    s->next[publisher] = number + 1;
    return true;
}

/* Counts the entries in some bytes. Entries of one post bear the same time,
 * which then counts once. Returns the number of bytes before an entry of which
 * the end is missing, or may be. */
static size_t
count_entries(struct subscriber *s, const char *data, size_t size,
              uint64_t now_ns)
{
    const size_t mark = strlen(ENTRY_MARK), whole = mark + ENTRY_BYTES_MIN / 2;
    struct receipts *r = s->receipts;
    const char *at = data, *end = data + size, *time = NULL, *next;

    while ((next = memmem(at, (size_t)(end - at), ENTRY_MARK, mark))) {
        if ((size_t)(end - next) < whole)
            return (size_t)(next - data);
        at = next + whole;
        next += mark;
        if (is_new(s, next))
            r->entries++;
        else
            r->repeated++;
        if (r->delay && (!time || memcmp(next + ENTRY_TIME, time, 19) != 0)) {
            time = next + ENTRY_TIME;
            histogram_add(r->delay, now_ns - digits(time, 19));
        }
    }
    return (size_t)(end - at) < mark ? (size_t)(at - data) : size - mark + 1;
}

static void
count_message(struct subscriber *s, const char *message, size_t size,
              uint64_t now_ns)
{
    uint64_t before = s->receipts->entries;

    count_entries(s, message, size, now_ns);
    s->receipts->messages += s->receipts->entries > before;
}

/* Framing */

struct frame {
    bool is_last;
    unsigned opcode;
    const char *payload;
    size_t payload_size;
    size_t size; /* header and payload */
};

/* Sets *f to the frame at `data`; false: it is not whole. */
static bool
frame_of(struct frame *f, const char *data, size_t size)
{
    const unsigned char *d = (const unsigned char *)data;
    size_t header = 2;

    if (size < 2)
        return false;
    if (d[1] & 0x80)
        bench_fail("a server sent a masked frame");
    f->is_last = (d[0] & 0x80) != 0;
    f->opcode = d[0] & 0x0f;
    f->payload_size = d[1];
    if (d[1] >= 126) {
        header += d[1] == 126 ? 2 : 8;
        if (size < header)
            return false;
        f->payload_size = 0;
        for (size_t i = 2; i < header; i++)
            f->payload_size = f->payload_size << 8 | d[i];
        if (f->payload_size > FRAME_MAX)
            bench_fail("a frame of %zu bytes came", f->payload_size);
    }
    f->payload = data + header;
    f->size = header + f->payload_size;
    return f->size <= size;
}

/* Answers a ping: masked by zeros, which change nothing. */
static void
send_pong(const struct subscriber *s, const struct frame *ping)
{
    char pong[6 + 125] = {(char)0x8a, (char)(0x80 | ping->payload_size)};

    if (ping->payload_size > 125)
        bench_fail("a ping of %zu bytes came", ping->payload_size);
    memcpy(pong + 6, ping->payload, ping->payload_size);
    wire_send(s->fd, pong, 6 + ping->payload_size);
}

static void
take_frame(struct subscriber *s, const struct frame *f, uint64_t now_ns)
{
    if (f->opcode == 9)
        send_pong(s, f);
    if (f->opcode > 2)
        return; /* a close is followed by the end of the connection */
    if (f->is_last && s->message.size == 0) {
        count_message(s, f->payload, f->payload_size, now_ns);
        return;
    }
    rest_add(&s->message, f->payload, f->payload_size);
    if (f->is_last) {
        count_message(s, s->message.data, s->message.size, now_ns);
        s->message.size = 0;
    }
}

/* Takes all whole frames; returns the bytes they had. */
static size_t
take_frames(struct subscriber *s, const char *data, size_t size,
            uint64_t now_ns)
{
    struct frame f;
    size_t at = 0;

    while (frame_of(&f, data + at, size - at)) {
        take_frame(s, &f, now_ns);
        at += f.size;
    }
    return at;
}

static size_t
take_some(struct subscriber *s, const char *data, size_t size, uint64_t now_ns)
{
    return s->is_websocket ? take_frames(s, data, size, now_ns)
                           : count_entries(s, data, size, now_ns);
}

static void
take_bytes(struct subscriber *s, const char *data, size_t size, uint64_t now_ns)
{
    size_t taken;

    if (s->frame.size > 0) {
        rest_add(&s->frame, data, size);
        taken = take_some(s, s->frame.data, s->frame.size, now_ns);
        s->frame.size -= taken;
        if (s->frame.size == 0)
            rest_free(&s->frame);
        else
            memmove(s->frame.data, s->frame.data + taken, s->frame.size);
        return;
    }
    taken = take_some(s, data, size, now_ns);
    if (taken < size)
        rest_add(&s->frame, data + taken, size - taken);
}

/* Connections */

static void
ask(const struct subscriber *s, unsigned port, const char *subprotocol)
{
    char request[512];
    int n = snprintf(request, sizeof(request),
                     "GET /sets/bench/stream HTTP/1.1\r\n"
                     "Host: 127.0.0.1:%u\r\nUpgrade: websocket\r\n"
                     "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                     "%s%s%s\r\n",
                     port, subprotocol ? "Sec-WebSocket-Protocol: " : "",
                     subprotocol ? subprotocol : "", subprotocol ? "\r\n" : "");

    if (wire_send(s->fd, request, (size_t)n) != n)
        bench_fail("cannot subscribe: %s", strerror(errno));
}

/* Reads the answer, and the bytes that already arrived behind it. */
static void
wait_for_answer(struct subscriber *s)
{
    size_t size = 0;
    char *end = NULL;

    while (!end) {
        ssize_t n =
            wire_receive(s->fd, read_buffer + size, READ_BYTES - 1 - size);

        if (n <= 0)
            bench_fail("no answer to a subscriber: %s", strerror(errno));
        size += (size_t)n;
        read_buffer[size] = '\0';
        end = memmem(read_buffer, size, "\r\n\r\n", 4);
    }
    if (strncmp(read_buffer, "HTTP/1.1 101", 12) != 0)
        bench_fail("a subscriber was answered with\n%s", read_buffer);
    end += 4;
    take_bytes(s, end, size - (size_t)(end - read_buffer), bench_now_ns());
}

/* Subscribes at a peer, and takes the bytes behind its answers. */
static void
greet_peer(struct subscriber *s, const struct protocol *protocol)
{
    size_t size = 0, at = 0;
    char *greeting = NULL;
    FILE *to = bench_memory(open_memstream(&greeting, &size));
    unsigned left = protocol->subscribe(to);

    fclose(to);
    if (wire_send(s->fd, greeting, size) != (ssize_t)size)
        bench_fail("cannot subscribe: %s", strerror(errno));
    free(greeting);
    size = 0;
    while (left > 0) {
        bool is_counted = false;
        size_t n;

        read_buffer[size] = '\0';
        n = protocol->answer(read_buffer + at, size - at, &is_counted);
        if (n) {
            at += n;
            left -= is_counted;
            continue;
        }
        n = (size_t)wire_receive(s->fd, read_buffer + size,
                                 READ_BYTES - 1 - size);
        if (n == 0 || n == (size_t)-1)
            bench_fail("no answer to a subscriber: %s", strerror(errno));
        size += n;
    }
    take_bytes(s, read_buffer + at, size - at, bench_now_ns());
}

void
subscriber_open(struct subscriber *s, unsigned port,
                const struct protocol *protocol, const char *subprotocol,
                bool is_narrow, struct receipts *receipts)
{
    *s = (struct subscriber){.receipts = receipts,
                             .is_websocket = !protocol->subscribe};
    s->fd = wire_connect(port, is_narrow ? NARROW_BYTES : 0);
    if (s->is_websocket) {
        ask(s, port, subprotocol);
        wait_for_answer(s);
    } else {
        greet_peer(s, protocol);
    }
    wire_set_nonblocking(s->fd);
}

void
subscriber_close(struct subscriber *s)
{
    if (s->fd < 0)
        return;
    wire_close(s->fd);
    s->fd = -1;
    rest_free(&s->frame);
    rest_free(&s->message);
}

bool
subscriber_read(struct subscriber *s)
{
    ssize_t n = wire_receive(s->fd, read_buffer, READ_BYTES);
    uint64_t before = s->receipts->entries;

    if (n < 0 && errno == EAGAIN)
        return true;
    if (n <= 0) {
        subscriber_close(s);
        return false;
    }
    take_bytes(s, read_buffer, (size_t)n, bench_now_ns());
    s->received += s->receipts->entries - before;
    s->receipts->reads += s->receipts->entries > before;
    s->receipts->bytes += (uint64_t)n;
    return true;
}
