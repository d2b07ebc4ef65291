/*
 * hub_request.h - a request to the hub: its command, on the way to the delivery
 * thread and back.
 *
 *     hub_request_new --> hub_request_receive --> whole ... hub_request_submit
 *                                                       |
 *     answered <-- service thread <-- command->done <-- delivery thread
 *
 * The service thread owns an asking until hub_request_submit. If the connection
 * breaks before, the asking is freed without effect; later, the command still
 * ends, but without an answer.
 */
#ifndef BROKER_HTTP_HUB_REQUEST_H
#define BROKER_HTTP_HUB_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "broker/http/http.h"
#include "broker/hub/hub.h"
#include "broker/net/request.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/status.h"

struct hub_request {
    struct task task; /* the command is done */
    struct ticket ticket;
    struct http *http;
    struct command *command;
    struct buf body;        /* of the request, as it arrives */
    struct holding holding; /* memory of the body */
    bool is_counted;        /* the body is counted: it may be long */

    /* The body is complete: reads it, and calls hub_request_submit or
     * hub_request_refuse. NULL: the body is ignored. */
    void (*whole)(struct request *rq, struct hub_request *asking);
};

/* Makes an asking. `max`: bytes of text that the command will hold. NULL: no
 * memory; the request was answered. */
struct hub_request *hub_request_new(struct http *http, struct request *rq,
                                    enum command_kind kind, size_t max);

/* Receives a body of at most `max` bytes, then asking->whole. */
void hub_request_receive(struct request *rq, struct hub_request *asking,
                         uint64_t max);

/* Moves the body into the command. */
void hub_request_take_body(struct hub_request *asking);

/* Hands the command to the hub; from then on the asking answers by itself. */
void hub_request_submit(struct request *rq, struct hub_request *asking);

/* Answers a failure, and frees the asking (NULL is allowed). _refuse: with the
 * HTTP status for `rc`. */
void hub_request_refuse(struct request *rq, struct hub_request *asking,
                        enum status rc, const struct problem *why);
void hub_request_refuse_as(struct request *rq, struct hub_request *asking,
                           unsigned status, const struct problem *why);

#endif
