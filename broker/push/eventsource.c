#include "broker/push/eventsource.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "broker/net/response.h"
#include "proto/json.h"

/* A full chunk has STREAM_FRAME_MAX bytes with what is around it: "fff8\r\n"
 * and "\r\n". */
#define PAYLOAD_MAX (STREAM_FRAME_MAX - 8)

/* When to connect again, in milliseconds: RETRY_MS, and a random time up to
 * RETRY_SPREAD_MS more, so that a crowd does not return in one moment. */
#define RETRY_MS        1000
#define RETRY_SPREAD_MS 2000

/* Most bytes of an event without its data. */
#define EVENT_HEAD_MAX 128

/* Most bytes of the last event, with the reason why a stream ends. */
#define ENDING_MAX 8192

/* Appends `parts`, one after the other, as they are. */
static void
add_plain(struct buf *to, const struct slice *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_add_slice(to, parts[i]);
}

/* Appends `parts`, which are not all empty, as chunks. All but the last are as
 * large as possible, so a position in the bytes determines its chunk. */
static void
add_chunked(struct buf *to, const struct slice *parts, size_t n)
{
    size_t total = 0, from = 0;

    for (size_t i = 0; i < n; i++)
        total += parts[i].size;
    while (total > 0) {
        char header[STREAM_CHUNK_HEADER_MAX];
        size_t left = total < PAYLOAD_MAX ? total : PAYLOAD_MAX;

        total -= left;
        buf_add(to, header, stream_chunk_header(header, left));
        while (left > 0) {
            size_t rest = parts->size - from;
            size_t size = rest < left ? rest : left;

            buf_add(to, parts->data + from, size);
            left -= size;
            from += size;
            if (from == parts->size) {
                parts++;
                from = 0;
            }
        }
        BUF_ADD(to, STREAM_CHUNK_END);
    }
}

typedef void add_fn(struct buf *to, const struct slice *parts, size_t n);

static void
wrap(struct buf *to, struct slice message, const struct envelope *envelope,
     add_fn *add)
{
    char head[EVENT_HEAD_MAX];
    struct slice parts[] = {{head, 0}, message, SLICE("\n\n")};

    /* A line end within the message would end the data. Our JSON has only the
     * one at its end. */
    if (message.size > 0 && message.data[message.size - 1] == '\n')
        parts[1].size--;
    assert(!memchr(parts[1].data, '\n', parts[1].size));
    assert(!memchr(parts[1].data, '\r', parts[1].size));

    parts[0].size = (size_t)snprintf(
        head, sizeof(head), "id: %s\nevent: %s\ndata: ", envelope->position,
        envelope->is_heartbeat ? "heartbeat" : "changes");
    add(to, parts, 3);
}

void
eventsource_wrap_chunked(struct buf *to, struct slice message,
                         const struct envelope *envelope)
{
    wrap(to, message, envelope, add_chunked);
}

void
eventsource_wrap_plain(struct buf *to, struct slice message,
                       const struct envelope *envelope)
{
    wrap(to, message, envelope, add_plain);
}

/* no-store: each answer to the same request differs, and would fill a cache.
 * nginx would hold events back until its buffer is full. */
void
eventsource_head(struct response *r)
{
    response_init(r, 200, "text/event-stream");
    r->is_long = true;
    response_header(r, "Cache-Control", "no-store");
    response_header(r, "X-Accel-Buffering", "no");
}

void
eventsource_accept(struct request *rq, const struct stream_terms *terms,
                   const struct stream_handlers *handlers, void *user)
{
    struct response r;
    struct buf opening;
    char retry[40];
    struct slice part = {retry, 0};

    (void)terms;
    part.size = (size_t)snprintf(
        retry, sizeof(retry), "retry: %u\n\n",
        RETRY_MS + (unsigned)(clock_steady_us() % RETRY_SPREAD_MS));
    buf_init(&opening, 2 * sizeof(retry));
    (request_is_1_0(rq) ? add_plain : add_chunked)(&opening, &part, 1);
    eventsource_head(&r);
    request_accept_long(rq, &r, buf_slice(&opening), handlers, user);
    buf_fini(&opening);
}

/* Closing */

/* A client that connects again after "removed" gets 410, or the set that was
 * made anew. */
static const char *
event_of(unsigned code)
{
    switch (code) {
    case CLOSE_POSITION_GONE:
        return "gone";
    case CLOSE_SET_REMOVED:
        return "removed";
    case CLOSE_GOING_AWAY:
        return "farewell";
    default:
        return "failed";
    }
}

/* Sends an event with the reason, and then `last`. Within an event that would
 * become a part of it; so there the answer ends without its last chunk, and the
 * client sees that it is cut off. */
static void
end(struct stream *stream, const struct ending *ending, add_fn *add,
    const char *last)
{
    bool is_gone = ending->code == CLOSE_POSITION_GONE;
    const char *event = event_of(ending->code);
    struct buf text, wire;
    struct slice part;

    if (ending->is_within) {
        stream_end(stream, NULL, 0);
        return;
    }
    buf_init(&text, ENDING_MAX);
    buf_init(&wire, ENDING_MAX);
    if (is_gone)
        BUF_ADD(&text, "id: " EVENTSOURCE_GONE_ID "\n");
    buf_add_format(&text, "event: %s\ndata: {\"detail\":", event);
    json_string(&text, slice_of(ending->reason));
    buf_add_format(&text, "%s}\n\n", ending->members ? ending->members : "");
    part = buf_slice(&text);
    add(&wire, &part, 1);
    buf_add_slice(&wire, slice_of(last));
    if (text.failed || wire.failed)
        wire.size = 0;
    stream_end(stream, wire.data, wire.size);
    buf_fini(&text);
    buf_fini(&wire);
}

void
eventsource_close_chunked(struct stream *stream, const struct ending *ending)
{
    end(stream, ending, add_chunked, STREAM_CHUNK_LAST);
}

void
eventsource_close_plain(struct stream *stream, const struct ending *ending)
{
    end(stream, ending, add_plain, "");
}
