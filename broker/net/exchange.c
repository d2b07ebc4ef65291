#include "broker/net/exchange.h"

#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/net/connection.h"
#include "broker/net/response.h"
#include "broker/net/tcp.h"

/* RFC 6455 section 4.1: 16 bytes in base64. */
#define KEY_SIZE 24

/* Ends the request for its handler. */
static void
abandon_request(struct request *rq)
{
    ticket_drop(rq);
    if (!rq->is_answered && rq->handlers && rq->handlers->on_gone)
        rq->handlers->on_gone(rq);
    rq->handlers = NULL;
    rq->may_answer = NULL;
}

/* The connection has ended. */
static void
on_gone(struct connection *c)
{
    struct request *rq = c->request;

    if (!rq)
        return;
    c->request = NULL;
    request_report_end(rq, false);
    abandon_request(rq);
    rq->connection = NULL;
    if (!rq->out.is_working) /* else when the job is done: response.c */
        request_free(rq);
}

/* Heads */

/* Refuses a head. The body that it should announce may still come. */
static bool
refuse_request(struct request *rq, unsigned status, const char *text)
{
    rq->is_closing = true;
    rq->in.is_open_ended = true;
    request_refuse(rq, status, "%s", text);
    return true;
}

/* RFC 6455 section 4.2.1. */
static bool
refuse_upgrade(struct request *rq)
{
    struct slice value = {NULL, 0};

    if (rq->method != METHOD_GET || rq->has_body ||
        !request_header(rq, "sec-websocket-key", &value) ||
        value.size != KEY_SIZE)
        return refuse_request(rq, 400, "not a handshake of RFC 6455");
    if (!request_header(rq, "sec-websocket-version", &value) ||
        !slice_is(value, "13")) {
        struct response r;

        rq->is_closing = true;
        response_init(&r, 426, NULL, NULL);
        response_header(&r, "Sec-WebSocket-Version", "13");
        request_answer(rq, &r);
        return true;
    }
    return false;
}

/* Answers requests that need no handler; true if it did. */
static bool
refuse_here(struct request *rq)
{
    struct problem stopping = {"the server is stopping"}, why = {""};
    struct slice forwarded = {NULL, 0}, x_forwarded_for = {NULL, 0};
    enum method method = METHOD_GET;

    while (method < METHODS &&
           !slice_is(rq->fields->method, method_name(method)))
        method++;
    if (method == METHODS)
        return refuse_request(rq, 501, "no such method");
    rq->method = method;
    rq->has_method = true;
    /* Some proxies pass on such a target unchanged, without applying their
     * rules about paths to it. */
    if (rq->fields->is_https && !rq->connection->socket.ssl)
        return refuse_request(rq, 400, "https:// on a connection without TLS");
    /* The request counts for the client of a trusted proxy. The connection is
     * kept, so the refusal must fit the method: HEAD has no body. */
    if (rq->connection->is_proxied) {
        request_header(rq, "forwarded", &forwarded);
        request_header(rq, "x-forwarded-for", &x_forwarded_for);
        if (connection_count_proxied(rq->connection, forwarded, x_forwarded_for,
                                     &why)) {
            request_answer_problem(rq, 429, &why);
            return true;
        }
    }
    if (rq->has_body && rq->method != METHOD_POST && rq->method != METHOD_PUT &&
        rq->method != METHOD_PATCH)
        return refuse_request(rq, 400, "this method takes no body");
    if (rq->is_upgrade && refuse_upgrade(rq))
        return true;
    if (!atomic_load(&rq->service->server->is_stopping))
        return false;
    rq->is_closing = true;
    if (!request_answer_events_later(rq))
        request_answer_problem(rq, 503, &stopping);
    return true;
}

static const struct phase exchange_body, exchange_handler;

/* Nothing more of the body is read: the handler answers. */
static void
await_answer(struct connection *c)
{
    struct incoming *in = &c->request->in;

    in->is_wanted = in->is_paused = false;
    connection_enter(c, &exchange_handler, 0);
}

