#include "broker/net/stream.h"

#include "base/clock.h"
#include "broker/base/metrics.h"
#include "broker/net/connection.h"
#include "broker/net/exchange.h"
#include "broker/net/request.h"
#include "broker/net/response.h"
#include "broker/net/service.h"
#include "proto/http/ws_frames.h"
#include "proto/http/ws_handshake.h"

/* The longest message of a client, if nobody takes messages. */
#define DROPPED_MAX 65536

/* Not in RFC 6455, but registered: try again later. */
#define CLOSE_TRY_AGAIN 1013

#define REASON_MAX 123

enum {
    OPCODE_CLOSE = 0x88, /* includes the bit of a last frame */
    OPCODE_PONG = 0x8a
};

/* The bytes of a message that has begun. */
struct incoming_message {
    struct buf bytes;
    struct holding held;
};

struct stream {
    struct connection *connection;
    const struct stream_handlers *handlers;
    void *user;
    struct incoming_message
        *incoming;       /* NULL: in no message, or they are dropped */
    uint64_t n_messages; /* of the owner */
    bool is_long;        /* an HTTP answer */
    bool is_open;        /* on_open was called */
    bool is_waiting;     /* for room */
    bool is_closing;     /* nothing more may be written */
    bool is_closed;      /* WebSocket: the client has sent its close frame */
    struct ws_frames frames;

    /* For its end */
    struct request_end end;   /* of its request, as it began; texts below */
    int64_t began_us;         /* of the request; steady clock */
    uint64_t received_before; /* connection->received at the beginning */
    uint64_t sent_before;
    char texts[];
};

/* A log line has room for less. */
#define TEXT_MAX 1024

/* The phases of a WebSocket, of an HTTP answer, and of their ends. */
static const struct phase stream_phase, long_phase, stream_farewell,
    long_farewell;

static void
drop_incoming(struct stream *s)
{
    if (!s->incoming)
        return;
    buf_fini(&s->incoming->bytes);
    holding_end(&s->incoming->held);
    free(s->incoming);
    s->incoming = NULL;
}

static void
on_gone(struct connection *c)
{
    const struct server_options *options = &c->service->server->options;
    struct stream *s = c->stream;

    if (options->on_end) {
        s->end.entry.is_whole = s->is_closing;
        s->end.entry.n_messages = s->n_messages;
        s->end.entry.received_bytes = c->received - s->received_before;
        s->end.entry.sent_bytes = c->sent - c->out.size - s->sent_before;
        s->end.entry.duration_us = clock_steady_us() - s->began_us;
        options->on_end(&s->end, options->user);
    }
    c->stream = NULL;
    drop_incoming(s);
    s->handlers->on_gone(s, s->user);
    free(s);
}

/* Makes the stream that answers a request; NULL, after an answer: its client
 * has its share of them. */
static struct stream *
begin_stream(struct request *rq, const struct stream_handlers *handlers,
             void *user)
{
    struct request_end end;
    struct access_entry *entry = &end.entry;
    struct slice *const texts[] = {&entry->id, &entry->path, &entry->query,
                                   &entry->agent, &entry->name};
    struct connection *c = rq->connection;
    size_t size = 0, at = 0;
    struct problem why = {""};
    struct stream *stream;

    if (connection_count(c, CLIENT_STREAMS, &why)) {
        request_answer_problem(rq, 429, &why);
        handlers->on_gone(NULL, user);
        return NULL;
    }
    /* The line of the access log at the end of the stream. The texts take
     * memory for as long as the stream lives, so only a log gets them. */
    request_describe(rq, &end);
    entry->is_stream = true;
    for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
        if (!end.is_kept)
            texts[i]->size = 0;
        if (texts[i]->size > TEXT_MAX)
            texts[i]->size = TEXT_MAX;
        size += texts[i]->size;
    }
    stream = memory_new(1, sizeof(*stream) + size);
    for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
        size = texts[i]->size;
        if (size > 0)
            memcpy(stream->texts + at, texts[i]->data, size);
        texts[i]->data = stream->texts + at;
        at += size;
    }
    stream->end = end;
    stream->began_us = rq->began_us;
    stream->received_before = rq->received_before;
    stream->sent_before = rq->sent_before;
    rq->is_answered = true;
    ticket_drop(rq);
    rq->is_ended = true;
    stream->connection = c;
    stream->handlers = handlers;
    stream->user = user;
    c->stream = stream;
    c->on_gone = on_gone;
    return stream;
}

void
request_accept_stream(struct request *rq, const struct stream_terms *terms,
                      const struct stream_handlers *handlers, void *user)
{
    struct stream *stream = begin_stream(rq, handlers, user);
    char key[UPGRADE_KEY_SIZE] = "", accept[UPGRADE_ACCEPT_SIZE];
    struct slice sent = {NULL, 0};

    if (!stream)
        return;
    ws_frames_init(&stream->frames,
                   handlers->on_message ? STREAM_MESSAGE_MAX : DROPPED_MAX,
                   terms->deflate != NULL);
    if (request_header(rq, "sec-websocket-key", &sent) &&
        sent.size < sizeof(key))
        memcpy(key, sent.data, sent.size);
    upgrade_accept(accept, key);
    stream->end.entry.status = 101;
    connection_enter(rq->connection, &stream_phase, 0);
    response_upgrade(rq, accept, terms);
}

