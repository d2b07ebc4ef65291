/*
 * eventsource.h - messages as server-sent events (HTML, section 9.2), the body
 * of an HTTP answer without end.
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
 * at most STREAM_FRAME_MAX bytes: see wire.h.
 */
#pragma once

#include "broker/push/transports.h"

/* Differs from every position. */
#define EVENTSOURCE_GONE_ID "gone"

/* Fills in the head of the answer, also for HEAD. */
struct response;
void eventsource_head(struct response *r);

/* Appends a message as an event; transports_piece cuts the bytes into the
 * pieces that may be written at once. */
void eventsource_wrap(struct buf *to, const struct message *message,
                      const struct transport *transport);

/* See transports.h. */
void eventsource_accept(struct request *rq,
                        const struct stream_handlers *handlers, void *user);
void eventsource_note(struct buf *to, const char *event, struct slice json,
                      struct slice id, bool is_1_0);
void eventsource_close(struct stream *stream, const struct ending *ending,
                       const char *event, bool is_1_0);
