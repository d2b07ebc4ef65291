#include "broker/push/transports.h"

#include "broker/push/deflater.h"
#include "broker/push/eventsource.h"
#include "broker/push/wire.h"

/* An event stream carries JSON only: every client would have to take the lines
 * of XML apart and put them together again. */
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
};

_Static_assert(TRANSPORTS <= SET_TRANSPORTS_MAX, "each is counted");

/* Which one */

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
transports_of_events(bool is_1_0, bool is_of_many)
{
    const struct transport *t = transport_rows;

    while (t->subprotocol || t->is_1_0 != is_1_0 || t->is_of_many != is_of_many)
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

void
transports_accept(const struct transport *t, struct request *rq,
                  const struct stream_terms *terms,
                  const struct stream_handlers *handlers, void *user)
{
    if (t->subprotocol)
        request_accept_stream(rq, terms, handlers, user);
    else
        eventsource_accept(rq, handlers, user);
}

void
transports_note(const struct transport *t, struct buf *to, const char *event,
                struct slice json, struct slice id)
{
    /* JSON with every subprotocol: it names what XML messages have no words
     * for. */
    if (t->subprotocol)
        wire_text(to, FRAMING_FRAMES, json);
    else
        eventsource_note(to, event, json, id, t->is_1_0);
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
        eventsource_close(stream, &known, words->event, t->is_1_0);
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

/* The message contains everything. */
void
transports_frame(struct buf *to, const struct message *message,
                 struct deflater *deflater)
{
    struct buf text, packed;
    struct wire wire;
    bool is_packed = false;

    buf_init(&text, MESSAGE_MAX);
    buf_init(&packed, MESSAGE_MAX);
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
    struct deflater own;
    struct buf wire;

    deflater_init(&own);
    buf_init(&wire, SIZE_MAX);
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
        .max_bytes = registry_config(set->registry)->message_bytes,
        .patience = patience,
        .is_heartbeat = wish->is_heartbeat,
    };
    struct message message;
    enum status rc = STATUS_OK;

    if (wish->is_heartbeat && wish->since_us != DATETIME_NONE) {
        rc = log_since(registry_log(set->registry), set->log, wish->since_us,
                       patience, &content.after, why);
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
