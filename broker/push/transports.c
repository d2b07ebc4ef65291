#include "broker/push/transports.h"

#include <assert.h>

#include "broker/net/response.h"
#include "broker/push/deflater.h"
#include "broker/sets/positions.h"
#include "proto/resourcesync/json.h"

/* Frames */

/*
 * Cuts a message into the frames of its transport, while its bytes are added
 * one slice after the other.
 *
 *     slices    [header][entries of a batch    ][entries of a batch][footer]
 *     wire      [head|  payload_max     ][head|  payload_max   ][head|     ]
 *
 * All frames but the last have STREAM_FRAME_MAX bytes, so a position in the
 * bytes determines its frame.
 */

/* Most bytes of a frame's header. */
#define WIRE_HEADER_MAX STREAM_CHUNK_HEADER_MAX

/* The frames of a transport. */
enum framing {
    FRAMING_NONE,    /* the body of an answer of HTTP/1.0 */
    FRAMING_CHUNKS,  /* of HTTP/1.1 */
    FRAMING_FRAMES,  /* of a WebSocket */
    FRAMING_DEFLATED /* of a WebSocket, with a compressed message */
};

struct wire {
    struct buf *to;
    enum framing framing;
    size_t left; /* bytes to be added */
    size_t room; /* of them in this frame; 0: it is whole */
    bool is_begun;
};

/* A full frame has STREAM_FRAME_MAX bytes. A full chunk has "ff70\r\n" and
 * "\r\n" around it. A frame of a WebSocket with more than 65,535 payload bytes
 * would have a header of more than 4 bytes. */
static const struct {
    size_t payload_max;
    const char *end; /* behind each payload */
} framings[] = {
    [FRAMING_NONE] = {SIZE_MAX, ""},
    [FRAMING_CHUNKS] = {STREAM_FRAME_MAX - 8, STREAM_CHUNK_END},
    [FRAMING_FRAMES] = {STREAM_FRAME_MAX - 4, ""},
    [FRAMING_DEFLATED] = {STREAM_FRAME_MAX - 4, ""},
};

/* Begins to append a message of `size` bytes, and reserves room for all of it.
 * A failure shows in the buffer. */
static void
wire_begin(struct wire *w, struct buf *to, enum framing framing, size_t size)
{
    *w = (struct wire){.to = to, .framing = framing, .left = size};
    buf_room(to, size + (size / framings[framing].payload_max + 1) *
                            (WIRE_HEADER_MAX + strlen(framings[framing].end)));
}

/* Adds its next bytes; with the last of them the message is whole. */
static void
wire_add(struct wire *w, struct slice bytes)
{
    char header[WIRE_HEADER_MAX];

    assert(bytes.size <= w->left);
    while (bytes.size > 0) {
        size_t size = 0, max = framings[w->framing].payload_max;

        if (w->room == 0) {
            /* Writes the header of the next frame. */
            w->room = w->left < max ? w->left : max;
            if (w->framing == FRAMING_CHUNKS)
                size = stream_chunk_header(header, w->room);
            else if (w->framing != FRAMING_NONE)
                size = stream_frame_header((uint8_t *)header, w->room,
                                           !w->is_begun, w->room == w->left);
            if (w->framing == FRAMING_DEFLATED && !w->is_begun)
                header[0] |= STREAM_FRAME_DEFLATED;
            w->is_begun = true;
            buf_add(w->to, header, size);
        }
        size = bytes.size < w->room ? bytes.size : w->room;
        buf_add(w->to, bytes.data, size);
        slice_skip(&bytes, size);
        w->left -= size;
        w->room -= size;
        if (w->room == 0)
            buf_add_text(w->to, framings[w->framing].end);
    }
}

/* Appends a text as a message of its own. */
static void
wire_text(struct buf *to, enum framing framing, struct slice text)
{
    struct wire wire;

    wire_begin(&wire, to, framing, text.size);
    wire_add(&wire, text);
}

/* Adds all slices of a message. */
static void
wire_add_message(struct wire *w, const struct message *message)
{
    for (size_t i = 0; i < message->n_slices; i++)
        wire_add(w, message->slices[i]);
}

/* Which one */

/* An event stream carries JSON, unless the client asks for the lines of the
 * log, which it can hash: XML in many lines of data. */
