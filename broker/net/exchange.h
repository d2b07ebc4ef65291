/*
 * exchange.h - a request and its answer on their way through a connection. For
 * this folder only.
 *
 * The functions that libwebsockets' callbacks end in return 0, or -1: the
 * connection is to be closed.
 */
#ifndef BROKER_NET_EXCHANGE_H
#define BROKER_NET_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/base/body.h"
#include "broker/net/request.h"
#include "broker/net/server.h"
#include "proto/slice.h"

struct connection;
struct memory;
struct response;

struct request {
    struct connection *connection; /* NULL: gone */
    struct service *service;

    /* What was asked: head.c */
    enum method method;
    bool is_upgrade;
    bool is_head_there; /* request_header works */
    bool is_1_0;
    bool is_continue; /* waits for "100 Continue" */
    bool has_length;
    bool has_body;      /* libwebsockets is going to read one, wanted or not */
    bool is_open_ended; /* nobody knows what still comes */
    uint64_t content_length;
    struct slice path, query; /* percent-encoded where necessary */
    struct memory *memory;    /* what lives as long as the request */

    /* The handler's */
    const struct request_handlers *handlers;
    void *user;
    bool is_receiving;
    bool is_complete; /* the body is here */
    bool is_paused;   /* it is not read on */
    int64_t left_us;  /* then, the time it has when it is */
    bool is_answered;
    uint32_t slot; /* of its ticket; 0: none */

    /* The answer's: answer.c */
    struct body *body;  /* what is left to send */
    struct slice piece; /* lent by body, not sent yet */
    uint64_t left;      /* of what was announced */
    struct job job;
    bool is_working;         /* the job is on the worker pool */
    bool is_closing;         /* the connection ends with this answer */
    enum body_result result; /* of the job; BODY_WAITS: ask again */
};

/* exchange.c */

/* A request's head is here. */
int exchange_begin(struct connection *c);
int exchange_upgrade(struct connection *c);

int exchange_body(struct connection *c, const void *data, size_t size);
int exchange_body_end(struct connection *c);
int exchange_writable(struct connection *c);

/* Goes on with an answer that was given within the reading of the body. */
void exchange_ready(struct connection *c);

/* The connection is gone. */
void exchange_gone(struct connection *c);

/* The body has not come in time. */
void exchange_timed_out(struct connection *c);

/* Frees the request and makes the connection ready for the next one. */
int exchange_next(struct connection *c);

/* Tells the handler that nothing more comes of the request. */
void exchange_abandon(struct request *rq);

/* head.c */

/* A header, or a path with its parameters, that is longer is answered 431. */
#define HEADER_MAX 8192

/* Reads what was asked. NULL: no memory. */
struct request *head_read(struct connection *c, bool is_upgrade);

/* Answers what nobody here wants to see; true if it did. */
bool head_refuse(struct request *rq);

/* request.c */

/* Also frees an answer that is still there. A job must not be out. */
void request_free(struct request *rq);

/* `size` bytes that live as long as the request; NULL: no memory. */
char *request_memory(struct request *rq, size_t size);

/* Ends the validity of the ticket, if there is one. */
void ticket_drop(struct request *rq);

/* answer.c */

/* Sends the head of an answer without a known length, and the first bytes of
 * its body. The connection ends with it. */
void answer_begin_long(struct request *rq, const struct response *r,
                       struct slice opening);

/* Sends the rest of an answer as far as there is room, and then goes on. */
int answer_send(struct connection *c);

/* stream.c */

/* The handler has accepted the upgrade; libwebsockets goes on with it. false:
 * it would answer otherwise than the handler said. */
bool stream_is_accepted(const struct connection *c);

/* A long answer has begun: waits for the room in which it opens. */
void stream_await_opening(struct connection *c);

int stream_opened(struct connection *c);
int stream_received(struct connection *c, size_t size);
int stream_closing(struct connection *c);
int stream_writable(struct connection *c);
void stream_gone(struct connection *c);

#endif
