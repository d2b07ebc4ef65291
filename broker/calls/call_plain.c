/*
 * Plain calls: http, no redirects, an answer of limited size. This file speaks
 * HTTP/1.1 itself, over connections that libcurl has opened to addresses that
 * were judged (call_sockets.c), and keeps these connections for later calls.
 *
 *     libcurl connects --> adopt --> BUSY --whole answer--> KEPT --+
 *                                     ^                            |
 *                                     +------- the next call ------+
 *     closed: after any failure, surplus bytes, "Connection: close"; a KEPT one
 *     when it becomes readable, is old, or there are too many
 *
 * Measured with 2,000 callbacks, libcurl's own HTTP took two thirds of the time
 * of such a call. A call costs one sendmsg(), one recv() for the answer, and
 * one that shows that nothing has come before the request. The descriptor stays
 * in the loop's epoll set.
 *
 * Every byte of an answer is hostile: response_head.h and chunked.h read it
 * strictly, memory is bounded by CALL_HEAD_MAX and call->max_answer, and the
 * deadline is one of the whole call.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/calls/caller_state.h"
#include "proto/http/chunked.h"
#include "proto/http/response_head.h"
#include "proto/memory.h"

/* A kept connection is closed after so long without a call, as by libcurl. */
#define KEPT_US ((int64_t)118 * 1000000)

/* A longer buffer is freed after its call. */
#define KEPT_BUF_MAX ((size_t)1024)

/* The longest head of a request: URL, headers, and the lines of this file. */
#define REQUEST_MAX ((size_t)1024 * 1024)

/* A connection. */
struct plain {
    struct list node; /* KEPT: in host->kept, the last used first */
    struct list age;  /* KEPT: in call_plain.kept, the first to be closed first
                       */
    struct caller *caller;
    struct place *host;
    struct call *call; /* NULL: KEPT */
    uv_poll_t poll;
    int fd;
    int events; /* that the loop watches, of libuv */
    struct sockaddr_storage address;
    int64_t kept_us;       /* since when it is KEPT */
    struct alarm deadline; /* of the call */
    bool is_reused;        /* the call found it kept */

    /* The request. */
    struct buf request; /* its head, if it could not be sent at once */
    size_t n_unsent;    /* bytes of head and body */
    bool is_unsendable; /* the other side takes no more of it */

    /* The answer. */
    bool has_byte; /* one came */
    bool has_head; /* `answer` is valid: the last head is whole */
    struct head_seen seen;
    size_t n_before; /* bytes of interim heads */
    struct buf head; /* what came of the last head, if the answer is not
                        whole */
    struct buf body;
    struct response_head answer;
    struct chunked chunked;
    uint64_t n_left; /* bytes of the body to come, if it has a length */
};

/* Which calls */

bool
call_is_plain(const struct call *call)
{
    const struct place *host = call_host(call);

    if (call->take || call->max_redirects > 0 || call->stall_us > 0 ||
        strncasecmp(call->url, "http://", 7))
        return false;
    /* libcurl decodes and converts other names. */
    for (const char *c = host->key.data; *c; c++)
        if (*c == '%' || (unsigned char)*c >= 0x80)
            return false;
    return true;
}

/* Connections */

static void
on_closed(uv_handle_t *handle)
{
    struct plain *p = handle->data;

    buf_fini(&p->request);
    buf_fini(&p->head);
    buf_fini(&p->body);
    free(p);
}

static void
unkeep(struct plain *p)
{
    if (list_is_empty(&p->node))
        return;
    p->caller->plain.n_kept--;
    list_remove(&p->node);
    list_remove(&p->age);
}

/* Closes a connection. The host is gone with its last one, unless it has calls.
 */
static void
close_plain(struct plain *p)
{
    struct caller *c = p->caller;

    unkeep(p);
    loop_clear_alarm(c->loop, &p->deadline);
    uv_close((uv_handle_t *)&p->poll, on_closed);
    close(p->fd);
    p->host->n_plain--;
    place_leave(p->host);
}