const struct transport transport_rows[TRANSPORTS] = {
    {"websocket-json", "resourcesync.json", MESSAGE_JSON},
    {"websocket-xml", "resourcesync.xml", MESSAGE_XML},
    {"websocket-json-deflate", "resourcesync.json", MESSAGE_JSON,
     .is_deflated = true},
    {"websocket-xml-deflate", "resourcesync.xml", MESSAGE_XML,
     .is_deflated = true},
    {"eventsource", NULL, MESSAGE_JSON},
    {"eventsource-1.0", NULL, MESSAGE_JSON, .is_1_0 = true},
    {"eventsource-many", NULL, MESSAGE_JSON, .is_of_many = true},
    {"eventsource-many-1.0", NULL, MESSAGE_JSON, .is_1_0 = true,
     .is_of_many = true},
    {"eventsource-lines", NULL, MESSAGE_XML},
    {"eventsource-lines-1.0", NULL, MESSAGE_XML, .is_1_0 = true},
    {"eventsource-many-lines", NULL, MESSAGE_XML, .is_of_many = true},
    {"eventsource-many-lines-1.0", NULL, MESSAGE_XML, .is_1_0 = true,
     .is_of_many = true},
};

_Static_assert(TRANSPORTS <= SET_TRANSPORTS_MAX, "each is counted");

const struct transport *
transports_of_websocket(bool has_offer, struct slice offer, bool is_deflated)
{
    if (!has_offer)
        offer = slice_of(transport_rows[0].subprotocol);
    while (offer.size > 0) { /* a comma-separated list */
        struct slice name = slice_take_until(&offer, " \t,");

        if (name.size == 0)
            slice_skip(&offer, 1);
        for (size_t i = 0; i < TRANSPORTS; i++)
            if (transport_rows[i].subprotocol &&
                transport_rows[i].is_deflated == is_deflated &&
                slice_is(name, transport_rows[i].subprotocol))
                return &transport_rows[i];
    }
    return NULL;
}

const struct transport *
transports_of_events(bool is_1_0, bool is_of_many, enum message_form form)
{
    const struct transport *t = transport_rows;

    while (t->subprotocol || t->is_1_0 != is_1_0 ||
           t->is_of_many != is_of_many || t->form != form)
        t++;
    return t;
}

void
transports_offer(struct buf *to)
{
    const char *before = "";

    for (size_t i = 0; i < TRANSPORTS; i++) {
        if (!transport_rows[i].subprotocol || transport_rows[i].is_deflated)
            continue;
        buf_add_format(to, "%s%s", before, transport_rows[i].subprotocol);
        before = ", ";
    }
}

/* Streams */

/* When to connect again, in milliseconds: RETRY_MS, and a random time up to
 * RETRY_SPREAD_MS more, so that a crowd does not return in one moment. */
#define RETRY_MS        1000
#define RETRY_SPREAD_MS 2000

/* Most bytes of an event without its data. */
#define EVENT_HEAD_MAX 128

/* Most bytes of the last event, with the reason why a stream ends. */
#define ENDING_MAX 8192

static enum framing
framing_of(const struct transport *t)
{
    return t->subprotocol ? FRAMING_FRAMES
           : t->is_1_0    ? FRAMING_NONE
                          : FRAMING_CHUNKS;
}

/* no-store: each answer to the same request differs, and would fill a cache.
 * nginx would hold events back until its buffer is full. */
void
eventsource_head(struct response *r)
{
    response_init(r, 200, "text/event-stream", "no-store");
    r->is_long = true;
    response_header(r, "X-Accel-Buffering", "no");
}

void
transports_accept(const struct transport *t, struct request *rq,
                  const struct stream_terms *terms,
                  const struct stream_handlers *handlers, void *user)
{
    struct response r;
    char retry[40];
    struct buf opening = {.max = 2 * sizeof(retry)};
    struct slice line = {retry, 0};

    if (t->subprotocol) {
        request_accept_stream(rq, terms, handlers, user);
        return;
    }
    line.size = (size_t)snprintf(
        retry, sizeof(retry), "retry: %u\n\n",
        RETRY_MS + (unsigned)(clock_steady_us() % RETRY_SPREAD_MS));
    wire_text(&opening, framing_of(t), line);
    eventsource_head(&r);
    request_accept_long(rq, &r, buf_slice(&opening), handlers, user);
    buf_fini(&opening);
}

