#include "broker/push/eventsource.h"

#include "base/clock.h"
#include "broker/net/response.h"
#include "broker/push/wire.h"
#include "proto/resourcesync/json.h"

/* When to connect again, in milliseconds: RETRY_MS, and a random time up to
 * RETRY_SPREAD_MS more, so that a crowd does not return in one moment. */
#define RETRY_MS        1000
#define RETRY_SPREAD_MS 2000

/* Most bytes of an event without its data. */
#define EVENT_HEAD_MAX 128

/* Most bytes of the last event, with the reason why a stream ends. */
#define ENDING_MAX 8192

static enum framing
framing_of(bool is_1_0)
{
    return is_1_0 ? FRAMING_NONE : FRAMING_CHUNKS;
}

/* A line end within the message would end the data. Our JSON has only the one
 * at its end; a second one ends the event. */
void
eventsource_wrap(struct buf *to, const struct message *message,
                 const struct transport *transport)
{
    const struct coverage *c = &message->covered;
    char position[POSITION_MAX], head[EVENT_HEAD_MAX];
    struct slice part = {head, 0};
    struct wire wire;

    position_write(position, c->epoch, c->last);
    part.size = (size_t)snprintf(
        head, sizeof(head),
        "%s%s%sevent: %s\ndata: ", transport->is_of_many ? "" : "id: ",
        transport->is_of_many ? "" : position,
        transport->is_of_many ? "" : "\n",
        c->now_us == DATETIME_NONE ? "changes" : "heartbeat");
    wire_begin(&wire, to, framing_of(transport->is_1_0),
               part.size + message->size + 1);
    wire_add(&wire, part);
    wire_add_message(&wire, message);
    wire_add(&wire, SLICE("\n"));
}

void
eventsource_note(struct buf *to, const char *event, struct slice json,
                 struct slice id, bool is_1_0)
{
    struct buf text;

    buf_init(&text, STREAM_FRAME_MAX);
    if (id.size > 0) {
        BUF_ADD(&text, "id: ");
        buf_add_slice(&text, id);
        BUF_ADD(&text, "\n");
    }
    if (event) {
        buf_add_format(&text, "event: %s\ndata: ", event);
        buf_add_slice(&text, json);
        BUF_ADD(&text, "\n");
    }
    BUF_ADD(&text, "\n");
    wire_text(to, framing_of(is_1_0), buf_slice(&text));
    buf_fini(&text);
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
eventsource_accept(struct request *rq, const struct stream_handlers *handlers,
                   void *user)
{
    struct response r;
    struct buf opening;
    char retry[40];
    struct slice line = {retry, 0};

    line.size = (size_t)snprintf(
        retry, sizeof(retry), "retry: %u\n\n",
        RETRY_MS + (unsigned)(clock_steady_us() % RETRY_SPREAD_MS));
    buf_init(&opening, 2 * sizeof(retry));
    wire_text(&opening, framing_of(rq->is_1_0), line);
    eventsource_head(&r);
    request_accept_long(rq, &r, buf_slice(&opening), handlers, user);
    buf_fini(&opening);
}

/* Closing */

/* Sends an event with the reason, and ends the chunks. Within an event that
 * would become a part of it; so there the answer ends without its last chunk,
 * and the client sees that it is cut off. */
void
eventsource_close(struct stream *stream, const struct ending *ending,
                  const char *event, bool is_1_0)
{
    bool is_gone = ending->code == CLOSE_POSITION_GONE;
    struct buf json, wire;

    if (ending->is_within) {
        stream_end(stream, NULL, 0);
        return;
    }
    buf_init(&json, ENDING_MAX);
    buf_init(&wire, ENDING_MAX);
    BUF_ADD(&json, "{\"detail\":");
    json_text(&json, slice_of(ending->reason));
    buf_add_text(&json, ending->members ? ending->members : "");
    BUF_ADD(&json, "}");
    eventsource_note(&wire, event, buf_slice(&json),
                     slice_of(is_gone ? EVENTSOURCE_GONE_ID : ""), is_1_0);
    if (!is_1_0)
        BUF_ADD(&wire, STREAM_CHUNK_LAST);
    stream_end(stream, wire.data, wire.size);
    buf_fini(&json);
    buf_fini(&wire);
}