static struct plain *
oldest_kept(const struct caller *c)
{
    return list_front(&c->plain.kept, offsetof(struct plain, age));
}

static void
on_old(struct alarm *alarm)
{
    struct caller *c = list_entry(alarm, struct caller, plain.old);
    int64_t now_us = clock_steady_us();
    struct plain *p;

    while ((p = oldest_kept(c)) && p->kept_us + KEPT_US <= now_us)
        close_plain(p);
    if (p)
        loop_set_alarm(c->loop, alarm, p->kept_us + KEPT_US);
}

static void
fini_long(struct buf *buf)
{
    if (buf->capacity > KEPT_BUF_MAX) {
        size_t max = buf->max;

        buf_fini(buf);
        buf_init(buf, max);
    }
    buf_clear(buf);
}

/* Keeps a connection for the next call to its host, which needs no more of them
 * than it may have calls. */
static void
keep_plain(struct plain *p)
{
    struct caller *c = p->caller;
    struct call_plain *all = &c->plain;

    fini_long(&p->request);
    fini_long(&p->head);
    fini_long(&p->body);
    p->kept_us = clock_steady_us();
    list_prepend(&p->host->kept, &p->node);
    list_append(&all->kept, &p->age);
    all->n_kept++;
    if (!all->old.is_set) {
        all->old.ring = on_old;
        loop_set_alarm(c->loop, &all->old, p->kept_us + KEPT_US);
    }
    if (p->host->n_plain > c->queue.host_connections)
        close_plain(list_entry(p->host->kept.prev, struct plain, node));
}

void
call_plain_make_room(struct caller *c)
{
    while (c->plain.n_kept > 0 &&
           c->plain.n_kept + c->transport.n_open > c->transport.kept)
        close_plain(oldest_kept(c));
}

/* True if the other side has neither closed the connection nor sent anything. A
 * byte that comes before the request is no answer to it. */
