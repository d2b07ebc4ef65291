#include "broker/net/stream.h"

#include <stdlib.h>
#include <string.h>

#include <libwebsockets.h>

#include "broker/base/clock.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/net/connection.h"
#include "broker/net/exchange.h"
#include "broker/net/service.h"

/* What a client may send in one message; we read none of it. */
#define MESSAGE_MAX 65536

#define REASON_MAX 123

struct stream {
    struct connection *connection;
    const struct stream_handlers *handlers;
    void *user;
    bool is_accepted; /* libwebsockets will say what we would say */
    bool is_long;     /* an HTTP answer */
    bool is_open;     /* HTTP: on_open was called */
    bool is_waiting;  /* for room */
    bool is_closing;  /* nothing may be written any more */
    size_t received;  /* of the client's message at hand */
};

/* The library answers with the first of the client's subprotocols that stands
 * in its table of protocols (context.c); other than that cannot be said. */
static bool
is_what_is_said(struct request *rq, const char *subprotocol)
{
    const char *const *known = context_subprotocols();
    struct slice list = {NULL, 0};

    if (!request_header(rq, "sec-websocket-protocol", &list))
        return !subprotocol;
    while (list.size) {
        size_t skip = 0, size = 0;

        while (skip < list.size && strchr(" \t,", list.data[skip]))
            skip++;
        while (skip + size < list.size &&
               !strchr(" \t,", list.data[skip + size]))
            size++;
        for (size_t i = 0; known[i]; i++)
            if (slice_is((struct slice){list.data + skip, size}, known[i]))
                return subprotocol && !strcmp(subprotocol, known[i]);
        list.data += skip + size;
        list.size -= skip + size;
    }
    return false;
}

/* The stream that answers a request; NULL: no memory, and all is said. */
static struct stream *
begin(struct request *rq, const struct stream_handlers *handlers, void *user)
{
    struct connection *c = rq->connection;
    struct stream *stream = calloc(1, sizeof(*stream));

    rq->is_answered = true;
    ticket_drop(rq);
    if (!stream) {
        connection_kill(c);
        handlers->on_gone(NULL, user);
        return NULL;
    }
    stream->connection = c;
    stream->handlers = handlers;
    stream->user = user;
    c->stream = stream;
    return stream;
}

void
request_accept_stream(struct request *rq, const char *subprotocol,
                      const struct stream_handlers *handlers, void *user)
{
    struct stream *stream = begin(rq, handlers, user);

    if (!stream)
        return;
    stream->is_accepted = is_what_is_said(rq, subprotocol);
    if (!stream->is_accepted)
        diag(DIAG_ERROR, "net", "a subprotocol that cannot be chosen");
}

void
request_accept_long(struct request *rq, const struct response *head,
                    struct slice opening,
                    const struct stream_handlers *handlers, void *user)
{
    struct stream *stream = begin(rq, handlers, user);

    if (!stream)
        return;
    stream->is_long = true;
    connection_enter(rq->connection, PHASE_LONG, 0);
    /* Until it opens: its owner, who has yet to say how it ends, does not know
     * it before, so the end of the server waits for that. */
    connection_set_busy(rq->connection, true);
    answer_begin_long(rq, head, opening);
}

bool
stream_is_accepted(const struct connection *c)
{
    return c->stream->is_accepted;
}

/* What the library calls back for */

int
stream_opened(struct connection *c)
{
    struct stream *s = c->stream;

    if (!s || c->phase != PHASE_STREAM)
        return -1;
    s->handlers->on_open(s, s->user);
    return c->phase == PHASE_GONE ? -1 : 0;
}

int
stream_received(struct connection *c, size_t size)
{
    struct stream *s = c->stream;

    if (!s || c->phase == PHASE_GONE)
        return -1;
    if (lws_is_first_fragment(c->wsi))
        s->received = 0;
    s->received += size;
    metrics_add(METRIC_RECEIVED, (int64_t)size);
    if (s->received > MESSAGE_MAX && !s->is_closing)
        stream_close(s, 1009, "a message is over 64 KB");
    return 0;
}

