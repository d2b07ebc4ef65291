/*
 * handle_stream.c - hands a connection to push: for the stream of a set, or of
 * many.
 */

#include "broker/http/answers.h"
#include "broker/http/deferral.h"
#include "broker/http/postponement.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/push/subscribers.h"
#include "broker/push/transports.h"
#include "broker/sets/positions.h"
#include "proto/http/accept_header.h"
#include "proto/http/request_head.h"
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
    struct slice id = query_last_event_id(rq);
    struct query query;
    enum status rc = query_read(rq, head, &query, why);

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
    return filters_enter(&wish->set->registry->filters, &query.filter,
                         request_client(rq), false, &wish->filter, why);
}

/* Of a WebSocket by its subprotocol; `terms` are those of its answer. */
static enum status
choose_transport(struct http *http, struct request *rq, bool is_of_many,
                 bool has_lines, const struct transport **transport,
                 struct stream_terms *terms, struct problem *why)
{
    struct slice offer = {NULL, 0}, extensions;
    struct buf ours = {.max = OFFER_MAX};
    bool has_offer;
    enum status rc;

    if (!rq->is_upgrade) {
        *transport = transports_of_events(
            rq->is_1_0, is_of_many, has_lines ? MESSAGE_XML : MESSAGE_JSON);
        return STATUS_OK;
    }
    if (request_header(rq, "sec-websocket-extensions", &extensions)) {
        rc = ws_deflate_agree(extensions, &terms->deflate, why);
        if (rc)
            return rc;
        if (!http->registry->config->compress_streams)
            terms->deflate = NULL;
    }
    has_offer = request_header(rq, "sec-websocket-protocol", &offer);
    *transport =
        transports_of_websocket(has_offer, offer, terms->deflate != NULL);
    if (*transport && has_offer)
        terms->subprotocol = (*transport)->subprotocol;
    if (*transport)
        return STATUS_OK;
    transports_offer(&ours);
    /* A token among them is a secret, and a browser needs another one. */
    if (memmem(offer.data, offer.size, "bearer.", strlen("bearer.")))
        offer = SLICE("bearer.TOKEN");
    problem_set(why, "none of the subprotocols \"%s\" is spoken here; %.*s are",
                problem_quote(offer).text, (int)ours.size, ours.data);
    buf_fini(&ours);
    return STATUS_MALFORMED;
}

/* Returns false after an answer: to a handshake that a proxy has cut, to a
 * browser that a person led here, and to a client that accepts no events. */
static bool
check_kind(struct request *rq)
{
    static const char *const events = "text/event-stream";
    struct slice accept = {NULL, 0}, key;

    if (rq->is_upgrade)
        return true;
    request_header(rq, "accept", &accept);
    if (request_header(rq, "sec-websocket-key", &key))
        request_refuse(
            rq, 426,
            "a WebSocket's handshake came without its Upgrade: a proxy "
            "before the broker drops it (nginx needs proxy_http_version 1.1, "
            "proxy_set_header Upgrade $http_upgrade and proxy_set_header "
            "Connection \"upgrade\"). Without Sec-WebSocket-Key the stream is "
            "server-sent events");
    else if (rq->prefers_page || accept_choose(accept, &events, 1) < 0)
        request_refuse(rq, 426,
                       "a stream is a WebSocket (ask with Upgrade) or "
                       "server-sent events (Accept: text/event-stream)");
    else
        return true;
    return false;
}

enum status
handle_stream_get(const struct route_call *call)
{
    struct request *rq = call->rq;
    struct push_wish wish = {.set = call->set, .principal = call->principal};
    struct response r;
    bool has_lines;
    enum status rc;

    if (!check_kind(rq))
        return STATUS_OK;
    if (slice_is(query_last_event_id(rq), EVENTSOURCE_GONE_ID)) {
        /* The client has got `event: gone`, see transports.h. A cache must not
         * keep the answer: it would stop all other clients. */
        response_init(&r, 204, NULL, "no-store");
        request_answer(rq, &r);
        return STATUS_OK;
    }
    rc = query_yes(rq, "lines", &has_lines, call->why);
    if (!rc)
        rc = choose_transport(call->http, rq, false, has_lines, &wish.transport,
                              &wish.terms, call->why);
    if (!rc)
        rc = query_yes(rq, "checkpoints", &wish.wants_checkpoints, call->why);
    if (!rc)
        rc = read_wish(rq, &call->head, &wish, call->why);
    return rc ? rc : push_accept(call->http->push, rq, &wish, call->why);
}

