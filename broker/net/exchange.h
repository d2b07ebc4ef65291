/*
 * exchange.h - a request and its answer on their way through a connection. For
 * this folder only.
 */
#pragma once

#include "broker/net/body.h"
#include "broker/net/request.h"
#include "broker/net/server.h"
#include "broker/net/service.h"
#include "proto/http/chunked.h"
#include "proto/http/request_head.h"

struct connection;
struct phase;
struct request_end;
struct response;
struct stream_terms;

/* The body of a request, as it comes. */
struct incoming {
    uint64_t length; /* announced; 0: none, or chunked */
    uint64_t max;    /* of a chunked one */
    uint64_t left;   /* bytes that may still come */
    struct chunked chunked;
    bool is_chunked;
    bool is_open_ended; /* refused: the length of the rest is unknown */
    bool is_wanted;     /* a handler receives it, and it is not complete */
    bool is_complete;
    bool is_paused; /* reading is paused */
};

/* The body of its answer, as it goes. */
struct outgoing {
    struct body *body;        /* NULL: all is sent */
    struct slice piece;       /* lent by body, not sent yet */
    bool is_from_file;        /* pieces stay in their file: */
    struct file_part in_file; /* then this one, and piece.data is NULL */
    uint64_t left;            /* bytes to send */
    struct job job;
    bool is_working;         /* the job is on the worker pool */
    enum body_result result; /* of the job; BODY_WAITS: ask again */
};

struct request {
    struct connection *connection; /* NULL: gone */
    struct service *service;
    enum listener_kind listener;

    enum method method;
    bool is_upgrade;
    bool is_1_0;
    bool is_continue;                  /* waits for "100 Continue" */
    bool has_body;                     /* a body comes, accepted or not */
    bool is_text;                      /* refusals are text/plain */
    bool prefers_page;                 /* rather than what programs read */
    bool is_charged;                   /* the client pays for its body */
    struct slice path, query;          /* as sent */
    struct buf lines;                  /* request_add_lines */
    size_t head_size;                  /* bytes of `head` */
    const struct request_head *fields; /* in on_request only; else NULL */
    const char *sent;                  /* the bytes behind its slices */
    struct slice behind;               /* the head, in the same bytes */
    struct incoming in;

    /* The handler's */
    const struct request_handlers *handlers;
    void *user;
    may_answer_fn *may_answer; /* NULL: net answers; or any status is allowed */
    uint32_t slot;             /* of its ticket; 0: none */

    /* For its end */
    const void *route;
    const char *pattern;
    int64_t began_us;         /* steady clock; the head was complete */
    uint64_t received_before; /* of connection->received */
    uint64_t sent_before;     /* of connection->sent */
    unsigned status;          /* of its answer; 0: none */
    struct slice id, agent;   /* in head, or the arrays below */
    bool has_method;          /* that the server knows */
    bool is_kept;             /* request_keep_for_log */
    bool is_ended;            /* its end was reported, or a stream will
                                 report it */

    bool is_answered;
    bool is_denied;  /* its authority has ended */
    bool is_closing; /* the connection ends with this answer */
    struct outgoing out;

    /* Not zero at the beginning */
    char own_id[ID_SIZE];
    char name[REQUEST_NAME_MAX + 1]; /* request_set_name */
    char head[]; /* as sent; behind it the room of request_parameter and
                    request_header */
};

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