static bool
is_quiet(const struct plain *p)
{
    char byte;

    return recv(p->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           errno == EAGAIN;
}

/* Takes a kept connection to the call's host whose address may be called; NULL:
 * there is none. */
static struct plain *
take_kept(struct caller *c, struct call *call)
{
    struct place *host = call_host(call);
    struct list *node = host->kept.next;

    while (node != &host->kept) {
        struct plain *p = list_entry(node, struct plain, node);

        node = node->next;
        if (!call_may_reach(c, call, (const struct sockaddr *)&p->address))
            continue;
        if (is_quiet(p)) {
            unkeep(p);
            return p;
        }
        close_plain(p);
    }
    return NULL;
}

/* The request */

/* The path and the query of a URL that the queue has checked. */
static struct slice
target_of(const char *url)
{
    const char *from = url + strlen("http://");

    from += strcspn(from, "/?#");
    return (struct slice){from, strcspn(from, "#")};
}

static const char *
method_of(const struct call *call)
{
    switch (call->method) {
    case CALL_GET:
        return "GET ";
    case CALL_HEAD:
        return "HEAD ";
    case CALL_POST:
        break;
    }
    return "POST ";
}

/* Writes the host as it is compared; without port 80. */
static void
add_host(struct buf *to, struct slice host)
{
    if (slice_ends(host, ":80"))
        host.size -= 3;
    buf_add_slice(to, host);
}

static void
write_request(struct buf *to, const struct call *call)
{
    const struct place *host = call_host(call);
    struct slice target = target_of(call->url);
    bool has_accept = false;

    buf_clear(to);
    buf_add_text(to, method_of(call));
    if (target.size == 0 || target.data[0] != '/')
        BUF_ADD(to, "/");
    buf_add_slice(to, target);
    BUF_ADD(to, " HTTP/1.1\r\nHost: ");
    add_host(to, host->key);
    BUF_ADD(to, "\r\nUser-Agent: tidings/" TIDINGS_VERSION "\r\n");
    for (const char *const *h = call->headers; h && *h; h++) {
        has_accept |= !strncasecmp(*h, "Accept:", strlen("Accept:"));
        buf_add_text(to, *h);
        BUF_ADD(to, "\r\n");
    }
    if (!has_accept)
        BUF_ADD(to, "Accept: */*\r\n");
    if (call->method == CALL_POST) {
        BUF_ADD(to, "Content-Length: ");
        buf_add_number(to, call->body.size);
        BUF_ADD(to, "\r\n");
    }
    BUF_ADD(to, "\r\n");
}

static struct slice
body_of(const struct call *call)
{
    return call->method == CALL_POST ? call->body : (struct slice){NULL, 0};
}

/* Sends what the socket takes of the rest of a request, whose head is `head`.
 * False: the connection is broken. */
static bool
send_rest(struct plain *p, struct slice head)
{
    struct slice body = body_of(p->call);
    size_t n_sent = head.size + body.size - p->n_unsent;
    struct iovec parts[2];
    struct msghdr message = {.msg_iov = parts};
    ssize_t n;

    if (n_sent < head.size) {
        parts[message.msg_iovlen++] = (struct iovec){
            (char *)(uintptr_t)head.data + n_sent, head.size - n_sent};
        n_sent = head.size;
    }
    n_sent -= head.size;
    if (n_sent < body.size)
        parts[message.msg_iovlen++] = (struct iovec){
            (char *)(uintptr_t)body.data + n_sent, body.size - n_sent};
    n = sendmsg(p->fd, &message, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR || errno == ENOBUFS;
    p->n_unsent -= (size_t)n;
    return true;
}

static void on_event(uv_poll_t *poll, int status, int events);

/* Watches for the answer, and for room if there is more to send. */
static bool
watch(struct plain *p)
{
    bool has_more = p->n_unsent > 0 && !p->is_unsendable;
    int events = UV_READABLE | (has_more ? UV_WRITABLE : 0);

    if (events == p->events)
        return true;
    if (uv_poll_start(&p->poll, events, on_event))
        return false;
    p->events = events;
    return true;
}

static void on_deadline(struct alarm *alarm);

/* Sends a call's request. False: there is no memory, or the connection, which
 * was kept, is broken. If a new one is broken, its end follows: the other side
 * may have answered before. */
static bool
begin_exchange(struct plain *p, struct call *call)
{
    struct caller *c = p->caller;
    struct buf *request = &c->plain.request;

    p->call = call;
    p->has_byte = p->has_head = p->is_unsendable = false;
    p->seen = (struct head_seen){0};
    p->n_before = 0;
    p->body.max = call->max_answer;
    write_request(request, call);
    if (request->failed)
        return false;
    p->n_unsent = request->size + body_of(call).size;
    p->is_unsendable = !send_rest(p, buf_slice(request));
    if (p->is_unsendable && p->is_reused)
        return false;
    if (p->n_unsent > 0)
        buf_add_slice(&p->request, buf_slice(request));
    if (p->request.failed || !watch(p))
        return false;
    call->own.handle = p;
    call->own.is_plain = true;
    p->deadline.ring = on_deadline;
    loop_set_alarm(c->loop, &p->deadline,
                   call->own.began_us + call->timeout_us);
    return true;
}

bool
call_plain_begin(struct caller *c, struct call *call)
{
    struct plain *p;

    if (call_is_once(call))
        return false;
    while ((p = take_kept(c, call))) {
        p->is_reused = true;
        if (begin_exchange(p, call))
            return true;
        close_plain(p);
    }
    return false;
}

/* The end of a call */

static void
report(struct call *call)
{
    call->final_url = call->url;
    call->took_us = clock_steady_us() - call->own.began_us;
    call_queue_release(call);
    call->done(call); /* which may free or start it */
}

/* Takes the call off its connection. It is not this file's any more: it may go
 * on to connect. */
static struct call *
release_call(struct plain *p)
{
    struct call *call = p->call;

    loop_clear_alarm(p->caller->loop, &p->deadline);
    p->call = NULL;
    call->own.handle = NULL;
    call->own.is_plain = false;
    return call;
}

/* Reports the outcome, which is lent from the connection. Then keeps the
 * connection or closes it. */
static void
end_exchange(struct plain *p, bool is_kept)
{
    report(release_call(p));
    buf_clear(&p->caller->plain.links);
    if (is_kept)
        keep_plain(p);
    else
        close_plain(p);
}

static void
fail(struct plain *p, enum call_failure failure, const char *why)
{
    call_fail(p->call, failure, "%s", why);
    end_exchange(p, false);
}

static void
on_deadline(struct alarm *alarm)
{
    struct plain *p = list_entry(alarm, struct plain, deadline);

    call_fail(p->call, CALL_TIMEOUT, "no whole answer within %lld ms",
              (long long)p->call->timeout_us / 1000);
    end_exchange(p, false);
}

static void
add_link(struct buf *links, struct slice value)
{
    if (links->size > 0)
        BUF_ADD(links, ", ");
    buf_add_slice(links, value);
}

static void
note_first(struct slice *to, struct slice value)
{
    if (!to->data)
        *to = value;
}

/* Takes what the call reports from the fields of the head. */
static void
note_fields(struct call *call, struct slice fields, struct buf *links)
{
    struct slice retry_after = {NULL, 0};
    struct head_field f;

    while (response_head_next(&fields, &f)) {
        if (slice_is_word(f.name, "Content-Type"))
            note_first(&call->content_type, f.value);
        else if (slice_is_word(f.name, "ETag"))
            note_first(&call->etag, f.value);
        else if (slice_is_word(f.name, "Last-Modified"))
            note_first(&call->last_modified, f.value);
        else if (slice_is_word(f.name, "Retry-After"))
            note_first(&retry_after, f.value);
        else if (slice_is_word(f.name, "Link"))
            add_link(links, f.value);
    }
    call->retry_after_us = call_retry_after_us(retry_after);
    call->links = buf_slice(links);
}

/* Reports an answer: it is whole, or as long as it may be. */
static void
end_well(struct plain *p, bool is_cut, bool is_kept)
{
    struct call *call = p->call;
    struct buf *links = &p->caller->plain.links;

    call->failure = CALL_ANSWERED;
    call->status = p->answer.status;
    call->is_cut = is_cut;
    call->answer = buf_slice(&p->body);
    note_fields(call, p->answer.fields, links);
    if (links->failed || p->body.failed)
        fail(p, CALL_MEMORY, NO_MEMORY);
    else
        end_exchange(p, is_kept && p->n_unsent == 0);
}

/* The connection has ended, or is broken. A kept one may have been closed by a
 * server that was tired of waiting, before it saw the request: then the call is
 * made once more, on a new connection. */
static void
end_broken(struct plain *p, bool is_reset)
{
    struct caller *c = p->caller;
    struct call *call = p->call;

    if (p->has_head && !is_reset && !p->answer.body.is_chunked &&
        !p->answer.body.has_length) {
        end_well(p, false, false);
        return;
    }
    if (p->is_reused && !p->has_byte) {
        release_call(p);
        close_plain(p);
        if (!call_transport_begin(c, call, true))
            report(call);
        return;
    }
    if (is_reset)
        fail(p, CALL_BROKEN, "the connection was reset");
    else if (!p->has_byte)
        fail(p, CALL_BROKEN, "the connection was closed without an answer");
    else
        fail(p, CALL_BROKEN,
             p->has_head ? "the answer ended early"
                         : "the answer's head ended early");
}

/* The answer */

static void
fail_head(struct plain *p, enum status rc, const struct problem *why)
{
    if (rc == STATUS_TOO_LARGE)
        call_fail(p->call, CALL_BROKEN,
                  "the answer's headers are longer than %zu bytes",
                  CALL_HEAD_MAX);
    else if (rc == STATUS_UNSUPPORTED)
        call_fail(p->call, CALL_BROKEN, "the answer is not of HTTP/1");
    else
        call_fail(p->call, CALL_BROKEN, "the answer is malformed: %s",
                  why->text);
    end_exchange(p, false);
}

/* True if an answer with this head has no body, whatever the head says. */
static bool
has_no_body(const struct plain *p)
{
    unsigned status = p->answer.status;

    return p->call->method == CALL_HEAD || status == 204 || status == 304;
}

static void
begin_body(struct plain *p)
{
    struct head_body *body = &p->answer.body;

    p->has_head = true;
    if (has_no_body(p))
        *body = (struct head_body){.has_length = true};
    if (body->is_chunked)
        chunked_init(&p->chunked);
    p->n_left = body->length;
}

/* Reads heads off the front of `bytes`, interim ones included, up to the last
 * one. STATUS_AGAIN: that is not whole. */
static enum status
read_heads(struct plain *p, struct slice *bytes, struct problem *why)
{
    for (;;) {
        size_t n = p->n_before;
        enum status rc = response_head_read(&p->answer, *bytes, &p->seen, why);

        n += rc ? bytes->size : p->answer.size;
        if ((!rc || rc == STATUS_AGAIN) && n > CALL_HEAD_MAX)
            return STATUS_TOO_LARGE;
        if (!rc && p->answer.status == 101)
            return problem(why, STATUS_INVALID,
                           "it changes the protocol unasked");
        if (rc || p->answer.status >= 200)
            return rc;
        p->n_before = n;
        slice_skip(bytes, p->answer.size);
    }
}

/* Keeps bytes of the body, up to the limit. False: there are more. */
static bool
keep_body(struct plain *p, struct slice data)
{
    size_t room = p->call->max_answer - p->body.size;

    buf_add(&p->body, data.data, data.size < room ? data.size : room);
    return data.size <= room;
}

enum body_state { BODY_MORE, BODY_WHOLE, BODY_CUT, BODY_BROKEN };

/* Reads the body off the front of `bytes`. */
static enum body_state
read_body(struct plain *p, struct slice *bytes, struct problem *why)
{
    const struct head_body *body = &p->answer.body;
    struct slice data = *bytes;

    if (body->is_chunked) {
        for (;;) {
            switch (chunked_read(&p->chunked, bytes, &data, why)) {
            case CHUNKED_DATA:
                if (!keep_body(p, data))
                    return BODY_CUT;
                break;
            case CHUNKED_MORE:
                return BODY_MORE;
            case CHUNKED_END:
                return BODY_WHOLE;
            case CHUNKED_BROKEN:
                return BODY_BROKEN;
            }
        }
    }
    if (body->has_length && data.size > p->n_left)
        data.size = p->n_left;
    if (data.size > 0) {
        slice_skip(bytes, data.size);
        if (!keep_body(p, data))
            return BODY_CUT;
    }
    p->n_left -= body->has_length ? data.size : 0;
    return body->has_length && p->n_left == 0 ? BODY_WHOLE : BODY_MORE;
}

/* Keeps `head`, which may be a part of p->head, for when more has come. */
static void
keep_head(struct plain *p, struct slice head)
{
    if (p->head.size == 0)
        buf_add_slice(&p->head, head);
    else
        memmove(p->head.data, head.data, head.size);
    p->head.size = head.size;
}

/* Goes on with the body, behind `head`; empty: it is kept. Returns false if the
 * call has ended. */
static bool
take_body(struct plain *p, struct slice head, struct slice bytes)
{
    size_t offset = head.size ? (size_t)(p->answer.fields.data - head.data) : 0;
    struct problem why = {""};

    switch (read_body(p, &bytes, &why)) {
    case BODY_MORE:
        if (p->body.failed) {
            fail(p, CALL_MEMORY, NO_MEMORY);
            return false;
        }
        if (head.size > 0) {
            keep_head(p, head);
            p->answer.fields.data = p->head.data + offset;
        }
        return true;
    case BODY_WHOLE:
        end_well(p, false, p->answer.is_kept && bytes.size == 0);
        break;
    case BODY_CUT:
        end_well(p, true, false);
        break;
    case BODY_BROKEN:
        fail_head(p, STATUS_INVALID, &why);
        break;
    }
    return false;
}

/* Returns false if the call has ended. */
static bool
take_head(struct plain *p, struct slice bytes)
{
    struct problem why = {""};
    struct slice head;
    enum status rc;

    if (p->head.size > 0) {
        buf_add_slice(&p->head, bytes);
        bytes = buf_slice(&p->head);
    }
    rc = read_heads(p, &bytes, &why);
    if (!rc) {
        begin_body(p);
        head = (struct slice){bytes.data, p->answer.size};
        slice_skip(&bytes, head.size);
        return take_body(p, head, bytes);
    }
    if (rc == STATUS_AGAIN)
        keep_head(p, bytes);
    else
        fail_head(p, rc, &why);
    return rc == STATUS_AGAIN;
}

/* Reads once. Returns false if the call has ended. */
static bool
receive(struct plain *p)
{
    char *bytes = p->caller->plain.bytes;
    ssize_t n = recv(p->fd, bytes, CALL_PLAIN_READ_SIZE, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0) {
        end_broken(p, n < 0);
        return false;
    }
    p->has_byte = true;
    if (p->has_head)
        return take_body(p, (struct slice){NULL, 0},
                         (struct slice){bytes, (size_t)n});
    return take_head(p, (struct slice){bytes, (size_t)n});
}

/* A kept connection that becomes readable is closed: the other side has closed
 * it, or sent what nobody asked for. */
static void
on_event(uv_poll_t *poll, int status, int events)
{
    struct plain *p = poll->data;

    if (!p->call) {
        close_plain(p);
        return;
    }
    if (status < 0)
        p->events = 0; /* the loop has stopped by itself */
    if (events & UV_WRITABLE)
        p->is_unsendable = !send_rest(p, buf_slice(&p->request));
    if ((status < 0 || events & UV_READABLE) && !receive(p))
        return;
    if (!watch(p))
        fail(p, CALL_MEMORY, NO_MEMORY);
}

/* For the caller */

static struct plain *
plain_new(struct caller *c, struct place *host, int fd)
{
    struct plain *p = memory_new(1, sizeof(*p));
    socklen_t size = sizeof(p->address);

    if (getpeername(fd, (struct sockaddr *)&p->address, &size) ||
        uv_poll_init(loop_uv(c->loop), &p->poll, fd)) {
        free(p);
        return NULL;
    }
    p->poll.data = p;
    p->caller = c;
    p->fd = fd;
    p->host = host;
    host->n_plain++;
    host->n_users++;
    list_init(&p->node);
    list_init(&p->age);
    buf_init(&p->request, REQUEST_MAX);
    buf_init(&p->head, CALL_HEAD_MAX + CALL_PLAIN_READ_SIZE);
    buf_init(&p->body, 0);
    return p;
}

void
call_plain_adopt(struct caller *c, struct call *call, int fd)
{
    struct plain *p = plain_new(c, call_host(call), fd);

    if (p && begin_exchange(p, call))
        return;
    call_fail(call, CALL_MEMORY, NO_MEMORY);
    report(call);
    if (p)
        close_plain(p);
    else
        close(fd);
}

void
call_plain_stop(struct call *call)
{
    struct plain *p = call->own.handle;

    release_call(p);
    close_plain(p);
}

void
call_plain_init(struct call_plain *all)
{
    list_init(&all->kept);
    buf_init(&all->request, REQUEST_MAX);
    buf_init(&all->links, 2 * CALL_HEAD_MAX);
}

void
call_plain_close(struct caller *c)
{
    struct plain *p;

    while ((p = oldest_kept(c)))
        close_plain(p);
    loop_clear_alarm(c->loop, &c->plain.old);
}

void
call_plain_fini(struct call_plain *all)
{
    buf_fini(&all->request);
    buf_fini(&all->links);
}