void
request_accept_long(struct request *rq, const struct response *head,
                    struct slice opening,
                    const struct stream_handlers *handlers, void *user)
{
    struct stream *stream = begin_stream(rq, handlers, user);

    if (!stream)
        return;
    stream->is_long = true;
    stream->end.entry.status = head->status;
    connection_enter(rq->connection, &long_phase, 0);
    /* Until it opens: the owner must close it, but does not know it yet, so
     * the end of the server waits for that. */
    connection_set_busy(rq->connection, true);
    response_begin_long(rq, head, opening);
}

static void
open_stream(struct connection *c)
{
    struct stream *s = c->stream;

    if (s->is_open || s->is_closing)
        return;
    s->is_open = true;
    if (s->is_long)
        connection_set_busy(c, false);
    s->handlers->on_open(s, s->user);
}

void
stream_begin(struct connection *c)
{
    if (c->stream->is_long)
        list_put(&c->service->ready, &c->ready);
    else
        open_stream(c);
}

/* Frames of clients */

static void
send_control(struct connection *c, uint8_t opcode, const char *payload,
             size_t size)
{
    uint8_t frame[2 + WS_CONTROL_MAX] = {opcode, (uint8_t)size};

    memcpy(frame + 2, payload, size);
    connection_write(c, frame, 2 + size);
}

/* The client has sent a close frame of its own, which gets an answer with the
 * same code, or the answer to ours. The connection ends behind all bytes
 * written before. */
static void
on_close(struct connection *c, const struct ws_frame *frame)
{
    struct stream *s = c->stream;

    s->is_closed = true;
    if (c->phase == &stream_farewell) {
        if (!connection_is_choked(c))
            connection_kill(c);
        return;
    }
    stream_close(s, frame->code, NULL);
    if (c->phase == &stream_farewell && !connection_is_choked(c))
        connection_linger(c);
}

/* Reads frames. Where the owner takes messages, their bytes are kept until the
 * end of each. */
static enum ws_frames_next
read_frames(struct connection *c, struct slice *bytes, struct ws_frame *frame)
{
    struct stream *s = c->stream;
    struct incoming_message *in = s->incoming;

    if (!s->handlers->on_message || c->phase != &stream_phase)
        return ws_frames_read(&s->frames, bytes, NULL, frame);
    if (!in) {
        in = memory_new(1, sizeof(*in));
        buf_init(&in->bytes, STREAM_MESSAGE_MAX);
        holding_init(&in->held, c->service->server->clients,
                     c->owner ? c->owner : c->client, CLIENT_POSTS);
        s->incoming = in;
    }
    return ws_frames_read(&s->frames, bytes, &in->bytes, frame);
}

static void
count_received(struct connection *c, size_t size)
{
    metrics_add(METRIC_RECEIVED, (int64_t)size);
    c->received += size;
}

/* Of several pings at once the last one is answered (RFC 6455 section 5.5.3).
 * After a message the connection decides whether to read on. */
static size_t
take_frames(struct connection *c, struct slice bytes)
{
    struct stream *s = c->stream;
    struct incoming_message *in;
    struct slice rest = bytes;
    struct ws_frame frame, ping = {.size = 0};
    bool is_pinged = false;

    for (;;) {
        enum ws_frames_next next = read_frames(c, &rest, &frame);

        switch (next) {
        case WS_FRAMES_PING:
            ping = frame;
            is_pinged = true;
            break;
        case WS_FRAMES_PONG:
            break;
        case WS_FRAMES_CLOSE:
            count_received(c, bytes.size);
            on_close(c, &frame);
            return bytes.size;
        case WS_FRAMES_BROKEN:
            count_received(c, bytes.size);
            stream_close(s, frame.code, frame.reason);
            return bytes.size;
        case WS_FRAMES_MESSAGE:
        case WS_FRAMES_MORE:
            if (is_pinged && c->phase == &stream_phase)
                send_control(c, OPCODE_PONG, ping.payload, ping.size);
            in = s->incoming;
            if (next == WS_FRAMES_MESSAGE) {
                struct stream_message message = {.bytes = buf_slice(&in->bytes),
                                                 .is_text = frame.is_text,
                                                 .is_deflated =
                                                     frame.is_deflated};

                if (!s->is_closing)
                    s->handlers->on_message(s, &message, s->user);
                drop_incoming(s);
            } else if (in && in->bytes.size == 0) {
                drop_incoming(s);
            } else if (in && in->bytes.capacity > in->held.n &&
                       holding_add(&in->held, in->bytes.capacity - in->held.n,
                                   NULL)) {
                stream_close(s, CLOSE_TRY_AGAIN, "no room for the message");
            }
            count_received(c, bytes.size - rest.size);
            return bytes.size - rest.size;
        }
    }
}

/* A client that does not read its output is not read either: answers to its
 * pings, and to its messages, would pile up. */
