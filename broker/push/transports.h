/*
 * transports.h - the ways of pushing on a connection: one row each.
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

/* The transport of an event stream, of one set or of many. */
const struct transport *transports_of_events(bool is_1_0, bool is_of_many);

/* All of them; the number of one is its place. */
#define TRANSPORTS 8
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
