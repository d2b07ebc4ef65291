/*
 * exchange.h - a request and its answer on their way through a connection. For
 * this folder only.
 */
#ifndef BROKER_NET_EXCHANGE_H
#define BROKER_NET_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/net/body.h"
#include "broker/net/request.h"
#include "broker/net/server.h"
#include "proto/chunked.h"
#include "proto/request_head.h"
#include "proto/slice.h"

struct connection;
struct memory;
struct response;
struct stream_terms;

struct request {
    struct connection *connection; /* NULL: gone */
    struct service *service;

    /* The request: exchange.c */
    enum method method;
    bool is_upgrade;
    bool is_1_0;
    bool is_continue; /* waits for "100 Continue" */
    bool is_chunked;
    bool has_body;           /* a body comes, accepted or not */
    bool is_open_ended;      /* refused: the length of the rest is unknown */
    bool is_text;            /* refusals are text/plain */
    uint64_t content_length; /* 0: none, or chunked */
    uint64_t body_left;      /* of it */
    uint64_t body_max;       /* of a chunked one */
    uint64_t body_size;      /* of a chunked one: bytes so far */
    struct chunked chunked;
    struct slice path, query;          /* as sent */
    const struct request_head *fields; /* in on_request only; else NULL */
    const char *sent;                  /* the bytes behind its slices */
    struct memory *memory;             /* freed with the request */

    /* The handler's */
    const struct request_handlers *handlers;
    void *user;
    may_answer_fn *may_answer; /* NULL: net answers; or any status is allowed */
    const void *route;
    bool is_receiving;
    bool is_complete; /* the body is complete */
    bool is_paused;   /* reading is paused */
    bool is_answered;
    uint32_t slot; /* of its ticket; 0: none */

    /* The answer: answer.c */
    struct body *body;        /* NULL: all is sent */
    struct slice piece;       /* lent by body, not sent yet */
    bool is_from_file;        /* pieces stay in their file: */
    struct file_part in_file; /* then this one, and piece.data is NULL */
    uint64_t left;            /* bytes of the body to send */
    struct job job;
    bool is_working;         /* the job is on the worker pool */
    bool is_closing;         /* the connection ends with this answer */
    enum body_result result; /* of the job; BODY_WAITS: ask again */

    char head[]; /* as sent */
};

/* exchange.c */

/* Read a head, or the rest of its body. Both return how many bytes they took,
 * 0: more must come first. */
size_t exchange_head(struct connection *c, struct slice bytes);
size_t exchange_body(struct connection *c, struct slice bytes);

/* Refuses a client that does not speak TLS on a TLS listener. */
void exchange_refuse_plain(struct connection *c);

/* Frees the request and makes the connection ready for the next one. */
void exchange_next(struct connection *c);

/* The connection is gone. */
void exchange_gone(struct connection *c);

/* The body has not come in time. */
void exchange_timed_out(struct connection *c);

/* request.c */

/* Keeps a copy of the head `h`, which begins `bytes`. `h` NULL: the head was
 * refused. Returns NULL: no memory. */
struct request *request_new(struct connection *c, const struct request_head *h,
                            struct slice bytes);

/* Frees a request, and an answer that it still has. No job may be at work. */
void request_free(struct request *rq);

/* Returns `size` bytes that are freed with the request; NULL: no memory. */
char *request_memory(struct request *rq, size_t size);

/* Ends the validity of the ticket, if there is one. */
void ticket_drop(struct request *rq);

/* True if the handler may answer with this status: request_expect. */
bool request_may_answer(const struct request *rq, unsigned status);

/* answer.c */

/* Sends the head of an answer without a known length, and the first bytes of
 * its body. The connection ends with it. */
void answer_begin_long(struct request *rq, const struct response *r,
                       struct slice opening);

/* Agrees to a WebSocket (RFC 6455 section 4.2.2); `accept` is the value of
 * Sec-WebSocket-Accept. */
void answer_upgrade(struct request *rq, const char *accept,
                    const struct stream_terms *terms);

/* Sends the rest of an answer as far as there is room, and then continues. */
void answer_send(struct connection *c);

/* stream.c */

/* True if the stream is an HTTP answer; false also without a stream. */
bool stream_is_long(const struct connection *c);

/* Its owner may begin. */
void stream_opened(struct connection *c);

/* Reads frames of a WebSocket; returns how many bytes it took. */
size_t stream_received(struct connection *c, struct slice bytes);

void stream_writable(struct connection *c);
void stream_gone(struct connection *c);

#endif
