/*
 * answer.c - sends answers: the head, and a body as the client takes it.
 *
 *     request_answer --> answer_send --> room left? next piece, or done
 *                          ^   ^   |
 *                     room-+   |   +--> not in memory: job on the worker pool
 *                              +------------- job done
 */
#include <assert.h>
#include <stdio.h>

#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/net/connection.h"
#include "broker/net/exchange.h"
#include "broker/net/response.h"
#include "broker/net/service.h"
#include "broker/net/stream.h"
#include "broker/net/tcp.h"
#include "proto/buf.h"

/* The most bytes of a write: bytes that the socket does not take must be
 * copied. */
#define WRITE_MAX 65536

/* Writes per turn; then the other connections have theirs. */
#define WRITES_AT_ONCE 4

/* Longest head: a status line, the lines that compose_head adds by itself, and
 * the handler's. */
#define HEAD_MAX (RESPONSE_HEADERS_MAX + 512)

/* The longest body that is sent together with the head. */
#define SMALL_BODY (SCRATCH_SIZE - HEAD_MAX)

/* The head */

/* The Connection lines. 426 must name the required protocol (RFC 9110 section
 * 15.5.22), but only to clients that can speak it. */
static const char *
connection_lines(const struct request *rq, unsigned status)
{
    if (status == 426 && !rq->is_1_0)
        return rq->is_closing ? "Upgrade: websocket\r\n"
                                "Connection: upgrade, close\r\n"
                              : "Upgrade: websocket\r\n"
                                "Connection: upgrade\r\n";
    if (rq->is_closing)
        return "Connection: close\r\n";
    return rq->is_1_0 ? "Connection: keep-alive\r\n" : "";
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
    buf_add_text(&head, service_date(s));
    BUF_ADD(&head, "\r\nX-Content-Type-Options: nosniff\r\n");
    buf_add_text(&head, connection_lines(rq, r->status));
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
    buf_add(&head, r->headers, r->headers_size);
    BUF_ADD(&head, "\r\n");
    return head.size;
}

/* The body */

/* Asks the body for its next piece. */
static enum body_result
next_piece(struct request *rq, bool may_block)
{
    enum body_result result;

    if (!rq->is_from_file)
        return rq->body->next(rq->body, may_block, &rq->piece);
    result = rq->body->next_in_file(rq->body, may_block, &rq->in_file);
    if (result == BODY_DATA)
        rq->piece = (struct slice){NULL, rq->in_file.size};
    return result;
}

static void
drop_body(struct request *rq)
{
    if (rq->body)
        rq->body->free(rq->body);
    rq->body = NULL;
    rq->piece = (struct slice){NULL, 0};
}

/* On a worker. The request is only this job's until the job is done. */
static void
read_piece(struct job *job)
{
    struct request *rq = list_entry(job, struct request, job);

    rq->result = next_piece(rq, true);
}

static void
work_done(struct job *job)
{
    struct request *rq = list_entry(job, struct request, job);
    struct connection *c = rq->connection;

    rq->is_working = false;
    if (!c) {
        request_free(rq);
        return;
    }
    connection_excuse(c);
    answer_send(c);
}

/* Asks the body for its next piece. BODY_WAITS: a worker was asked. */
static enum body_result
advance_body(struct request *rq)
{
    enum body_result result = rq->result;

    rq->result = BODY_WAITS;
    if (result == BODY_WAITS)
        result = next_piece(rq, false);
    if (result == BODY_DATA && rq->piece.size > rq->left)
        result = BODY_FAILED; /* more than was announced */
    if (result == BODY_END && rq->left)
        result = BODY_FAILED;
    if (result == BODY_WAITS) {
        rq->is_working = true;
        rq->job = (struct job){read_piece, work_done};
        service_work(rq->service, &rq->job);
    }
    return result;
}

/* The rest of the body cannot be read. Cuts the connection, so that the client
 * does not take its part for the whole. */
