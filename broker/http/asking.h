/*
 * asking.h - a request that asks something of the hub: its order, on the way to
 * the delivery thread and back.
 *
 *     asking_new --> asking_receive --> whole ... asking_submit
 *                                                       |
 *     answered <-- service thread <-- order->done <-- delivery thread
 *
 * The service thread's until asking_submit. If the connection breaks before, an
 * asking is freed and nothing was asked; afterwards the order comes to its end
 * all the same, only nobody is told.
 */
#ifndef BROKER_HTTP_ASKING_H
#define BROKER_HTTP_ASKING_H

#include <stdbool.h>
#include <stddef.h>

#include "broker/http/http.h"
#include "broker/hub/hub.h"
#include "broker/net/request.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/status.h"

struct asking {
    struct task task; /* the order is done */
    struct ticket ticket;
    struct http *http;
    struct order *order;
    struct buf body;        /* of the request, as it arrives */
    struct holding holding; /* memory of the body */
    bool is_counted;        /* the body is counted: it may be long */

    /* The body is whole: reads it, and asking_submit or asking_refuse. NULL:
     * nothing is asked for in it. */
    void (*whole)(struct request *rq, struct asking *asking);
};

/* `max`: bytes of text that the order is to keep. NULL: no memory, and the
 * request was answered so. */
struct asking *asking_new(struct http *http, struct request *rq,
                          enum order_kind kind, size_t max);

/* Receives a body of at most `max` bytes, then asking->whole. */
void asking_receive(struct request *rq, struct asking *asking, uint64_t max);

/* The order gets the body as its own. */
void asking_take_body(struct asking *asking);

/* Hands the order to the hub; from here on the asking answers by itself. */
void asking_submit(struct request *rq, struct asking *asking);

/* Answers a failure, and frees the asking (which may be NULL). _refuse: with
 * the HTTP status that goes with `rc`. */
void asking_refuse(struct request *rq, struct asking *asking, enum status rc,
                   const struct problem *why);
void asking_refuse_as(struct request *rq, struct asking *asking,
                      unsigned status, const struct problem *why);

#endif