/* A WebSocket gets JSON with every subprotocol: it names what XML messages have
 * no words for. */
void
transports_note(const struct transport *t, struct buf *to, const char *event,
                struct slice json, struct slice id)
{
    struct buf text = {.max = STREAM_FRAME_MAX};

    if (!t->subprotocol && id.size > 0)
        buf_add_format(&text, "id: %.*s\n", SLICE_ARG(id));
    if (!t->subprotocol && event)
        buf_add_format(&text, "event: %s\ndata: ", event);
    if (t->subprotocol || event)
        buf_add_slice(&text, json);
    if (!t->subprotocol)
        buf_add_text(&text, event ? "\n\n" : "\n");
    wire_text(to, framing_of(t), buf_slice(&text));
    buf_fini(&text);
}

/* A client that connects again after "removed" gets 410, or the set that was
 * made anew. */
static const struct ending_words {
    unsigned code;
    const char *event; /* of an event stream */
    const char *reason;
} endings[] = {
    {CLOSE_POSITION_GONE, "gone", "the position is gone"},
    {CLOSE_DENIED, "denied", "the token has ended"},
    {CLOSE_SET_REMOVED, "removed", "the set was removed"},
    {CLOSE_GOING_AWAY, "farewell", "the broker is ending"},
    {CLOSE_REFUSED, "failed", "no room for a new set that matches a pattern"},
    {0, "failed", "the broker is ending"}, /* any other */
};

/* Sends an event with the reason, and ends the chunks. Within an event that
 * would become a part of it; so there the answer ends without its last chunk,
 * and the client sees that it is cut off. */
static void
close_events(const struct transport *t, struct stream *stream,
             const struct ending *ending, const char *event)
{
    struct buf json = {.max = ENDING_MAX}, wire = {.max = ENDING_MAX};

    if (ending->is_within) {
        stream_end(stream, NULL, 0);
        return;
    }
    BUF_ADD(&json, "{");
    json_text_member(&json, "detail", slice_of(ending->reason));
    buf_add_text(&json, ending->members ? ending->members : "");
    BUF_ADD(&json, "}");
    transports_note(t, &wire, event, buf_slice(&json),
                    slice_of(ending->code == CLOSE_POSITION_GONE
                                 ? EVENTSOURCE_GONE_ID
                                 : ""));
    if (!t->is_1_0)
        BUF_ADD(&wire, STREAM_CHUNK_LAST);
    stream_end(stream, wire.data, wire.size);
    buf_fini(&json);
    buf_fini(&wire);
}

void
transports_close(const struct transport *t, struct stream *stream,
                 const struct ending *ending)
{
    const struct ending_words *words = endings;
    struct ending known = *ending;

    while (words->code && words->code != known.code)
        words++;
    if (!known.reason)
        known.reason = words->reason;
    if (t->subprotocol)
        stream_close(stream, known.code, known.reason);
    else
        close_events(t, stream, &known, words->event);
}

/* Messages */

struct slice
transports_piece(struct slice wrapped, size_t offset)
{
    size_t rest = wrapped.size - offset;

    return (struct slice){wrapped.data + offset,
                          rest < STREAM_FRAME_MAX ? rest : STREAM_FRAME_MAX};
}

struct channel
transports_channel(struct set *set, unsigned number, struct deflater *deflater)
{
    return (struct channel){
        .kind = number, .set = set, .source = deflater, .end = UINT64_MAX};
}

/* Appends the lines of a message, each of which is a field of data; the first
 * one without the field's name. */
static void
split_lines(struct buf *to, const struct message *message)
{
    struct buf text = {.max = MESSAGE_MAX};
    struct slice rest;

    message_copy(message, &text);
    for (rest = buf_slice(&text); rest.size > 0;) {
        buf_add_text(to, to->size > 0 ? "data: " : "");
        buf_add_slice(to, slice_take(&rest, '\n'));
        BUF_ADD(to, "\n");
    }
    to->failed |= text.failed;
    buf_fini(&text);
}

/* A line end within JSON would end the data. Ours has only the one at its end; a
 * second one ends the event. */