static void
cut_off(struct connection *c)
{
    diag(DIAG_WARNING, "net", "an answer could not be read to its end");
    connection_kill(c);
}

/* Sends a piece that stays in its file, as far as there is room. Only this
 * thread sends, and only this thread closes the socket and the file, so both
 * descriptors are still what they were. A job on the worker pool reads the
 * bytes into the page cache and sends nothing. The kernel may drop some of them
 * before there is room: this thread then waits for the disk. */
static bool
send_from_file(struct connection *c)
{
    struct request *rq = c->request;
    ssize_t n = connection_send_file(c, &rq->in_file);

    if (n == -2)
        cut_off(c);
    if (n < 0)
        return false;
    rq->in_file.at += (uint64_t)n;
    rq->in_file.size -= (size_t)n;
    rq->piece.size -= (size_t)n;
    rq->left -= (size_t)n;
    return true;
}

/* Writes at most WRITE_MAX bytes of the piece at hand. */
static bool
write_some(struct connection *c)
{
    struct request *rq = c->request;
    size_t n = rq->piece.size < WRITE_MAX ? rq->piece.size : WRITE_MAX;

    if (rq->left <= WRITE_MAX)
        connection_end_proxied(c);
    if (rq->is_from_file)
        return send_from_file(c);
    if (!connection_write(c, rq->piece.data, n))
        return false;
    rq->piece.data += n;
    rq->piece.size -= n;
    rq->left -= n;
    return true;
}

/* Ends the answer. The connection continues, or ends so that the client can
 * read the answer. */
static void
finish_answer(struct connection *c)
{
    struct request *rq = c->request;
    bool is_coming = rq->is_open_ended || (rq->has_body && !rq->is_complete);

    if (!rq->is_closing) {
        exchange_next(c);
    } else if (!socket_say_end(&c->socket)) {
        connection_await_room(c);
    } else if (is_coming || connection_has_unread(c)) {
        c->request = NULL;
        request_free(rq);
        connection_linger(c);
    } else {
        socket_end(&c->socket);
        connection_kill(c);
    }
}

void
answer_send(struct connection *c)
{
    struct request *rq = c->request;

    for (int i = 0; i < WRITES_AT_ONCE && rq->body && !rq->is_working; i++) {
        enum body_result result = BODY_DATA;

        if (connection_is_choked(c) || c->is_awaiting_room)
            break;
        if (!rq->piece.size || rq->result != BODY_WAITS)
            result = advance_body(rq);
        if (result == BODY_FAILED) {
            cut_off(c);
            return;
        }
        if (result == BODY_END)
            drop_body(rq);
        else if (result == BODY_DATA && !write_some(c))
            return;
    }
    if (rq->is_working || c->phase == PHASE_GONE)
        return;
    if (rq->body || connection_is_choked(c) || !connection_narrow(c)) {
        connection_await_room(c);
        return;
    }
    finish_answer(c);
}

void
answer_upgrade(struct request *rq, const char *accept,
               const struct stream_terms *terms)
{
    const char *protocol = terms->subprotocol, *deflate = terms->deflate;
    char head[512];
    int n = snprintf(head, sizeof(head),
                     "HTTP/1.1 101 Switching Protocols\r\n"
                     "Date: %s\r\n"
                     "Upgrade: websocket\r\n"
                     "Connection: upgrade\r\n"
                     "Sec-WebSocket-Accept: %s\r\n"
                     "%s%s%s%s%s%s\r\n",
                     service_date(rq->service), accept,
                     protocol ? "Sec-WebSocket-Protocol: " : "",
                     protocol ? protocol : "", protocol ? "\r\n" : "",
                     deflate ? "Sec-WebSocket-Extensions: " : "",
                     deflate ? deflate : "", deflate ? "\r\n" : "");

    assert(request_may_answer(rq, 101));
    metrics_add_label(METRIC_RESPONSES, metrics_code(101), 1);
    connection_write(rq->connection, head, (size_t)n);
}