/* Ends the reading of the body: its handler answers, or net. */
static void
break_off(struct request *rq, enum status rc, const struct problem *why)
{
    rq->may_answer = NULL;
    await_answer(rq->connection);
    if (rq->handlers->on_broken) {
        rq->handlers->on_broken(rq, rc, why);
        return;
    }
    abandon_request(rq);
    request_answer_problem(rq, response_status_of(rc), why);
}

bool
exchange_look(struct connection *c)
{
    struct request *rq = c->request;
    struct problem why = {""};

    if (!rq || rq->is_denied ||
        !authority_is_over(c->authority, clock_now_us()))
        return false;
    diag_begin_request(rq->id);
    (void)response_is_denied(rq, &why);
    if (rq->is_answered) {
        /* A reset takes back what the kernel still holds. */
        tcp_reset_at_close(c->socket.fd);
        connection_kill(c);
    } else if (rq->in.is_wanted) {
        break_off(rq, STATUS_DENIED, &why);
    } else {
        /* If the handler has handed its act over, that one asks, too. */
        abandon_request(rq);
        request_answer_problem(rq, 401, &why);
    }
    diag_end_request();
    return true;
}

/* The body is complete: its handler acts, if the client may still act. */
static void
end_body(struct connection *c)
{
    struct request *rq = c->request;
    struct problem why = {""};

    rq->in.is_complete = true;
    if (response_is_denied(rq, &why)) {
        break_off(rq, STATUS_DENIED, &why);
        return;
    }
    await_answer(c);
    rq->handlers->on_end(rq);
}

/* Continues as the stream that answers the request, if there is one, or sends
 * the answer. */
static void
follow_answer(struct connection *c)
{
    struct request *rq = c->request;

    if (c->stream) {
        c->request = NULL;
        request_free(rq);
        if (!connection_is_gone(c))
            stream_begin(c);
    } else if (!connection_is_gone(c) && rq->is_answered) {
        response_send(c);
    }
}

/* Continues after the handler's decision: waits for the body, the answer, or
 * nothing. */
static void
follow_decision(struct connection *c)
{
    struct request *rq = c->request;

    if (c->stream || connection_is_gone(c)) {
        follow_answer(c);
        return;
    }
    if (!rq->is_answered && rq->in.is_wanted && rq->has_body) {
        connection_enter(c, &exchange_body, 0);
        if (rq->is_continue) {
            static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

            connection_write(c, go_on, sizeof(go_on) - 1);
        }
    } else if (!rq->is_answered && rq->in.is_wanted) {
        end_body(c);
    } else if (!rq->is_answered) {
        await_answer(c);
    }
    follow_answer(c);
}

static size_t
take_head(struct connection *c, struct slice bytes)
{
    struct service *s = c->service;
    struct server *server = s->server;
    struct problem why = {""};
    struct request *rq = NULL;
    enum status rc;

    if (c->socket.is_plain) { /* a client that does not speak TLS */
        s->head.refusal = 400;
        rc = problem(&why, STATUS_MALFORMED,
                     "this port speaks TLS only: ask for https:// or wss://");
    } else {
        rc = request_head_read(&s->head, bytes, &c->seen, &why);
    }

    if (rc == STATUS_AGAIN) {
        /* An incomplete head has less time than silence. */
        int64_t by_us = clock_steady_us() + server->options.request_timeout_us;

        if (c->deadline_us > by_us)
            c->deadline_us = by_us;
        if (connection_count(c, CLIENT_HALF_HEADS, NULL))
            connection_kill(c);
        return 0;
    }
    rq = c->request = request_new(c, rc ? NULL : &s->head, bytes);
    c->on_gone = on_gone;
    if (!rq) {
        connection_kill(c);
        return 0;
    }
    diag_begin_request(rq->id);
    if (rc)
        refuse_request(rq, s->head.refusal, why.text);
    else if (!refuse_here(rq))
        server->options.on_request(rq, server->options.user);
    rq->fields = NULL;
    follow_decision(c);
    diag_end_request();
    return rc ? bytes.size : s->head.size;
}