static bool
is_reading(const struct connection *c)
{
    const struct stream *s = c->stream;

    return !connection_is_choked(c) &&
           !(s->handlers->is_behind && s->handlers->is_behind(s->user));
}

static void
send_more(struct connection *c)
{
    struct stream *s = c->stream;

    if (!s->is_waiting)
        return;
    s->is_waiting = false;
    connection_set_busy(c, false);
    s->handlers->on_room(s, s->user);
}

/* All output was sent. A WebSocket awaits the client's close frame. */
static void
end_farewell(struct connection *c)
{
    if (c->stream->is_long || c->stream->is_closed)
        connection_linger(c);
}

static void
check_long(struct connection *c, int64_t now_us)
{
    if (!connection_check_peer(c))
        return;
    if (c->socket.is_writing)
        connection_check_sending(c, now_us);
    else
        c->measured_us = 0;
}

static const struct phase stream_phase = {
    .take = take_frames,
    .is_reading = is_reading,
    .send = send_more,
    .check = connection_check_sending,
    .is_untimed = true,
    .is_good_end = true,
};

static const struct phase long_phase = {
    .send = send_more,
    .check = check_long,
};

static const struct phase stream_farewell = {
    .take = take_frames,
    .send = end_farewell,
    .check = connection_check_deadline,
    .is_busy = true,
    .is_good_end = true,
};

bool
stream_proceed(struct connection *c)
{
    if (c->phase != &long_phase)
        return false;
    open_stream(c);
    return true;
}

static const struct phase long_farewell = {
    .send = end_farewell,
    .check = connection_check_deadline,
    .is_busy = true,
    .is_good_end = true,
};

/* For owners */

enum stream_result
stream_write(struct stream *stream, const void *frame, size_t size)
{
    struct connection *c = stream->connection;

    if (stream->is_closing || !connection_write(c, frame, size))
        return STREAM_DEAD;
    if (!connection_is_choked(c))
        return STREAM_SENT;
    stream_want_room(stream);
    return STREAM_CHOKED;
}

void
stream_want_room(struct stream *stream)
{
    struct connection *c = stream->connection;

    if (c->phase != &stream_phase && c->phase != &long_phase)
        return;
    stream->is_waiting = true;
    connection_set_busy(c, true);
    connection_await_room(c);
}

/* The farewell's deadline cuts a client that does not read, or does not answer.
 */
static void
begin_farewell(struct stream *stream, const struct phase *farewell)
{
    stream->is_closing = true;
    stream->is_waiting = false;
    connection_enter(stream->connection, farewell,
                     clock_steady_us() + FAREWELL_US);
}

void
stream_count_message(struct stream *stream)
{
    stream->n_messages++;
}

void
stream_read_on(struct stream *stream)
{
    connection_read_on(stream->connection);
}

bool
stream_is_denied(const struct stream *stream, int64_t now_us)
{
    return authority_is_over(stream->connection->authority, now_us);
}

void
stream_close(struct stream *stream, unsigned code, const char *reason)
{
    struct connection *c = stream->connection;
    size_t size = reason ? strnlen(reason, REASON_MAX) : 0;
    char payload[2 + REASON_MAX] = {(char)(code >> 8), (char)code};

    if (stream->is_closing || c->phase != &stream_phase)
        return;
    begin_farewell(stream, &stream_farewell);
    if (size)
        memcpy(payload + 2, reason, size);
    send_control(c, OPCODE_CLOSE, payload,
                 code == WS_CLOSE_NONE ? 0 : 2 + size);
}

void
stream_end(struct stream *stream, const void *last, size_t size)
{
    struct connection *c = stream->connection;

    if (stream->is_closing || c->phase != &long_phase)
        return;
    begin_farewell(stream, &long_farewell);
    if ((!size || connection_write(c, last, size)) && !connection_is_choked(c))
        connection_linger(c);
}

size_t
stream_chunk_header(char to[STREAM_CHUNK_HEADER_MAX], size_t size)
{
    return (size_t)snprintf(to, STREAM_CHUNK_HEADER_MAX, "%zx\r\n", size);
}

/*
 *  0                   1                   2                   3
 * +-+-+-+-+-------+-+-------------+-------------------------------+
 * |F|R|R|R| opcode|M| Payload len |    Extended payload length    |
 * |I|S|S|S|  (4)  |A|     (7)     |             (16/64)           |
 * |N|V|V|V|       |S|             |   (if payload len==126/127)   |
 * +-+-+-+-+-------+-+-------------+-------------------------------+
 */
size_t
stream_frame_header(uint8_t to[STREAM_FRAME_HEADER_MAX], size_t size,
                    bool is_first, bool is_last)
{
    size_t n = 2;

    to[0] = (uint8_t)((is_last ? 0x80 : 0) | (is_first ? 1 : 0));
    if (size < 126) {
        to[1] = (uint8_t)size;
        return n;
    }
    to[1] = size < 65536 ? 126 : 127;
    for (int shift = size < 65536 ? 8 : 56; shift >= 0; shift -= 8)
        to[n++] = (uint8_t)((uint64_t)size >> shift);
    return n;
}
