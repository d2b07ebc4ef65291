/*
 * postponement.h - postpones a request that names a position which the copy of
 * this broker may lack (positions_is_ahead): another broker of the cluster may
 *
 *     ahead? --no--> the handler
 *       | yes
 *       v
 *     postponement_begin --> [certain]       --> go_on: the handler, or 410
 *                        --> [time is over]  --> 503, go_on without a request
 *                        --> [its principal, or the client, has gone]
 *                                            --> likewise
 *
 * A service thread's.
 */
#pragma once

#include "broker/http/http.h"
#include "broker/net/request.h"

/* A member of a struct of its owner. */
struct postponement {
    struct catch_up_wait wait;
    struct request *rq;
    bool is_certain;

    /* Set by the owner. */
    struct http *http;
    struct principal *principal; /* the owner's reference */

    /* Called once, within on_request again (request_again), and owns the
     * postponement again. `rq` NULL: the client has gone, or has its answer. */
    void (*go_on)(struct postponement *p, struct request *rq);
};

/* True if a request for many sets names a position that this copy may lack: in
 * its query, its Last-Event-ID or the JSON of its body, of which each may be
 * empty. */
bool postponement_is_ahead(struct http *http, struct request *rq,
                           struct slice last_id, struct slice json);

/* Postpones the request, within on_request or on_end; it has no other user.
 * False: the broker is ending. */
MUST_CHECK bool postponement_begin(struct postponement *p, struct request *rq);

/* Answers 503; an EventSource gets an empty stream, after which it comes again.
 * Within on_request. */
void postponement_refuse(struct request *rq);