void
eventsource_wrap(struct buf *to, const struct message *message,
                 const struct transport *transport)
{
    const struct coverage *c = &message->covered;
    char position[POSITION_MAX], head[EVENT_HEAD_MAX];
    struct slice part = {head, 0};
    struct buf lines = {.max = SIZE_MAX};
    bool is_xml = transport->form == MESSAGE_XML;
    struct wire wire;

    if (is_xml)
        split_lines(&lines, message);
    position_write(position, c->epoch, c->last);
    part.size = (size_t)snprintf(
        head, sizeof(head),
        "%s%s%sevent: %s\ndata: ", transport->is_of_many ? "" : "id: ",
        transport->is_of_many ? "" : position,
        transport->is_of_many ? "" : "\n",
        c->now_us == DATETIME_NONE ? "changes" : "heartbeat");
    wire_begin(&wire, to, framing_of(transport),
               part.size + (is_xml ? lines.size : message->size) + 1);
    wire_add(&wire, part);
    if (is_xml)
        wire_add(&wire, buf_slice(&lines));
    else
        wire_add_message(&wire, message);
    wire_add(&wire, SLICE("\n"));
    to->failed |= lines.failed;
    buf_fini(&lines);
}

/* The message contains everything. */
void
transports_frame(struct buf *to, const struct message *message,
                 struct deflater *deflater)
{
    struct buf text = {.max = MESSAGE_MAX}, packed = {.max = MESSAGE_MAX};
    struct wire wire;
    bool is_packed = false;

    if (deflater) {
        message_copy(message, &text);
        is_packed =
            !text.failed && deflater_pack(deflater, buf_slice(&text), &packed);
    }
    if (is_packed) { /* RFC 7692 */
        wire_text(to, FRAMING_DEFLATED, buf_slice(&packed));
    } else {
        wire_begin(&wire, to, FRAMING_FRAMES, message->size);
        wire_add_message(&wire, message);
    }
    buf_fini(&text);
    buf_fini(&packed);
}

/* A worker has a deflater of its own. */
static enum status
wrap_message(struct shared_message *shared, const struct message *message,
             enum log_patience patience, struct problem *why)
{
    const struct channel *channel = &shared->wish.channel;
    const struct transport *transport = &transport_rows[channel->kind];
    struct deflater own = {NULL};
    struct buf wire = {.max = SIZE_MAX};

    if (message->size > 0 && !transport->subprotocol)
        eventsource_wrap(&wire, message, transport);
    else if (message->size > 0)
        transports_frame(&wire, message,
                         !transport->is_deflated  ? NULL
                         : patience == LOG_MEMORY ? channel->source
                                                  : &own);
    deflater_fini(&own);
    if (wire.failed) {
        buf_fini(&wire);
        return problem_memory(why);
    }
    shared->last = message->last;
    shared->committed_us = message->committed_us;
    shared->size = wire.size;
    shared->data = wire.data; /* taken over */
    return STATUS_OK;
}

enum status
transports_make(struct shared_message *shared, enum log_patience patience,
                struct problem *why)
{
    const struct shared_wish *wish = &shared->wish;
    struct set *set = wish->channel.set;
    struct message_wish content = {
        .set = set,
        .form = transport_rows[wish->channel.kind].form,
        .after = wish->after,
        .upto = wish->upto,
        .filter = wish->filter,
        .reached = wish->reached,
        .is_silent = wish->filter != NULL,
        .max_bytes = set->registry->config->message_bytes,
        .patience = patience,
        .is_heartbeat = wish->is_heartbeat,
    };
    struct message message;
    enum status rc = STATUS_OK;

    if (wish->is_heartbeat && wish->since_us != DATETIME_NONE) {
        rc =
            positions_since(set, wish->since_us, patience, &content.after, why);
        content.reached = content.after;
    }
    if (!rc)
        rc = message_open(&message, &content, why);
    if (rc)
        return rc;
    /* Later wishes find the load. */
    if (transport_rows[wish->channel.kind].is_deflated &&
        patience == LOG_MEMORY && message.size > DEFLATER_AT_ONCE)
        rc = STATUS_AGAIN;
    else
        rc = wrap_message(shared, &message, patience, why);
    message_close(&message);
    return rc;
}
