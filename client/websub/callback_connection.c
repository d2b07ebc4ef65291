/*
 * callback_connection.c - one connection to a callback: its requests and their
 * answers.
 *
 *            +-- answered --+--- callback_answer --- PHASE_WAIT
 *            v              |                            ^
 *     PHASE_HEAD --> PHASE_BODY ------ later ------------+
 *         |              |
 *         +--------------+--- refused, or the last ---> PHASE_LINGER --> closed
 *
 * `in` holds the bytes that were read, the head at its front. The head stays
 * until its request is answered: it is parsed again when the body is whole. If
 * the socket does not take all of an answer at once, the rest waits in `out`,
 * and nothing is read meanwhile. So pipelined requests are answered in
 * order, and a client that does not read cannot ask for more.
 *
 * Why no library: hubs of the Internet reach a callback, often through a proxy.
 * If proxy and callback understand a head differently, one client can speak for
 * another. So one strict reader serves here and in the broker; proto says how
 * many bad heads the libraries accept. A library would do little more than the
 * sockets, and its own bounds would have to be watched from outside.
 */
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "client/websub/callback.h"
#include "proto/datetime.h"
#include "proto/http/chunked.h"
#include "proto/http/request_head.h"
#include "proto/http/response_head.h"

/* A head has so long from its first byte on, and so has each PROGRESS_BYTES of
 * a body, an answer, and the silence between two requests. That is 1 KB/s, as
 * in the broker. */
#define PATIENCE_MS    60000
#define PROGRESS_BYTES (60 * 1024)

/* Memory of all bodies under way, and the share of one route, unless its
 * longest body needs more. Beyond it, the answer is 503. */
#define BODIES_MAX   ((size_t)256 * 1024 * 1024)
#define BODIES_SHARE (BODIES_MAX / 4)

/* After the last answer the connection reads for so long, and so much, before
 * it is closed: a reset would take the answer away from a client that still
 * sends. Both sides' buffers take some 10 MB. */
#define LINGER_MS    2000
#define LINGER_BYTES (16 * 1024 * 1024)

/* The longest head, and so much of a body at once. */
#define IN_SIZE (2 * REQUEST_HEAD_MAX)

/* Bytes of an answer: the longest text repeats a challenge of the target. */
#define ANSWER_MAX (REQUEST_TARGET_MAX + 1024)

enum phase { PHASE_HEAD, PHASE_BODY, PHASE_WAIT, PHASE_LINGER };

struct callback_connection {
    struct list node;
    struct td_callback *callback;
    int fd;
    struct descriptor *descriptor;
    struct timer timer;
    enum phase phase;
    bool is_late; /* its time is over */
    bool is_last; /* no request is read after this one */
    struct head_seen seen;

    /* PHASE_BODY */
    struct route *route; /* NULL: it is gone */
    bool is_chunked;
    struct chunked chunked;
    uint64_t left;     /* bytes to come, if not is_chunked */
    size_t n_progress; /* bytes that the next PROGRESS_BYTES have */
    struct buf body;
    size_t head_size; /* of `in` */

    struct buf out; /* to send from out_at on; size 0: nothing */
    size_t out_at;
    size_t drained; /* PHASE_LINGER */
    size_t in_size;
    char in[IN_SIZE];
};

/* Its life */

/* Subtracts the body's memory from the sums. */
static void
uncount_body(struct callback_connection *c)
{
    c->callback->n_bodies -= c->body.capacity;
    if (c->route)
        c->route->n_bodies -= c->body.capacity;
}

static void
drop_body(struct callback_connection *c)
{
    uncount_body(c);
    buf_fini(&c->body);
    c->route = NULL;
}

static void
close_connection(struct callback_connection *c)
{
    drop_body(c);
    list_remove(&c->node);
    c->callback->n_connections--;
    descriptor_free(c->descriptor);
    timer_stop(&c->timer);
    close(c->fd);
    buf_fini(&c->out);
    free(c);
}

bool
callback_connections_evict(struct td_callback *callback)
{
    struct callback_connection *c;

    list_walk (c, &callback->connections, node)
        if (c->phase != PHASE_BODY && c->phase != PHASE_WAIT) {
            close_connection(c);
            return true;
        }
    return false;
}

void
callback_connections_close(struct td_callback *callback)
{
    struct callback_connection *c;

    list_until_empty (c, &callback->connections, node)
        close_connection(c);
}

void
callback_connections_forget(struct td_callback *callback,
                            const struct route *route)
{
    struct callback_connection *c;

    list_walk (c, &callback->connections, node)
        if (c->route == route)
            drop_body(c);
}

/* Gives the client all its time again. */
static void
renew_patience(struct callback_connection *c)
{
    c->is_late = false;
    timer_start(&c->timer, PATIENCE_MS);
}

