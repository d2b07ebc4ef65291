/*
 * exchange.c - a request and its answer, callback by callback.
 *
 * What libwebsockets 4.1.6 does badly, and what keeps it from doing it here:
 *
 * A request with a body that was read together with the request before it gets
 * its own head as its body, and then lws_http_action loops for ever. Three
 * things stand against it: is_own_head ends the connection at the first such
 * byte; is_looping, when a complete body is told again and again; and a
 * transaction is never completed within the reading of a body
 * (connection_set_ready), after which the loop would no longer call back. Under
 * libuv only: the library closes twice, and libuv frees late.
 *
 * Bytes that come while an answer is pending make it turn in its loop: nothing
 * is read meanwhile (connection_set_flow).
 *
 * lws_http_transaction_completed before the body is through, or with bytes
 * still unsent, defers itself into states of its own: never done.
 *
 * A return of -1 with bytes still unsent makes it wait without reading: never
 * done, but for the few bytes of a refusal.
 */
#include "broker/net/exchange.h"

#include <strings.h>

#include "broker/base/clock.h"
#include "broker/base/metrics.h"
#include "broker/net/connection.h"
#include "broker/net/response.h"
#include "broker/net/service.h"
#include "broker/net/stream.h"

/* A body gets one second more for each of these. */
#define SLOWEST_BYTES 65536

static bool
is_gone(const struct connection *c)
{
    return c->phase == PHASE_GONE;
}

void
exchange_abandon(struct request *rq)
{
    if (!rq->is_answered && rq->handlers && rq->handlers->on_gone)
        rq->handlers->on_gone(rq);
    rq->handlers = NULL;
}

void
exchange_gone(struct connection *c)
{
    struct request *rq = c->request;

    c->request = NULL;
    ticket_drop(rq);
    exchange_abandon(rq);
    rq->connection = NULL;
    if (!rq->is_working) /* else when the job is back: answer.c */
        request_free(rq);
}

int
exchange_next(struct connection *c)
{
    request_free(c->request);
    c->request = NULL;
    connection_enter(c, PHASE_HEAD, clock_steady_us() + IDLE_US);
    if (lws_http_transaction_completed(c->wsi))
        return -1;
    lws_set_timeout(c->wsi, NO_PENDING_TIMEOUT, 0);
    connection_set_flow(c, FLOW_OPEN);
    return 0;
}

static void
await_body(struct connection *c)
{
    struct request *rq = c->request;
    int64_t limit_us = c->service->server->options.request_timeout_us;

    limit_us += (int64_t)(rq->content_length / SLOWEST_BYTES) * 1000000;
    connection_enter(c, PHASE_BODY, clock_steady_us() + limit_us);
    if (rq->is_continue) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

        connection_write(c, go_on, sizeof(go_on) - 1);
    }
}

/* The body is here. */
static void
end_body(struct connection *c)
{
    struct request *rq = c->request;

    rq->is_complete = true;
    connection_enter(c, PHASE_HANDLER, 0);
    rq->handlers->on_end(rq);
}

/* Asks the handler, unless the answer is clear without it. */
static void
decide(struct request *rq)
{
    struct server *server = rq->service->server;
    struct problem why = {"the server is stopping", 0, 0};

    if (head_refuse(rq))
        return;
    if (atomic_load(&server->is_stopping)) {
        rq->is_closing = true;
        if (!request_answer_events_later(rq))
            request_answer_problem(rq, 503, &why, NULL, NULL);
        return;
    }
    server->options.on_request(rq, server->options.user);
    rq->is_head_there = false;
}

int
exchange_begin(struct connection *c)
{
    struct request *rq = NULL;

    lws_set_timeout(c->wsi, NO_PENDING_TIMEOUT, 0);
    if (is_gone(c) || c->request || c->stream)
        return -1;
    rq = c->request = head_read(c, false);
    if (!rq)
        return -1;

    c->inside = INSIDE_HEAD;
    decide(rq);
    if (!is_gone(c) && !rq->is_answered && rq->is_receiving && rq->has_body)
        await_body(c);
    else if (!is_gone(c) && !rq->is_answered && rq->is_receiving)
        end_body(c);
    else if (!is_gone(c) && !rq->is_answered)
        connection_enter(c, PHASE_HANDLER, 0);
    c->inside = INSIDE_NOTHING;

    if (is_gone(c))
        return -1;
    if (c->stream) {
        request_free(rq);
        c->request = NULL;
        lws_http_headers_detach(c->wsi);
        stream_await_opening(c);
        return 0;
    }
    if (rq->is_answered && answer_send(c) < 0)
        return -1;
    if (c->phase == PHASE_HANDLER)
        connection_set_flow(c, FLOW_HELD);
    /* What follows may take long: the library need not keep the headers, except
     * where it is to read a body (it would think that it reads a head). */
    if ((c->phase == PHASE_HANDLER || c->phase == PHASE_ANSWER) &&
        !rq->has_body && !rq->is_open_ended)
        lws_http_headers_detach(c->wsi);
    return 0;
}

