/*
 * response.c - composes answers and sends them: the head, and a body as the
 * client takes it.
 *
 *     request_answer --> response_send --> room left? next piece, or done
 *                          ^   ^   |
 *                     room-+   |   +--> not in memory: job on the worker pool
 *                              +------------- job done
 */
#include "broker/net/response.h"

#include <assert.h>

#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/net/connection.h"
#include "broker/net/exchange.h"
#include "broker/net/service.h"
#include "broker/net/stream.h"
#include "broker/net/tcp.h"
#include "proto/http/accept_header.h"
#include "proto/http/response_head.h"
#include "proto/resourcesync/json.h"

#define PROBLEM_MAX      16384
#define PROBLEM_PAGE_MAX 131072

/* The most bytes of a write: bytes that the socket does not take must be
 * copied. */
#define WRITE_MAX STREAM_FRAME_MAX

/* Writes per turn; then the other connections have theirs. */
#define WRITES_AT_ONCE 4

/* Longest head: a status line, the lines that compose_head adds by itself, and
 * the handler's. */
#define HEAD_MAX (RESPONSE_HEADERS_MAX + REQUEST_LINES_MAX + 512)

/* The longest body that is sent together with the head. */
#define SMALL_BODY (SCRATCH_SIZE - HEAD_MAX)

void
response_init(struct response *r, unsigned status, const char *content_type,
              const char *caching)
{
    memset(r, 0, offsetof(struct response, headers));
    r->headers[0] = '\0';
    r->status = status;
    r->content_type = content_type;
    if (caching)
        response_header(r, "Cache-Control", "%s", caching);
}

void
response_text(struct response *r, const struct buf *text)
{
    r->text = buf_slice(text);
    r->is_broken = text->failed;
}