/* Many sets */

/* A body that names sets. */
struct following {
    struct deferral deferral;
    struct postponement postponement; /* it names positions ahead */
    struct buf last_id;
};

static void
free_last_id(struct deferral *d)
{
    buf_fini(&list_entry(d, struct following, deferral)->last_id);
}

/* Begins the stream of the sets of `json`, which may be empty, and of the
 * query. Last-Event-ID wins. STATUS_MALFORMED also for JSON that is well-formed
 * and no such request. */
static enum status
start_many(struct http *http, struct request *rq, struct principal *principal,
           struct slice last_id, struct slice json, struct problem *why)
{
    struct follow_request follow = {.n = 0};
    struct push_wish wish = {.follow = &follow, .principal = principal};
    struct slice text;
    struct filter filter;
    bool has_lines;
    enum status rc =
        json.size > 0 ? follow_request_json(&follow, json, why) : STATUS_OK;

    if (!rc)
        rc = query_yes(rq, "lines", &has_lines, why);
    if (!rc)
        rc = choose_transport(http, rq, true, has_lines, &wish.transport,
                              &wish.terms, why);
    if (!rc)
        rc = follow_request_query(&follow, rq->query, why);
    if (!rc && last_id.size > 0)
        follow_request_resume(&follow, last_id);
    if (!rc && request_parameter(rq, "checkpoints", &text))
        rc =
            problem(why, STATUS_MALFORMED,
                    "checkpoints: a stream of many sets has none; that of each "
                    "set has, GET /sets/NAME/stream?checkpoints=yes");
    if (!rc)
        rc = filter_read(&filter, rq->query, why);
    if (!rc)
        rc = filters_enter(&http->registry->filters, &filter,
                           request_client(rq), false, &wish.filter, why);
    if (!rc)
        rc = push_accept(http->push, rq, &wish, why);
    follow_request_fini(&follow);
    return rc == STATUS_INVALID ? STATUS_MALFORMED : rc;
}

enum status
handle_many_get(const struct route_call *call)
{
    return check_kind(call->rq)
               ? start_many(call->http, call->rq, call->principal,
                            query_last_event_id(call->rq), SLICE(""), call->why)
               : STATUS_OK;
}

static void
start_following(struct postponement *p, struct request *rq)
{
    struct following *f = list_entry(p, struct following, postponement);
    struct deferral *d = &f->deferral;
    struct problem why = {""};
    enum status rc;

    if (rq) {
        rc = start_many(d->http, rq, d->principal, buf_slice(&f->last_id),
                        buf_slice(&d->body), &why);
        if (rc)
            request_answer_problem(rq, response_status_of(rc), &why);
    }
    deferral_free(d);
}

static enum status
follow_body(struct deferral *d, struct problem *why)
{
    struct following *f = list_entry(d, struct following, deferral);

    (void)why;
    if (!log_is_shared(d->http->registry->log) ||
        !postponement_is_ahead(d->http, d->rq, buf_slice(&f->last_id),
                               buf_slice(&d->body)) ||
        !postponement_begin(&f->postponement, d->rq))
        start_following(&f->postponement, d->rq);
    return STATUS_OK;
}

enum status
handle_many_post(const struct route_call *call)
{
    static const struct deferral_kind kind = {.begin = follow_body,
                                              .fini = free_last_id};
    struct following *f;

    if (!check_kind(call->rq))
        return STATUS_OK;
    f = deferral_new(call, &kind, sizeof(*f));
    f->deferral.is_counted = true;
    f->postponement.http = call->http;
    f->postponement.go_on = start_following;
    buf_init(&f->last_id, REQUEST_FIELD_MAX);
    buf_add_slice(&f->last_id, query_last_event_id(call->rq));
    return deferral_receive(&f->deferral, call, STATUS_OK);
}
