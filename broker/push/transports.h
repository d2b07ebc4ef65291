/*
 * transports.h - the ways of pushing on a connection: one row each.
 *
 * Event streams have messages as server-sent events (HTML, section 9.2), the
 * body of an HTTP answer without end.
 *
 *     retry: 2417
 *
 *     id: 9f2c5b7d01e4a683-2
 *     event: heartbeat
 *     data: {"set":"demo","epoch":"9f2c5b7d01e4a683","after":2,"last":2,...}
 *
 *     id: 9f2c5b7d01e4a683-4
 *     event: changes
 *     data: {"set":"demo","epoch":"9f2c5b7d01e4a683","after":2,"last":4,...}
 *
 * `data` is the JSON message, on one line. `id` is the position behind it, with
 * heartbeats too, so a client that connects again gives its position in
 * Last-Event-ID. A client takes both only with the empty line behind them: an
 * event that was cut off does not count, and comes again.
 *
 * The last event, unless the connection breaks, is one of
 *
 *     event: farewell    the broker ends: connect again
 *     event: failed      the broker cannot go on: connect again
 *     event: denied      the token of the request has ended
 *     event: removed     the set was removed
 *     event: gone        the position cannot be served: its data says which can
 *
 * After each of them an EventSource connects again by itself. After `denied` it
 * gets 401, and gives up: a page that hears `denied` makes another EventSource
 * with another token. After `gone` there would be an endless loop, because it
 * would ask for the same position. So that event has another "position",
 * EVENTSOURCE_GONE_ID, and the broker answers a request with it by 204: in HTML
 * that means "do not connect again".
 *
 * A stream of many sets (stream_sets.h) has the same events without `id`,
 * because the position of one set is not that of the stream, and further ones:
 *
 *     event: end         one set has ended: its data says which, and why
 *     event: heartbeat   of the whole stream
 *
 * The bytes go out as chunks (HTTP/1.1) or as they are (HTTP/1.0), in pieces of
 * at most STREAM_FRAME_MAX bytes.
 */
#pragma once

#include "broker/net/request.h"
#include "broker/net/stream.h"
#include "broker/readers/message.h"
#include "broker/readers/shared_messages.h"

struct deflater;

/* Why a stream ends. The codes are those of RFC 6455 section 7.4, and three of
 * our own. */
#define CLOSE_GOING_AWAY    1001
#define CLOSE_MALFORMED     1007
#define CLOSE_REFUSED       1008
#define CLOSE_TOO_LARGE     1009
#define CLOSE_FAILED        1011
#define CLOSE_LATER         1013
#define CLOSE_DENIED        4401
#define CLOSE_SET_REMOVED   4404
#define CLOSE_POSITION_GONE 4410

struct ending {
    unsigned code;
    const char *reason;  /* at most 123 bytes; NULL: what the code means */
    const char *members; /* more, as JSON: ",\"earliest\":...", or NULL */
    bool is_within;      /* a frame was sent in part */
};

struct transport {
    const char *label;       /* in the metrics; each has its own */
    const char *subprotocol; /* of a WebSocket: offered by the client, and
                                returned; NULL: an event stream */
    enum message_form form;
    bool is_deflated; /* sends compressed messages (deflater.h) */
    bool is_1_0;      /* for a client of HTTP/1.0 */
    bool is_of_many;  /* events of many sets: the position of one is not that
                         of the stream */
};

/* Accepts the request, a WebSocket's on these terms, and answers it; from then
 * on `handlers` are called. */
void transports_accept(const struct transport *transport, struct request *rq,
                       const struct stream_terms *terms,
                       const struct stream_handlers *handlers, void *user);

/* Appends, in its form on the wire, what the broker says between messages of a
 * stream of many sets. `event`: its name in an event stream; `json`: the data,
 * one object; `id`: for Last-Event-ID, or empty. Without an event (NULL) an
 * event stream gets a block of the `id` alone, which dispatches nothing (HTML
 * section 9.2.6). At most STREAM_FRAME_MAX bytes. */
void transports_note(const struct transport *transport, struct buf *to,
                     const char *event, struct slice json, struct slice id);

/* Sends the reason, as far as possible, and ends the stream. */
void transports_close(const struct transport *transport, struct stream *stream,
                      const struct ending *ending);

/* The transport of a WebSocket whose client offers these subprotocols (the
 * value of Sec-WebSocket-Protocol): the first of its list that the broker
 * supports. No offer at all means JSON. NULL: it supports none of them.
 * is_deflated: the client takes compressed messages. */
const struct transport *
transports_of_websocket(bool has_offer, struct slice offer, bool is_deflated);

/* The transport of an event stream, of one set, in JSON or XML, or of many. */
const struct transport *transports_of_events(bool is_1_0, bool is_of_many,
                                             enum message_form form);

/* All of them; the number of one is its place. */
#define TRANSPORTS 12
extern const struct transport transport_rows[TRANSPORTS];

/* Appends the subprotocols, for an error's text: "resourcesync.json, ...". */
void transports_offer(struct buf *to);

/* The piece of a wrapped message that begins at `offset`, a sum of sizes of
 * pieces before: all but the last have exactly STREAM_FRAME_MAX bytes. */
struct slice transports_piece(struct slice wrapped, size_t offset);

/* The channel of a set on a transport. `deflater` is the service thread's, and
 * lent; it compresses what is made there, if the transport does. */
struct channel transports_channel(struct set *set, unsigned number,
                                  struct deflater *deflater);

/* Appends a message as one of a WebSocket, compressed by `deflater` (lent)
 * unless that is NULL, in frames of at most STREAM_FRAME_MAX bytes, headers
 * included. So a client that reads slowly leaves at most the rest of one frame
 * in the connection's memory, and pongs and a close frame can go between
 * frames. */
void transports_frame(struct buf *to, const struct message *message,
                      struct deflater *deflater);

/* Makes a message as it goes out: shared_calls.make. STATUS_AGAIN as by
 * message_open, or because it is too large to compress on a service thread. */
MUST_CHECK enum status transports_make(struct shared_message *message,
                                       enum log_patience patience,
                                       struct problem *why);

/* Event streams */

/* As a Last-Event-ID: differs from every position. */
#define EVENTSOURCE_GONE_ID "gone"

/* Fills in the head of the answer, also for HEAD. */
void eventsource_head(struct response *r);

/* Appends a message as an event; transports_piece cuts the bytes into the
 * pieces that may be written at once. */
void eventsource_wrap(struct buf *to, const struct message *message,
                      const struct transport *transport);