void
response_header(struct response *r, const char *name, const char *format, ...)
{
    const size_t name_size = strlen(name);
    size_t room = sizeof(r->headers) - r->headers_size;
    char *line = r->headers + r->headers_size, *value = line + name_size + 2;
    va_list args;
    int n = 0;

    if (room <= name_size + 4)
        return;
    room -= name_size + 4;
    memcpy(line, name, name_size);
    memcpy(line + name_size, ": ", 2);
    va_start(args, format);
    n = vsnprintf(value, room, format, args);
    va_end(args);
    for (const char *c = value; n >= 0 && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            n = -1;
    if (n < 0 || (size_t)n >= room) {
        *line = '\0';
        return;
    }
    memcpy(value + n, "\r\n", sizeof("\r\n"));
    r->headers_size += name_size + 2 + (size_t)n + 2;
}

void
response_page(struct response *r)
{
    r->content_type = "text/html; charset=utf-8";
    response_header(r, "Content-Security-Policy",
                    "default-src 'none'; style-src 'self'; base-uri 'none'; "
                    "form-action 'none'; frame-ancestors 'none'");
    response_header(r, "Referrer-Policy", "same-origin");
}

unsigned
response_status_of(enum status status)
{
    /* 500 of the others: a peer's answers are not the client's. */
    static const unsigned short statuses[] = {
        [STATUS_OK] = 200,          [STATUS_MALFORMED] = 400,
        [STATUS_DENIED] = 401,      [STATUS_FORBIDDEN] = 403,
        [STATUS_NOT_FOUND] = 404,   [STATUS_LATE] = 408,
        [STATUS_RUNNING] = 409,     [STATUS_CONFLICT] = 409,
        [STATUS_GONE] = 410,        [STATUS_TOO_LARGE] = 413,
        [STATUS_UNSUPPORTED] = 415, [STATUS_INVALID] = 422,
        [STATUS_LIMITED] = 429,     [STATUS_BUSY] = 503,
        [STATUS_MEMORY] = 503,      [STATUS_STOPPED] = 503,
    };

    return status < N_ELEMENTS(statuses) && statuses[status] ? statuses[status]
                                                             : 500;
}

/* The head */

/* The Date header of this second; lent until the next call. Written on demand:
 * by a timer it would be up to a second late, and a Last-Modified of this
 * second later than the Date beside it (RFC 9110 section 8.8.2.1). */
static const char *
date_of(struct service *s)
{
    int64_t now = clock_now_us() / 1000000;

    if (!s->date[0] || now != s->date_of)
        httpdate_write(s->date, now);
    s->date_of = now;
    return s->date;
}

/* Writes the head into the scratch; returns its size. Every answer has a head,
 * so this does without printf, which took a third of the time of a small
 * answer. */
static size_t
compose_head(struct request *rq, const struct response *r, uint64_t size)
{
    struct service *s = rq->service;
    struct buf head = {
        .data = s->scratch, .capacity = SCRATCH_SIZE, .max = SCRATCH_SIZE};

    BUF_ADD(&head, "HTTP/1.1 ");
    buf_add_number(&head, r->status);
    BUF_ADD(&head, " ");
    buf_add_text(&head, response_reason(r->status));
    BUF_ADD(&head, "\r\nDate: ");
    buf_add_text(&head, date_of(s));
    BUF_ADD(&head, "\r\nX-Request-Id: ");
    buf_add_slice(&head, rq->id);
    BUF_ADD(&head, "\r\nX-Content-Type-Options: nosniff\r\n");
    /* 426 must name the required protocol (RFC 9110 section 15.5.22), but only
     * to clients that can speak it. */
    if (r->status == 426 && !rq->is_1_0) {
        BUF_ADD(&head, "Upgrade: websocket\r\nConnection: upgrade");
        buf_add_text(&head, rq->is_closing ? ", close\r\n" : "\r\n");
    } else if (rq->is_closing) {
        BUF_ADD(&head, "Connection: close\r\n");
    } else if (rq->is_1_0) {
        BUF_ADD(&head, "Connection: keep-alive\r\n");
    }
    if (r->is_long && !rq->is_1_0)
        BUF_ADD(&head, "Transfer-Encoding: chunked\r\n");
    /* RFC 9110 section 8.6 forbids it in 204. In 304 it would be the length of
     * a body that is not sent. */
    if (r->status != 204 && r->status != 304 && !r->is_long) {
        BUF_ADD(&head, "Content-Length: ");
        buf_add_number(&head, size);
        BUF_ADD(&head, "\r\n");
    }
    if (r->content_type) {
        BUF_ADD(&head, "Content-Type: ");
        buf_add_text(&head, r->content_type);
        BUF_ADD(&head, "\r\n");
    }
    buf_add_slice(&head, buf_slice(&rq->lines));
    buf_add(&head, r->headers, r->headers_size);
    BUF_ADD(&head, "\r\n");
    return head.size;
}

/* The body */

/* Asks the body for its next piece. */
static enum body_result
next_piece(struct outgoing *out, bool may_block)
{
    enum body_result result;

    if (!out->is_from_file)
        return out->body->next(out->body, may_block, &out->piece);
    result = out->body->next_in_file(out->body, may_block, &out->in_file);
    if (result == BODY_DATA)
        out->piece = (struct slice){NULL, out->in_file.size};
    return result;
}

static void
drop_body(struct outgoing *out)
{
    body_free(&out->body);
    out->piece = (struct slice){NULL, 0};
}

/* On a worker. The request is only this job's until the job is done. */
static void
read_piece(struct job *job)
{
    struct request *rq = list_entry(job, struct request, out.job);

    diag_begin_request(rq->id);
    rq->out.result = next_piece(&rq->out, true);
    diag_end_request();
}

static void
work_done(struct job *job)
{
    struct request *rq = list_entry(job, struct request, out.job);
    struct connection *c = rq->connection;

    rq->out.is_working = false;
    if (!c) {
        request_free(rq);
        return;
    }
    c->measured_us = 0;
    response_send(c);
}

/* Asks the body for its next piece. BODY_WAITS: a worker was asked. */
static enum body_result
advance_body(struct request *rq)
{
    struct outgoing *out = &rq->out;
    enum body_result result = out->result;

    out->result = BODY_WAITS;
    if (result == BODY_WAITS)
        result = next_piece(out, false);
    if (result == BODY_DATA && out->piece.size > out->left)
        result = BODY_FAILED; /* more than was announced */
    if (result == BODY_END && out->left)
        result = BODY_FAILED;
    if (result == BODY_WAITS) {
        out->is_working = true;
        out->job = (struct job){read_piece, work_done};
        loop_work(rq->service->loop, &out->job);
    }
    return result;
}

/* The rest of the body cannot be read. Cuts the connection, so that the client
 * does not take its part for the whole. */
static void
cut_off(struct connection *c)
{
    diag_begin_request(c->request->id);
    diag(DIAG_WARNING, "net", "an answer could not be read to its end");
    diag_end_request();
    connection_kill(c);
}

/* Writes at most WRITE_MAX bytes of the piece at hand, or of one that stays in
 * its file as far as there is room. Only this
 * thread sends, and only this thread closes the socket and the file, so both
 * descriptors are still what they were. A job on the worker pool reads the
 * bytes into the page cache and sends nothing. The kernel may drop some of them
 * before there is room: this thread then waits for the disk. */
static bool
write_some(struct connection *c)
{
    struct outgoing *out = &c->request->out;
    size_t n = out->piece.size < WRITE_MAX ? out->piece.size : WRITE_MAX;
    ssize_t sent;

    if (out->left <= WRITE_MAX)
        connection_end_clients(c);
    if (!out->is_from_file) {
        if (!connection_write(c, out->piece.data, n))
            return false;
        slice_skip(&out->piece, n);
        out->left -= n;
        return true;
    }
    sent = connection_send_file(c, &out->in_file);
    if (sent == -2)
        cut_off(c);
    if (sent < 0)
        return false;
    out->in_file.at += (uint64_t)sent;
    out->in_file.size -= (size_t)sent;
    out->piece.size -= (size_t)sent;
    out->left -= (size_t)sent;
    return true;
}

/* Ends the answer. The connection continues, or ends so that the client can
 * read the answer. */
static void
finish_answer(struct connection *c)
{
    struct request *rq = c->request;
    bool is_coming =
        rq->in.is_open_ended || (rq->has_body && !rq->in.is_complete);

    request_report_end(rq, true);
    if (!rq->is_closing) {
        c->request = NULL;
        request_free(rq);
        connection_restart(c);
    } else if (!socket_say_end(&c->socket)) {
        connection_await_room(c);
    } else if (is_coming || c->in.data || socket_has_unread(&c->socket) ||
               tcp_left(c->socket.fd) > 0) {
        c->request = NULL;
        request_free(rq);
        connection_linger(c);
    } else {
        socket_end(&c->socket);
        connection_kill(c);
    }
}

void
response_send(struct connection *c)
{
    struct request *rq = c->request;
    struct outgoing *out = &rq->out;

    for (int i = 0; i < WRITES_AT_ONCE && out->body && !out->is_working; i++) {
        enum body_result result = BODY_DATA;

        if (connection_is_choked(c) || c->is_awaiting_room)
            break;
        if (!out->piece.size || out->result != BODY_WAITS)
            result = advance_body(rq);
        if (result == BODY_FAILED) {
            cut_off(c);
            return;
        }
        if (result == BODY_END)
            drop_body(out);
        else if (result == BODY_DATA && !write_some(c))
            return;
    }
    if (out->is_working || connection_is_gone(c))
        return;
    if (out->body || connection_is_choked(c) || !connection_narrow(c)) {
        connection_await_room(c);
        return;
    }
    finish_answer(c);
}

void
response_upgrade(struct request *rq, const char *accept,
                 const struct stream_terms *terms)
{
    const char *protocol = terms->subprotocol, *deflate = terms->deflate;
    char head[512];
    int n = snprintf(head, sizeof(head),
                     "HTTP/1.1 101 Switching Protocols\r\n"
                     "Date: %s\r\n"
                     "X-Request-Id: %.*s\r\n"
                     "Upgrade: websocket\r\n"
                     "Connection: upgrade\r\n"
                     "Sec-WebSocket-Accept: %s\r\n"
                     "%s%s%s%s%s%s\r\n",
                     date_of(rq->service), SLICE_ARG(rq->id), accept,
                     protocol ? "Sec-WebSocket-Protocol: " : "",
                     protocol ? protocol : "", protocol ? "\r\n" : "",
                     deflate ? "Sec-WebSocket-Extensions: " : "",
                     deflate ? deflate : "", deflate ? "\r\n" : "");

    assert(request_may_answer(rq, 101));
    rq->status = 101;
    metrics_add_label(METRIC_RESPONSES, metrics_code(101), 1);
    connection_write(rq->connection, head, (size_t)n);
}

void
response_begin_long(struct request *rq, const struct response *r,
                    struct slice opening)
{
    char *scratch = rq->service->scratch;
    size_t size;

    assert(request_may_answer(rq, r->status));
    rq->is_closing = true;
    rq->status = r->status;
    metrics_add_label(METRIC_RESPONSES, metrics_code(r->status), 1);
    size = compose_head(rq, r, 0);
    if (opening.size > SCRATCH_SIZE - size)
        opening.size = 0;
    if (opening.size > 0)
        memcpy(scratch + size, opening.data, opening.size);
    connection_write(rq->connection, scratch, size + opening.size);
}

/* Fills the rest of the scratch with a small body, as far as it is in memory;
 * returns the new size. Frees a body that fits completely: the client then has
 * its answer, and the connection must be ready for the next request. */
static size_t
gather_body(struct request *rq, size_t size)
{
    struct outgoing *out = &rq->out;
    char *scratch = rq->service->scratch;

    while (out->body && out->left <= SCRATCH_SIZE - size) {
        enum body_result result = next_piece(out, false);

        if (result != BODY_DATA || out->piece.size > out->left) {
            out->result = result; /* for advance_body */
            break;
        }
        memcpy(scratch + size, out->piece.data, out->piece.size);
        size += out->piece.size;
        out->left -= out->piece.size;
        out->piece.size = 0;
    }
    if (out->result == BODY_END && !out->left)
        drop_body(out);
    return size;
}

/* Takes over the body; false: no memory. */
static bool
take_body(struct request *rq, struct response *r, size_t *size)
{
    struct outgoing *out = &rq->out;
    struct buf copy;

    out->result = BODY_WAITS;
    out->body = r->body;
    r->body = NULL;
    if (rq->method == METHOD_HEAD) {
        drop_body(out);
        return true;
    }
    if (!out->body && r->text.size > SMALL_BODY) { /* not beside the head */
        buf_init(&copy, r->text.size);
        buf_add_slice(&copy, r->text);
        out->body = body_of_buf(&copy);
        buf_fini(&copy);
        if (!out->body)
            return false;
    }
    if (out->body) {
        out->left = out->body->size;
        if (out->left <= SMALL_BODY)
            *size = gather_body(rq, *size);
        out->is_from_file =
            out->body && out->body->next_in_file && !rq->connection->socket.ssl;
        if (out->is_from_file && out->left > UNSENT_MAX)
            connection_widen(rq->connection);
    } else if (r->text.size) {
        memcpy(rq->service->scratch + *size, r->text.data, r->text.size);
        *size += r->text.size;
    }
    return true;
}

static void
check_answer(struct connection *c, int64_t now_us)
{
    if (!c->request->out.is_working)
        connection_check_sending(c, now_us);
}

bool
response_is_denied(struct request *rq, struct problem *why)
{
    if (!rq->connection || rq->is_denied ||
        !authority_check(rq->connection->authority, clock_now_us(), why))
        return false;
    rq->may_answer = NULL;
    rq->is_denied = true;
    return true;
}

bool
request_deny(struct request *rq)
{
    struct problem why = {""};

    if (!response_is_denied(rq, &why))
        return false;
    request_answer_problem(rq, 401, &why);
    return true;
}

void
request_answer(struct request *rq, struct response *r)
{
    static const struct phase answer = {
        .send = response_send, .check = check_answer, .is_busy = true};

    struct connection *c = rq->connection;
    bool is_over = rq->is_answered || !c || connection_is_gone(c);
    size_t size = 0;

    if (is_over)
        rq->is_answered = true;
    /* The effect of a GET is its answer. Other acts have asked before. A
     * refusal frees the request. */
    if (is_over || (r->status < 400 &&
                    (rq->method == METHOD_GET || rq->method == METHOD_HEAD) &&
                    request_deny(rq))) {
        body_free(&r->body);
        return;
    }
    assert(request_may_answer(rq, r->status));
    rq->is_answered = true;
    rq->status = r->status;
    rq->handlers = NULL;
    metrics_add_label(METRIC_RESPONSES, metrics_code(r->status), 1);
    ticket_drop(rq);
    if (rq->is_upgrade || (rq->has_body && !rq->in.is_complete) ||
        atomic_load(&rq->service->server->is_stopping))
        rq->is_closing = true;

    connection_enter(c, &answer, 0);
    size = compose_head(rq, r, r->body ? r->body->size : r->text.size);
    if (r->is_broken || !take_body(rq, r, &size)) {
        connection_kill(c);
        return;
    }
    if (!rq->out.body)
        connection_end_clients(c);
    if (!connection_write(c, rq->service->scratch, size))
        return;

    if (!c->is_inside)
        response_send(c);
}

/* Refusals */

void
request_answer_problem_with(struct request *rq, unsigned status,
                            const struct problem *why, const char *allow,
                            const char *members)
{
    struct response r;

    response_init(&r, status, NULL, NULL);
    if (status == 401) /* RFC 6750 section 3 */
        response_header(&r, "WWW-Authenticate", "Bearer");
    if (status == 503 || status == 409 || status == 429)
        response_header(&r, "Retry-After", status == 429 ? "10" : "1");
    if (allow)
        response_header(&r, status == 415 ? "Accept-Encoding" : "Allow", "%s",
                        allow);
    response_answer_problem(rq, &r, why, members);
}

void
request_answer_problem(struct request *rq, unsigned status,
                       const struct problem *why)
{
    request_answer_problem_with(rq, status, why, NULL, NULL);
}

void
request_refuse(struct request *rq, unsigned status, const char *format, ...)
{
    struct problem why = {""};
    va_list arguments;

    va_start(arguments, format);
    problem_vset(&why, STATUS_INVALID, format, arguments);
    va_end(arguments);
    request_answer_problem(rq, status, &why);
}

bool
request_answer_events_later(struct request *rq)
{
    struct slice accept;
    struct response r;

    if (rq->method != METHOD_GET || rq->is_upgrade ||
        !request_header(rq, "accept", &accept) ||
        !accept_names(accept, "text/event-stream"))
        return false;
    response_init(&r, 200, "text/event-stream", "no-store");
    r.text = SLICE("retry: 1000\n\n");
    request_answer(rq, &r);
    return true;
}

/* Turns the JSON of a problem into a page for a client that prefers one. If
 * that fails, the JSON stays. */
static void
make_problem_page(struct request *rq, struct response *r, struct buf *text)
{
    const struct server_options *options = &rq->service->server->options;
    struct buf page = {.max = PROBLEM_PAGE_MAX};

    if (!options->write_problem)
        return;
    response_header(r, "Vary", REQUEST_PAGE_VARY);
    if (!rq->prefers_page || text->failed)
        return;
    options->write_problem(&page, r->status, rq->path, buf_slice(text));
    if (page.failed || page.size == 0) {
        buf_fini(&page);
        return;
    }
    buf_fini(text);
    *text = page;
    response_page(r);
}

void
response_answer_problem(struct request *rq, struct response *r,
                        const struct problem *why, const char *members)
{
    struct buf text = {.max = PROBLEM_MAX};

    /* Without this header caches may keep 404, 405 and 410 (RFC 9110 section
     * 15.1), and hide a document that is made later. */
    response_header(r, "Cache-Control", "no-store");
    if (rq->is_text) {
        r->content_type = "text/plain; charset=utf-8";
        buf_add_text(&text, why && why->text[0] ? why->text
                                                : response_reason(r->status));
        BUF_ADD(&text, "\n");
    } else {
        r->content_type = "application/problem+json";
        json_problem_begin(&text, r->status, response_reason(r->status), why);
        if (members)
            buf_add_text(&text, members);
        BUF_ADD(&text, ",\"request\":\"");
        buf_add_slice(&text, rq->id); /* plain */
        BUF_ADD(&text, "\"}\n");
        make_problem_page(rq, r, &text);
    }
    if (!text.failed)
        r->text = buf_slice(&text);
    request_answer(rq, r);
    buf_fini(&text);
}
