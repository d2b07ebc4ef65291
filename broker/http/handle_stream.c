/*
 * handle_stream.c - hands a connection to push.
 */
#include "broker/http/query.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/push/subscribers.h"

/* Where the stream begins: ?after=, ?since= or now; and its filter. A position
 * that cannot be served is told on the open WebSocket (a browser would not see
 * the status of a refused one). */
static enum status
read_wish(struct request *rq, const struct head *head, struct push_wish *wish,
          struct problem *why)
{
    struct query query;
    enum status rc = query_read(rq, head, &query, why);

    wish->is_gone = rc == STATUS_GONE;
    if (rc && !wish->is_gone)
        return rc;
    wish->after = query.has_after && !wish->is_gone ? query.after : head->last;
    wish->has_since = query.has_since;
    wish->since_us = query.since_us;
    return filters_enter(registry_filters(wish->set->registry), &query.filter,
                         &wish->filter, why);
}

void
handle_stream_get(struct http *http, struct request *rq, struct slice name)
{
    struct slice offer = {NULL, 0};
    struct push_wish wish = {NULL};
    struct problem why = {""};
    struct head head;
    bool has_offer;
    enum status rc;

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
    } else if ((rc = read_wish(rq, &head, &wish, &why))) {
        routes_answer_failure(rq, rc, &why, NULL, NULL);
    } else {
        push_accept(http->push, rq, &wish);
    }
}