/* The client has sent a close frame: the answer to ours, or its own, which the
 * library answers (0) when all is sent that was begun. */
int
stream_closing(struct connection *c)
{
    if (c->phase != PHASE_STREAM)
        return -1;
    c->stream->is_closing = true;
    connection_enter(c, PHASE_FAREWELL, clock_steady_us() + FAREWELL_US);
    return 0;
}

/* Nothing of a client's is read during a long answer, and this is the only way
 * to hear of room to write all the same: open for one turn, in whose callback
 * the reading stops (FLOW_QUIET). It stays so to the end: nothing that the
 * client sends can turn the library's loop. So a long answer opens, and is
 * written to, only after that turn. */
void
stream_await_opening(struct connection *c)
{
    connection_await_room(c);
}

/* All is sent that was to be sent. */
static void
end_long(struct connection *c)
{
    connection_set_flow(c, FLOW_HELD);
    connection_linger(c);
}

int
stream_writable(struct connection *c)
{
    struct stream *s = c->stream;

    if (!s || c->phase == PHASE_GONE)
        return -1;
    if (c->phase == PHASE_LONG)
        connection_set_flow(c, FLOW_QUIET);
    if (s->is_long && !s->is_open) {
        s->is_open = true;
        connection_set_busy(c, false);
        s->handlers->on_open(s, s->user);
    } else if (s->is_waiting) {
        s->is_waiting = false;
        connection_set_busy(c, false);
        s->handlers->on_room(s, s->user);
    } else if (s->is_long && c->phase == PHASE_FAREWELL &&
               !connection_is_choked(c)) {
        end_long(c);
    }
    return c->phase == PHASE_GONE ? -1 : 0;
}

void
stream_gone(struct connection *c)
{
    struct stream *s = c->stream;

    c->stream = NULL;
    s->handlers->on_gone(s, s->user);
    free(s);
}

/* The owner's side */

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

    if (c->phase != PHASE_STREAM && c->phase != PHASE_LONG)
        return;
    stream->is_waiting = true;
    connection_set_busy(c, true);
    lws_callback_on_writable(c->wsi);
}

/* The library has ways of its own to close, but they give up what is still to
 * be sent, and as Debian builds it (with _DEBUG) the close frame as well. A
 * frame that is written goes behind what it keeps back. */
void
stream_close(struct stream *stream, unsigned code, const char *reason)
{
    struct connection *c = stream->connection;
    size_t size = reason ? strnlen(reason, REASON_MAX) : 0;
    uint8_t frame[4 + REASON_MAX] = {0x88, (uint8_t)(2 + size),
                                     (uint8_t)(code >> 8), (uint8_t)code};

    if (stream->is_closing || c->phase != PHASE_STREAM)
        return;
    stream->is_closing = true;
    stream->is_waiting = false;
    /* Whoever does not read, or does not answer, is cut by connection_check. */
    connection_enter(c, PHASE_FAREWELL, clock_steady_us() + FAREWELL_US);
    if (size)
        memcpy(frame + 4, reason, size);
    connection_write(c, frame, 4 + size);
}

void
stream_end(struct stream *stream, const void *last, size_t size)
{
    struct connection *c = stream->connection;

    if (stream->is_closing || c->phase != PHASE_LONG)
        return;
    stream->is_closing = true;
    stream->is_waiting = false;
    /* Whoever does not take it is cut by connection_check. */
    connection_enter(c, PHASE_FAREWELL, clock_steady_us() + FAREWELL_US);
    /* The end comes with the callback: held while the library still waits for
     * room, the connection would turn its loop. */
    if (!size || connection_write(c, last, size))
        lws_callback_on_writable(c->wsi);
}

size_t
stream_chunk_header(char to[STREAM_CHUNK_HEADER_MAX], size_t size)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = 0;
    int shift = 60;

    while (shift > 0 && !(size >> shift))
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        to[n++] = hex[(size >> shift) & 15];
    to[n++] = '\r';
    to[n++] = '\n';
    return n;
}

struct service *
stream_service(const struct stream *stream)
{
    return stream->connection->service;
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