/* Answers */

/* Answers the request, and awaits the next one unless this one is the last. A
 * browser must never take the text for a page (W-058). */
static void
send_reply(struct callback_connection *c, const struct reply *reply)
{
    char date[HTTPDATE_SIZE], retry[40] = "";
    unsigned status = reply->status;

    httpdate_write(date, time(NULL));
    if (reply->retry_after_s > 0)
        snprintf(retry, sizeof(retry), "Retry-After: %u\r\n",
                 reply->retry_after_s);
    buf_add_format(&c->out,
                   "HTTP/1.1 %u %s\r\n"
                   "Date: %s\r\n"
                   "Content-Type: %s\r\n"
                   "X-Content-Type-Options: nosniff\r\n"
                   "Content-Length: %zu\r\n"
                   "%s%s"
                   "Connection: %s\r\n"
                   "\r\n",
                   status, response_reason(status), date,
                   reply->type ? reply->type : "text/plain", reply->text.size,
                   status == 405 ? "Allow: GET, POST\r\n" : "", retry,
                   c->is_last ? "close" : "keep-alive");
    buf_add_slice(&c->out, buf_slice(&reply->text));
    c->out.failed |= reply->text.failed;
    c->phase = c->is_last ? PHASE_LINGER : PHASE_HEAD;
    renew_patience(c);
}

static void
send_answer(struct callback_connection *c, unsigned status, struct slice text)
{
    struct reply reply = {.status = status, .text.max = ANSWER_MAX};

    buf_add_slice(&reply.text, text);
    send_reply(c, &reply);
    buf_fini(&reply.text);
}

/* Answers, and reads no further request, as its begin is unknown. */
static void
refuse_request(struct callback_connection *c, unsigned status, const char *text)
{
    drop_body(c);
    c->is_last = true;
    send_answer(c, status, slice_of(text));
}

/* Drops the first `size` bytes that were read. */
static void
consume_bytes(struct callback_connection *c, size_t size)
{
    c->in_size -= size;
    memmove(c->in, c->in + size, c->in_size);
}

static struct slice
head_field(const struct request_head *h, const char *name)
{
    size_t at = 0;
    const struct head_field *f = request_head_field(h, name, &at);

    return f ? f->value : SLICE("");
}

/* Hands a whole request over to its route, and answers it. */
static void
hand_over(struct callback_connection *c, const struct request_head *h)
{
    struct route *route = c->route;
    struct arrival arrival = {
        .from = c,
        .is_post = slice_is(h->method, "POST"),
        .path = h->path,
        .query = h->query,
        .type = head_field(h, "Content-Type"),
        .signature = head_field(h, "X-Hub-Signature"),
        .delivery_id = head_field(h, "Tidings-Delivery"),
        .webhook_id = head_field(h, "webhook-id"),
        .webhook_timestamp = head_field(h, "webhook-timestamp"),
        .webhook_signature = head_field(h, "webhook-signature"),
        .body = c->body,
    };
    struct reply reply = {.status = 404, .text.max = REQUEST_TARGET_MAX};

    uncount_body(c); /* the route may take it */
    buf_init(&c->body, 0);
    c->route = NULL;
    route->fn(&arrival, &reply, route->user);
    if (reply.is_later) {
        c->phase = PHASE_WAIT;
        timer_stop(&c->timer);
    } else {
        send_reply(c, &reply);
    }
    buf_fini(&reply.text);
    buf_fini(&arrival.body);
}

/* Bodies */

#define TOO_LONG "the body is longer than is taken here"
#define TOO_MANY "too many bodies are under way: try again later"

/* Bytes of memory that one route's bodies may have. */
static size_t
share_of(const struct route *route)
{
    return route->max_bytes > BODIES_SHARE ? route->max_bytes : BODIES_SHARE;
}

/* Keeps `data` of the body. False: the body was refused. */
static bool
keep_bytes(struct callback_connection *c, struct slice data)
{
    struct td_callback *callback = c->callback;
    size_t before = c->body.capacity;

    if (data.size > c->body.max - c->body.size) {
        refuse_request(c, 413, TOO_LONG);
        return false;
    }
    buf_add_slice(&c->body, data);
    callback->n_bodies += c->body.capacity - before;
    c->route->n_bodies += c->body.capacity - before;
    if (c->body.failed || callback->n_bodies > BODIES_MAX ||
        c->route->n_bodies > share_of(c->route)) {
        refuse_request(c, 503, TOO_MANY);
        return false;
    }
    c->n_progress += data.size;
    if (c->n_progress >= PROGRESS_BYTES) {
        c->n_progress = 0;
        renew_patience(c);
    }
    return true;
}

/* Takes the chunks of the body off the front of `bytes`. True: it is whole.
 * False: more has to come, or it was refused. */