void
answer_begin_long(struct request *rq, const struct response *r,
                  struct slice opening)
{
    char *scratch = rq->service->scratch;
    size_t size;

    assert(request_may_answer(rq, r->status));
    rq->is_closing = true;
    metrics_add_label(METRIC_RESPONSES, metrics_code(r->status), 1);
    size = compose_head(rq, r, 0);
    if (opening.size > SCRATCH_SIZE - size)
        opening.size = 0;
    memcpy(scratch + size, opening.data, opening.size);
    connection_write(rq->connection, scratch, size + opening.size);
}

/* Fills the rest of the scratch with a small body, as far as it is in memory;
 * returns the new size. Frees a body that fits completely: the client then has
 * its answer, and the connection must be ready for the next request. */
static size_t
gather_body(struct request *rq, size_t size)
{
    char *scratch = rq->service->scratch;

    while (rq->body && rq->left <= SCRATCH_SIZE - size) {
        enum body_result result = next_piece(rq, false);

        if (result != BODY_DATA || rq->piece.size > rq->left) {
            rq->result = result; /* for advance */
            break;
        }
        memcpy(scratch + size, rq->piece.data, rq->piece.size);
        size += rq->piece.size;
        rq->left -= rq->piece.size;
        rq->piece.size = 0;
    }
    if (rq->result == BODY_END && !rq->left)
        drop_body(rq);
    return size;
}

/* Makes a body of a text that does not fit beside the head. */
static bool
keep_text(struct request *rq, struct slice text)
{
    struct buf copy;

    buf_init(&copy, text.size);
    buf_add_slice(&copy, text);
    rq->body = body_of_buf(&copy);
    buf_fini(&copy);
    return rq->body != NULL;
}

/* Takes over the body; false: no memory. */
static bool
take_body(struct request *rq, struct response *r, size_t *size)
{
    rq->result = BODY_WAITS;
    rq->body = r->body;
    r->body = NULL;
    if (rq->method == METHOD_HEAD) {
        drop_body(rq);
        return true;
    }
    if (!rq->body && r->text.size > SMALL_BODY && !keep_text(rq, r->text))
        return false;
    if (rq->body) {
        rq->left = rq->body->size;
        if (rq->left <= SMALL_BODY)
            *size = gather_body(rq, *size);
        rq->is_from_file =
            rq->body && rq->body->next_in_file && !rq->connection->socket.ssl;
        if (rq->is_from_file && rq->left > UNSENT_MAX)
            connection_widen(rq->connection);
    } else if (r->text.size) {
        memcpy(rq->service->scratch + *size, r->text.data, r->text.size);
        *size += r->text.size;
    }
    return true;
}

void
request_answer(struct request *rq, struct response *r)
{
    struct connection *c = rq->connection;
    size_t size = 0;

    if (rq->is_answered || !c || c->phase == PHASE_GONE) {
        if (r->body)
            r->body->free(r->body);
        r->body = NULL;
        rq->is_answered = true;
        return;
    }
    assert(request_may_answer(rq, r->status));
    rq->is_answered = true;
    rq->handlers = NULL;
    metrics_add_label(METRIC_RESPONSES, metrics_code(r->status), 1);
    ticket_drop(rq);
    if (rq->is_upgrade || (rq->has_body && !rq->is_complete) ||
        atomic_load(&rq->service->server->is_stopping))
        rq->is_closing = true;

    connection_enter(c, PHASE_ANSWER, 0);
    size = compose_head(rq, r, r->body ? r->body->size : r->text.size);
    if (!take_body(rq, r, &size)) {
        connection_kill(c);
        return;
    }
    if (!rq->body)
        connection_end_proxied(c);
    if (!connection_write(c, rq->service->scratch, size))
        return;

    if (!c->is_inside)
        answer_send(c);
}
