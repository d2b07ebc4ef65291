/*
 * exchange.h - a request and its answer on their way through a connection. For
 * this folder only.
 */
#pragma once

#include "broker/net/service.h"

/* exchange.c */

/* The first phase of a connection: it waits for the head of a request. */
extern const struct phase exchange_head;

/* Ends the request of the connection if its authority has ended (request.h):
 * true. */
bool exchange_look(struct connection *c);

/* request.c */

/* Keeps a copy of the head `h`, which begins `bytes`. `h` NULL: the head was
 * refused. NULL: there is no memory for more requests of the thread. */
struct request *request_new(struct connection *c, const struct request_head *h,
                            struct slice bytes);

/* Frees a request, and an answer that it still has. No job may be at work. */
void request_free(struct request *rq);

/* Describes the request for its end. Lends its texts. */
void request_describe(const struct request *rq, struct request_end *end);

/* Reports the end of the request to server_options.on_end, once, unless a
 * stream goes on with it. It must have its connection still. */
void request_report_end(struct request *rq, bool is_whole);

/* Ends the validity of the ticket, if there is one. */
void ticket_drop(struct request *rq);

/* True if the handler may answer with this status: request_expect. */
bool request_may_answer(const struct request *rq, unsigned status);

/* response.c */

/* Sends the head of an answer without a known length, and the first bytes of
 * its body. The connection ends with it. */
void response_begin_long(struct request *rq, const struct response *r,
                         struct slice opening);

/* Agrees to a WebSocket (RFC 6455 section 4.2.2); `accept` is the value of
 * Sec-WebSocket-Accept. */
void response_upgrade(struct request *rq, const char *accept,
                      const struct stream_terms *terms);

/* True if the authority of the request has ended; once, since the request must
 * be refused then, or cut. */
bool response_is_denied(struct request *rq, struct problem *why);

/* Sends the rest of an answer as far as there is room, and then continues. */
void response_send(struct connection *c);

/* stream.c */

/* The request is freed: the stream's owner may begin, at once or, if it is an
 * HTTP answer, before the loop sleeps. */
void stream_begin(struct connection *c);

/* Does the latter. False: the connection has no such stream. */
bool stream_proceed(struct connection *c);