static bool
read_chunked(struct callback_connection *c, struct slice *bytes)
{
    struct problem why = {""};
    struct slice data;

    for (;;)
        switch (chunked_read(&c->chunked, bytes, &data, &why)) {
        case CHUNKED_DATA:
            if (!keep_bytes(c, data))
                return false;
            break;
        case CHUNKED_MORE:
            return false;
        case CHUNKED_END:
            return true;
        case CHUNKED_BROKEN:
            refuse_request(c, 400, why.text);
            return false;
        }
}

/* Reads the available part of the body. False: more has to come. */
static bool
take_body(struct callback_connection *c)
{
    struct slice bytes = {c->in + c->head_size, c->in_size - c->head_size};
    struct slice data = bytes;
    struct head_seen seen = {0};
    struct problem why = {""};
    struct request_head h;
    bool is_whole;

    if (!bytes.size)
        return false;
    if (!c->route) {
        refuse_request(c, 404, "");
        return true;
    }
    if (c->is_chunked) {
        is_whole = read_chunked(c, &bytes);
    } else {
        if (data.size > c->left)
            data.size = (size_t)c->left;
        slice_skip(&bytes, data.size);
        c->left -= data.size;
        is_whole = keep_bytes(c, data) && !c->left;
    }
    if (!is_whole) {
        c->in_size = c->head_size;
    } else if (request_head_read(&h, (struct slice){c->in, c->head_size}, &seen,
                                 &why)) {
        refuse_request(c, 400, why.text); /* cannot be: it was parsed before */
    } else {
        hand_over(c, &h);
        consume_bytes(c, c->in_size - bytes.size);
    }
    return c->phase != PHASE_BODY;
}

/* Heads */

static bool
is_known_method(struct slice method)
{
    static const char *const methods[] = {"GET",    "POST",    "HEAD", "PUT",
                                          "DELETE", "OPTIONS", "PATCH"};

    for (size_t i = 0; i < N_ELEMENTS(methods); i++)
        if (slice_is(method, methods[i]))
            return true;
    return false;
}

/* A proxy may have put a path before the token, or taken one away. Compares all
 * routes, and all bytes of each: the time does not depend on the tokens. */
static struct route *
find_route(const struct td_callback *callback, struct slice path)
{
    struct route *r, *found = NULL;
    const char *token;

    if (callback->only)
        return callback->only;
    if (path.size <= TOKEN_SIZE)
        return NULL;
    token = path.data + path.size - TOKEN_SIZE;
    if (token[-1] != '/')
        return NULL;
    list_walk (r, &callback->routes, node)
        if (!CRYPTO_memcmp(r->token, token, TOKEN_SIZE))
            found = r;
    return found;
}

/* Answers a request that can be refused before its body has come, and returns
 * true then. Tests that need the route follow the 404: a client that does not
 * know one learns nothing (W-029). */
static bool
refuse_head(struct callback_connection *c, const struct request_head *h)
{
    struct route *route = find_route(c->callback, h->path);
    bool is_post = slice_is(h->method, "POST");
    bool has_body = h->body.is_chunked || h->body.length > 0;

    c->is_last = !h->is_kept || has_body;
    if (h->is_https)
        refuse_request(c, 400, "https:// on a connection without TLS");
    else if (!is_known_method(h->method))
        refuse_request(c, 501, "no such method");
    else if (!route)
        send_answer(c, 404, SLICE(""));
    else if (!is_post && !slice_is(h->method, "GET"))
        send_answer(c, 405, SLICE(""));
    else if (!is_post && has_body)
        refuse_request(c, 400, "this method takes no body");
    else if (is_post && !h->body.is_chunked && !h->body.has_length)
        refuse_request(c, 411, "a delivery needs a Content-Length, or chunks");
    else if (h->body.length > route->max_bytes)
        refuse_request(c, 413, TOO_LONG);
    else if (h->body.length > BODIES_MAX - c->callback->n_bodies ||
             h->body.length > share_of(route) - route->n_bodies)
        refuse_request(c, 503, TOO_MANY);
    else
        c->route = route;
    if (c->route)
        c->is_last = !h->is_kept;
    return !c->route;
}

