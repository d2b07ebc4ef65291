/*
 * handle_stream.c - hands a connection to push.
 */
#include <string.h>

#include "broker/http/answers.h"
#include "broker/http/query.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/push/eventsource.h"
#include "broker/push/subscribers.h"
#include "broker/sets/positions.h"
#include "proto/http/accept_header.h"
#include "proto/http/ws_handshake.h"

/* Most bytes of the text that names our subprotocols. */
#define OFFER_MAX 256

/* Reads where the stream begins (?after=, ?since= or now) and its filter. An
 * EventSource that was cut off repeats the same URL, with its position in
 * Last-Event-ID: that counts. For a position that cannot be served the open
 * stream gets an error (a browser would not see the status of a refused
 * one). */
static enum status
read_wish(struct request *rq, const struct head *head, struct push_wish *wish,
          struct problem *why)
{
    struct slice id = {NULL, 0};
    struct query query;
    enum status rc = query_read(rq, head, &query, why);

    if (!request_is_upgrade(rq))
        request_header(rq, "last-event-id", &id);
    if (id.size > 0 && (!rc || rc == STATUS_GONE)) {
        rc = positions_judge(head, id, &query.after, why);
        query.has_after = true;
        query.has_since = false;
    }
    wish->is_gone = rc == STATUS_GONE;
    if (rc && !wish->is_gone)
        return rc;
    wish->after = query.has_after && !wish->is_gone ? query.after : head->last;
    wish->has_since = query.has_since;
    wish->since_us = query.since_us;
    return filters_enter(registry_filters(wish->set->registry), &query.filter,
                         request_client(rq), &wish->filter, why);
}

static bool
is_for_events(struct request *rq)
{
    struct slice accept;

    return !request_is_upgrade(rq) && request_header(rq, "accept", &accept) &&
           accept_names(accept, "text/event-stream");
}

/* True if the client has got `event: gone`. See eventsource.h. */
static bool
has_got_gone(struct request *rq)
{
    struct slice id;

    return request_header(rq, "last-event-id", &id) &&
           slice_is(id, EVENTSOURCE_GONE_ID);
}

static enum status
wanted_transport(struct request *rq, struct push_wish *wish,
                 struct problem *why)
{
    struct slice offer = {NULL, 0}, extensions;
    struct buf ours;
    bool has_offer;
    enum status rc;

    if (!request_is_upgrade(rq)) {
        wish->transport = transports_of_events(request_is_1_0(rq));
        return STATUS_OK;
    }
    if (request_header(rq, "sec-websocket-extensions", &extensions)) {
        rc = ws_deflate_agree(extensions, &wish->terms.deflate, why);
        if (rc)
            return rc;
        if (!registry_config(wish->set->registry)->compress_streams)
            wish->terms.deflate = NULL;
    }
    has_offer = request_header(rq, "sec-websocket-protocol", &offer);
    wish->transport =
        transports_of_websocket(has_offer, offer, wish->terms.deflate != NULL);
    if (wish->transport && has_offer)
        wish->terms.subprotocol = wish->transport->subprotocol;
    if (wish->transport)
        return STATUS_OK;
    buf_init(&ours, OFFER_MAX);
    transports_offer(&ours);
    /* A token among them is a secret, and a browser needs another one. */
    if (memmem(offer.data, offer.size, "bearer.", strlen("bearer.")))
        offer = SLICE("bearer.TOKEN");
    problem_set(why, "none of the subprotocols \"%s\" is spoken here; %.*s are",
                problem_quote(offer).text, (int)ours.size, ours.data);
    buf_fini(&ours);
    return STATUS_MALFORMED;
}

void
handle_stream_get(struct http *http, struct request *rq,
                  const struct route_target *target)
{
    struct push_wish wish = {.set = target->set,
                             .principal = target->principal};
    struct problem why = {""};
    struct response r;
    enum status rc;

    if (!request_is_upgrade(rq) && !is_for_events(rq)) {
        problem_set(&why, "a stream is a WebSocket (ask with Upgrade) or an "
                          "event stream (Accept: text/event-stream)");
        request_answer_problem(rq, 426, &why, NULL, NULL);
        return;
    }
    if (!request_is_upgrade(rq) && has_got_gone(rq)) {
        /* For this client only: from a cache it would stop all others. */
        response_init(&r, 204, NULL);
        response_header(&r, "Cache-Control", "no-store");
        request_answer(rq, &r);
    } else if ((rc = wanted_transport(rq, &wish, &why)) ||
               (rc = read_wish(rq, &target->head, &wish, &why))) {
        answers_failure(rq, rc, &why, NULL, NULL);
    } else if (request_method(rq) == METHOD_HEAD) {
        filters_leave(wish.filter);
        eventsource_head(&r);
        request_answer(rq, &r);
    } else {
        push_accept(http->push, rq, &wish);
    }
}