void
request_again(struct request *rq,
              void (*handle)(struct request *rq, void *user), void *user)
{
    struct connection *c = rq->connection;
    struct request_head *head = &c->service->head;
    struct head_seen seen = {0};
    struct problem why;

    if (request_head_read(head, (struct slice){rq->head, rq->head_size}, &seen,
                          &why)) {
        connection_kill(c); /* it was read before */
        return;
    }
    c->is_inside = true; /* the next request waits until this one is over */
    diag_begin_request(rq->id);
    rq->handlers = NULL;
    rq->fields = head;
    rq->sent = rq->head;
    rq->behind.size = 0;
    handle(rq, user);
    rq->fields = NULL;
    follow_decision(c);
    diag_end_request();
    c->is_inside = false;
    connection_read_on(c);
}

/* Bodies */

static void
hand_over(struct connection *c, struct slice data)
{
    struct request *rq = c->request;

    metrics_add(METRIC_RECEIVED, (int64_t)data.size);
    c->received += data.size;
    rq->in.left -= data.size;
    if (rq->is_charged)
        clients_charge(rq->service->server->clients, request_client(rq),
                       CLIENT_BYTE_RATE, data.size);
    if (rq->handlers->on_data)
        rq->handlers->on_data(rq, data);
}

static bool
is_reading(const struct connection *c)
{
    return !c->request->in.is_paused;
}

static size_t
read_chunked(struct connection *c, struct slice bytes)
{
    struct request *rq = c->request;
    struct problem why = {""};
    struct slice rest = bytes, data;

    while (c->phase == &exchange_body && is_reading(c)) {
        switch (chunked_read(&rq->in.chunked, &rest, &data, &why)) {
        case CHUNKED_DATA:
            if (data.size > rq->in.left) {
                problem_set(&why, "the body has at most %" PRIu64 " bytes here",
                            rq->in.max);
                break_off(rq, STATUS_TOO_LARGE, &why);
                return bytes.size;
            }
            hand_over(c, data);
            break;
        case CHUNKED_MORE:
            return bytes.size;
        case CHUNKED_END:
            end_body(c);
            break;
        case CHUNKED_BROKEN:
            break_off(rq, STATUS_MALFORMED, &why);
            return bytes.size;
        }
    }
    return bytes.size - rest.size;
}

static size_t
take_body(struct connection *c, struct slice bytes)
{
    struct request *rq = c->request;
    size_t n;

    diag_begin_request(rq->id);
    if (rq->in.is_chunked) {
        n = read_chunked(c, bytes);
    } else {
        n = bytes.size < rq->in.left ? bytes.size : (size_t)rq->in.left;
        hand_over(c, (struct slice){bytes.data, n});
        if (!rq->in.left && c->phase == &exchange_body)
            end_body(c);
    }
    follow_answer(c);
    diag_end_request();
    return n;
}

static void
check_body(struct connection *c, int64_t now_us)
{
    struct problem why = {"too little of the body came in time"};

    if (is_reading(c) && !connection_check_receiving(c, now_us))
        break_off(c->request, STATUS_LATE, &why);
}

/* Nothing is read while a handler works, so nothing else would notice the end
 * of the client. */
static void
check_handler(struct connection *c, int64_t now_us)
{
    (void)now_us;
    (void)connection_check_peer(c);
}

const struct phase exchange_head = {
    .take = take_head,
    .check = connection_check_deadline,
    .is_head = true,
    .is_good_end = true,
};

static const struct phase exchange_body = {
    .take = take_body,
    .is_reading = is_reading,
    .check = check_body,
    .is_busy = true,
};

static const struct phase exchange_handler = {
    .check = check_handler,
    .is_busy = true,
};