int
exchange_upgrade(struct connection *c)
{
    struct request *rq = NULL;

    lws_set_timeout(c->wsi, NO_PENDING_TIMEOUT, 0);
    if (is_gone(c) || c->request)
        return -1;
    rq = c->request = head_read(c, true);
    if (!rq)
        return -1;

    c->inside = INSIDE_HEAD;
    decide(rq);
    c->inside = INSIDE_NOTHING;

    /* Only these two ways: > 0 would go on with the connection as if nothing
     * had been asked, and for h2c or unknown names with freed memory. */
    if (!is_gone(c) && c->stream && stream_is_accepted(c)) {
        request_free(rq);
        c->request = NULL;
        connection_enter(c, PHASE_STREAM, 0);
        return 0;
    }
    return -1;
}

/* Does the body of a request begin with the request's own head? Nobody else's
 * body does: it would have to be that of a request in a request. */
static bool
is_own_head(const struct connection *c, const char *data, size_t size)
{
    size_t n = strlen(c->own_head);

    /* A short first piece that is not all of the body is the client's. */
    if (size < n && c->request && size < c->request->content_length)
        return false;
    return !strncasecmp(data, c->own_head, size < n ? size : n);
}

/* The request was not understood, and nothing of it was done. */
static int
refuse_pipelined(struct connection *c)
{
    struct problem why = {"a request with a body must wait for the answer to "
                          "the request before it",
                          0, 0};
    struct request *rq = c->request;

    if (rq && !rq->is_answered) {
        ticket_drop(rq);
        exchange_abandon(rq);
        rq->is_closing = true;
        c->inside = INSIDE_BODY;
        request_answer_problem(rq, 503, &why, NULL, NULL);
        c->inside = INSIDE_NOTHING;
    }
    return -1;
}

int
exchange_body(struct connection *c, const void *data, size_t size)
{
    struct request *rq = c->request;
    bool is_first = c->own_head != NULL;

    if (!size)
        return is_gone(c) ? -1 : 0;
    if (is_first && is_own_head(c, data, size))
        return refuse_pipelined(c);
    c->own_head = NULL;
    metrics_add(METRIC_RECEIVED, (int64_t)size);
    lws_set_timeout(c->wsi, NO_PENDING_TIMEOUT, 0);

    if (c->phase == PHASE_LINGER || c->phase == PHASE_ANSWER) {
        c->drained += size;
        return c->drained > LINGER_BYTES ? -1 : 0;
    }
    if (c->phase != PHASE_BODY)
        return -1;

    c->inside = INSIDE_BODY;
    if (rq->handlers->on_data)
        rq->handlers->on_data(rq, (struct slice){data, size});
    c->inside = INSIDE_NOTHING;
    if (is_gone(c))
        return -1;
    return rq->is_answered ? answer_send(c) : 0;
}

/* While an answer is owed or sent, bytes that come make the library say again
 * that the body is complete: once, each time it looks. If it says so a hundred
 * times within one turn of the event loop, it is in a loop of its own. */
static bool
is_looping(struct connection *c)
{
    uint64_t turn = uv_now(&c->service->loop);

    if (c->turn != turn)
        c->n_turns = 0;
    c->turn = turn;
    return ++c->n_turns > 100;
}

int
exchange_body_end(struct connection *c)
{
    struct request *rq = c->request;

    if (is_gone(c))
        return -1;
    if (c->phase == PHASE_LINGER)
        return c->flow == FLOW_HELD ? 0 : -1;
    if (c->phase == PHASE_ANSWER && rq->has_body)
        rq->is_complete = true; /* of a refused one, too */
    if (c->phase != PHASE_BODY)
        return is_looping(c) ? -1 : 0;

    c->inside = INSIDE_BODY;
    end_body(c);
    c->inside = INSIDE_NOTHING;
    if (is_gone(c))
        return -1;
    /* Nothing is read before the answer is through: the next request would come
     * out of the library's buffer, where its body is not safe. */
    connection_set_flow(c, FLOW_HELD);
    if (rq->is_answered)
        connection_set_ready(c);
    return 0;
}

int
exchange_writable(struct connection *c)
{
    int rc = 0;

    if (is_gone(c))
        return -1;
    if (c->phase != PHASE_ANSWER && !c->stream)
        return 0;
    c->inside = INSIDE_WRITABLE;
    if (c->stream) {
        rc = stream_writable(c);
    } else {
        connection_set_flow(c, FLOW_QUIET);
        rc = answer_send(c);
    }
    c->inside = INSIDE_NOTHING;
    return !rc && c->flow == FLOW_QUIET ? 1 : rc;
}

void
exchange_ready(struct connection *c)
{
    if (c->phase == PHASE_LONG)
        stream_await_opening(c);
    else if (c->phase == PHASE_ANSWER && answer_send(c) < 0)
        connection_kill(c);
}

void
exchange_timed_out(struct connection *c)
{
    struct problem why = {"the body did not come in time", 0, 0};
    struct request *rq = c->request;

    ticket_drop(rq);
    exchange_abandon(rq);
    rq->is_closing = true;
    request_answer_problem(rq, 408, &why, NULL, NULL);
}