/* Reads the available part of the head. False: more has to come. */
static bool
take_head(struct callback_connection *c)
{
    struct problem why = {""};
    struct request_head h;
    enum status rc = STATUS_AGAIN;

    if (c->in_size > 0)
        rc = request_head_read(&h, (struct slice){c->in, c->in_size}, &c->seen,
                               &why);
    if (rc == STATUS_AGAIN)
        return false;
    if (rc) {
        refuse_request(c, h.refusal, why.text);
        return true;
    }
    if (refuse_head(c, &h)) {
        consume_bytes(c, h.size);
        return true;
    }
    if (!h.body.is_chunked && !h.body.length) {
        hand_over(c, &h);
        consume_bytes(c, h.size);
        return true;
    }
    buf_init(&c->body,
             h.body.is_chunked ? c->route->max_bytes : (size_t)h.body.length);
    c->is_chunked = h.body.is_chunked;
    c->chunked = (struct chunked){0};
    c->left = h.body.length;
    c->n_progress = 0;
    c->head_size = h.size;
    c->phase = PHASE_BODY;
    renew_patience(c);
    if (h.is_continue && c->in_size == h.size)
        BUF_ADD(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    return true;
}

/* The loop */

static bool
is_stuck(const struct callback_connection *c)
{
    return c->out.size > 0 || c->out.failed;
}

/* Sends as much of `out` as the socket takes. False: it closed the connection.
 */
static bool
flush_answer(struct callback_connection *c)
{
    ssize_t n = -1;

    errno = ENOMEM;
    if (!c->out.failed)
        n = send(c->fd, c->out.data + c->out_at, c->out.size - c->out_at,
                 MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        close_connection(c);
        return false;
    }
    if (n > 0)
        c->out_at += (size_t)n;
    if (c->out_at < c->out.size)
        return true;
    buf_clear(&c->out);
    c->out_at = 0;
    if (c->phase == PHASE_LINGER) {
        shutdown(c->fd, SHUT_WR);
        timer_start(&c->timer, LINGER_MS);
    }
    return true;
}

/* Goes on as far as `in` allows. False: it closed the connection. */
static bool
go_on(struct callback_connection *c)
{
    bool goes_on;

    do {
        if (is_stuck(c) && !flush_answer(c))
            return false;
        goes_on = !is_stuck(c) && c->phase != PHASE_LINGER &&
                  c->phase != PHASE_WAIT &&
                  (c->phase == PHASE_HEAD ? take_head(c) : take_body(c));
    } while (goes_on);
    if (!is_stuck(c) && c->phase == PHASE_LINGER) {
        c->drained += c->in_size;
        c->in_size = 0;
    }
    if (c->drained > LINGER_BYTES) {
        close_connection(c);
        return false;
    }
    descriptor_set(c->descriptor, is_stuck(c)              ? READY_WRITE
                                  : c->phase == PHASE_WAIT ? 0
                                                           : READY_READ);
    return true;
}

void
callback_answer(struct callback_connection *c, struct reply *reply)
{
    send_reply(c, reply);
    buf_fini(&reply->text);
    go_on(c);
}

/* Reads once. False: it closed the connection. `*n`: bytes. */
static bool
receive_bytes(struct callback_connection *c, ssize_t *n)
{
    *n = recv(c->fd, c->in + c->in_size, IN_SIZE - c->in_size, 0);
    if (!*n || (*n < 0 && errno != EAGAIN && errno != EINTR)) {
        close_connection(c);
        return false;
    }
    if (*n < 0)
        *n = 0;
    if (*n > 0 && c->phase == PHASE_HEAD && !c->in_size)
        renew_patience(c); /* a head begins */
    c->in_size += (size_t)*n;
    return true;
}

static void
on_ready(int events, void *user)
{
    struct callback_connection *c = user;
    ssize_t n;

    (void)events;
    if (c->phase == PHASE_WAIT)
        return;
    if (is_stuck(c) || receive_bytes(c, &n))
        go_on(c);
}

/* The client's time is over. As the program may have held up the loop, reads
 * bytes first that came in time. */
static void
on_timer(void *user)
{
    struct callback_connection *c = user;
    ssize_t n = 1;

    c->is_late = true;
    while (c->is_late && n > 0 && c->phase < PHASE_WAIT && !is_stuck(c))
        if (!receive_bytes(c, &n) || !go_on(c))
            return;
    if (!c->is_late || c->phase == PHASE_WAIT)
        return;
    if (is_stuck(c) || c->phase == PHASE_LINGER ||
        (c->phase == PHASE_HEAD && !c->in_size)) {
        close_connection(c);
        return;
    }
    refuse_request(c, 408, "too little of the request came in time");
    go_on(c);
}

void
callback_connection_new(struct td_callback *callback, int fd)
{
    struct callback_connection *c = calloc(1, sizeof(*c));
    struct handle_loop *loop = callback->client->loop;

    if (!c) {
        close(fd);
        return;
    }
    c->callback = callback;
    c->fd = fd;
    c->descriptor = descriptor_new(loop, fd, on_ready, c);
    timer_init(&c->timer, loop, on_timer, c);
    list_append(&callback->connections, &c->node);
    callback->n_connections++;
    buf_init(&c->out, ANSWER_MAX);
    if (!c->descriptor) {
        close_connection(c);
        return;
    }
    renew_patience(c);
    descriptor_set(c->descriptor, READY_READ);
}
