/*
 * handle_stream.c - hands a connection to push.
 */
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/push/subscribers.h"
#include "broker/sets/positions.h"

/* Where the stream begins: ?after=, or now. A position that cannot be served is
 * told on the open WebSocket (a browser would not see the status of a refused
 * one). */
static enum status
wanted_position(struct request *rq, const struct head *head,
                struct push_wish *wish, struct problem *why)
{
    struct slice text;
    bool is_bad = false;
    enum status rc;

    wish->after = head->last;
    if (!request_parameter(rq, "after", &text, &is_bad))
        return STATUS_OK;
    if (is_bad)
        return problem(why, STATUS_MALFORMED, "the query has a bad escape");
    rc = positions_judge(head, text, &wish->after, why);
    if (rc != STATUS_GONE)
        return rc;
    wish->is_gone = true;
    return STATUS_OK;
}

void
handle_stream_get(struct http *http, struct request *rq, struct slice name)
{
    struct slice offer = {NULL, 0};
    struct push_wish wish = {NULL};
    struct problem why = {""};
    struct head head;
    bool has_offer;

    if (!request_is_upgrade(rq)) {
        problem_set(&why, "a stream is a WebSocket: ask with Upgrade");
        request_answer_problem(rq, 426, &why, NULL, NULL);
        return;
    }
    wish.set = routes_set(http, rq, name, &head);
    if (!wish.set)
        return;
    has_offer = request_header(rq, "sec-websocket-protocol", &offer);
    wish.transport = transports_of_websocket(has_offer, offer, &wish.is_named);
    if (!wish.transport) {
        problem_set(&why,
                    "none of the subprotocols \"%s\" is spoken "
                    "here; " TRANSPORTS_OFFERED " are",
                    problem_quote(offer).text);
        request_answer_problem(rq, 400, &why, NULL, NULL);
    } else if (wanted_position(rq, &head, &wish, &why)) {
        routes_answer_failure(rq, STATUS_MALFORMED, &why, NULL, NULL);
    } else {
        push_accept(http->push, rq, &wish);
    }
}
