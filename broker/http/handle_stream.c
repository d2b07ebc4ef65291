/*
 * handle_stream.c - hands a connection to push.
 */
#include "broker/http/accept.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/push/eventsource.h"
#include "broker/push/subscribers.h"
#include "broker/sets/positions.h"

/* Where the stream begins: ?after=, or now. An EventSource that was cut off
 * asks for the same URL again, and says in Last-Event-ID how far it has come:
 * that counts. A position that cannot be served is told on the open stream (a
 * browser would not see the status of a refused one). */
static enum status
wanted_position(struct request *rq, const struct head *head,
                struct push_wish *wish, struct problem *why)
{
    struct slice text;
    bool is_bad = false;
    enum status rc;

    wish->after = head->last;
    if ((request_is_upgrade(rq) ||
         !request_header(rq, "last-event-id", &text) || !text.size) &&
        !request_parameter(rq, "after", &text, &is_bad))
        return STATUS_OK;
    if (is_bad)
        return problem(why, STATUS_MALFORMED, "the query has a bad escape");
    rc = positions_judge(head, text, &wish->after, why);
    if (rc != STATUS_GONE)
        return rc;
    wish->is_gone = true;
    return STATUS_OK;
}

static bool
is_for_events(struct request *rq)
{
    struct slice accept;

    return !request_is_upgrade(rq) && request_header(rq, "accept", &accept) &&
           accept_names(accept, "text/event-stream");
}

/* Was it told that its position is gone, and why? See eventsource.h. */
static bool
was_told(struct request *rq)
{
    struct slice id;

    return request_header(rq, "last-event-id", &id) &&
           slice_is(id, EVENTSOURCE_GONE_ID);
}

static enum status
wanted_transport(struct request *rq, struct push_wish *wish,
                 struct problem *why)
{
    struct slice offer = {NULL, 0};
    bool has_offer;

    if (!request_is_upgrade(rq)) {
        wish->transport = transports_of_events(request_is_1_0(rq));
        return STATUS_OK;
    }
    has_offer = request_header(rq, "sec-websocket-protocol", &offer);
    wish->transport =
        transports_of_websocket(has_offer, offer, &wish->is_named);
    if (wish->transport)
        return STATUS_OK;
    return problem(why, STATUS_MALFORMED,
                   "none of the subprotocols \"%s\" is spoken "
                   "here; " TRANSPORTS_OFFERED " are",
                   problem_quote(offer).text);
}

void
handle_stream_get(struct http *http, struct request *rq, struct slice name)
{
    struct push_wish wish = {NULL};
    struct problem why = {""};
    struct response r;
    struct head head;

    if (!request_is_upgrade(rq) && !is_for_events(rq)) {
        problem_set(&why, "a stream is a WebSocket (ask with Upgrade) or an "
                          "event stream (Accept: text/event-stream)");
        request_answer_problem(rq, 426, &why, NULL, NULL);
        return;
    }
    wish.set = routes_set(http, rq, name, &head);
    if (!wish.set)
        return;
    if (!request_is_upgrade(rq) && was_told(rq)) {
        response_init(&r, 204, NULL);
        request_answer(rq, &r);
    } else if (wanted_transport(rq, &wish, &why) ||
               wanted_position(rq, &head, &wish, &why)) {
        routes_answer_failure(rq, STATUS_MALFORMED, &why, NULL, NULL);
    } else if (request_method(rq) == METHOD_HEAD) {
        eventsource_head(&r);
        request_answer(rq, &r);
    } else {
        push_accept(http->push, rq, &wish);
    }
}
