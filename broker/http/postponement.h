/*
 * postponement.h - postpones a request that names a position which the copy of
 * this broker may lack (positions_is_ahead): another broker of the cluster may
 * have sent it. A copy that is certain decides (broker/push/copy_waits.h).
 *
 *     ahead? --no--> the handler
 *       | yes
 *       v
 *     postponement_begin --> [certain]       --> go_on: the handler, or 410
 *                        --> [time is over]  --> go_on: 503
 *                        --> [the client has gone] --> go_on without a request
 *
 * A service thread's.
 */
#ifndef BROKER_HTTP_POSTPONEMENT_H
#define BROKER_HTTP_POSTPONEMENT_H

#include <stdbool.h>

#include "broker/http/http.h"
#include "broker/net/request.h"
#include "broker/push/copy_waits.h"

/* A member of a struct of its owner. */
struct postponement {
    struct copy_wait wait;
    struct request *rq;

    /* Called once, within on_request again (request_again), and owns the
     * postponement again. `rq` NULL: the client has gone. !is_certain: answer
     * with postponement_refuse. */
    void (*go_on)(struct postponement *p, struct request *rq, bool is_certain);
    bool is_certain;
};

/* Postpones the request, within on_request or on_end; it has no other user.
 * False: the broker is ending. */
MUST_CHECK bool postponement_begin(struct postponement *p, struct http *http,
                                   struct request *rq);

/* Answers 503; an EventSource gets an empty stream, after which it comes again.
 * Within on_request. */
void postponement_refuse(struct request *rq);

#endif
