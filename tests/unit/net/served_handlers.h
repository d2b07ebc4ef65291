/*
 * served_handlers.h - the answers of the server of these tests.
 *
 *     GET    /small          200 "hello"; HEAD, DELETE, OPTIONS and others too
 *     GET    /head           the parsed request, a line each
 *     GET    /peer           the client: its address, or its user
 *     GET    /listener       the kind of listener that it came by: "control"
 *     GET    /big?size=N     N bytes from memory
 *     GET    /pool?size=N    N bytes that a worker has to fetch
 *     GET    /file?size=N    N bytes of a file; /cold: not in the page cache
 *     GET    /short          a body that ends too early; /broken: one that
 *                            fails; /cut: a file that has half of its stated
 *                            size
 *     GET    /later          200 "later", from another thread, by ticket
 *     GET    /never          no answer
 *     GET    /long           an answer without end; begins with "first\n", then
 *                            as served.long_handlers do
 *     GET    /stream         a WebSocket; what it does: served.stream_handlers
 *     POST   /echo           200 and the body (PUT too)
 *     POST   /later          200 and its size, from another thread, by ticket
 *     POST   /later-echo     200 and the body as one of the answer, likewise
 *     POST   /slow-echo      as /echo, but the body is not read on until the
 *                            thread's next turn, each time that some comes
 *     POST   /held-echo      likewise, until served_release
 *     POST   /refuse         413 before the body, /refuse-data at its first
 *                            byte
 */
#ifndef TESTS_UNIT_NET_SERVED_HANDLERS_H
#define TESTS_UNIT_NET_SERVED_HANDLERS_H

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/base/authority.h"
#include "broker/base/client_limits.h"
#include "broker/net/request.h"
#include "broker/net/response.h"
#include "broker/net/server.h"
#include "broker/net/stream.h"
#include "proto/buf.h"
#include "tests/test.h"

/* The largest body of /own-echo. */
#define SERVED_OWN_MAX 5

/* The parts of a request that a handler keeps. */
struct served_request {
    struct buf body;
    struct ticket ticket;
    struct task task;
    bool is_later;
    bool is_body; /* the answer is a body, not a text */
    bool is_slow, is_held;
    bool is_own; /* a broken body is answered by the handler, later */
    enum status broken;
    bool is_paused;
    size_t n_paused; /* bytes that came meanwhile */
    struct served_request *next;
};

struct served {
    struct server *server;
    unsigned port;
    struct server_options options;
    const struct stream_handlers *stream_handlers;
    const char *deflate;         /* of its terms */
    struct authority *authority; /* of all requests; NULL: none */
    const struct stream_handlers *long_handlers;

    atomic_uint n_requests; /* on_request calls */
    atomic_uint n_gone;     /* on_gone calls */
    atomic_uint n_open;     /* requests whose answer is owed */
    atomic_uint n_bodies;   /* answers' bodies not freed yet */
    atomic_uint n_tickets;  /* tickets that were looked up */
    atomic_uint n_pauses;   /* of a body */
    atomic_uint n_paused;   /* most bytes that came within one */
    atomic_uint n_wakes;
    atomic_uint n_seconds;

    struct ticket held; /* the last one; of the service thread */
    int file;           /* of SERVED_FILE bytes; -1: none yet */

    /* The other thread, which answers by ticket. */
    pthread_t other;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct served_request *queue, **queue_end;
    bool is_paused; /* answers nothing meanwhile */
    bool is_closed; /* the server is: drops what waits */
    bool is_ending;
};

/* One at a time. */
static struct served served;

/* Bodies */

struct served_body {
    struct body base;
    uint64_t left;
    uint64_t at;
    bool is_pool; /* only with may_block */
    enum body_result end;
    char piece[100000];
};

/* The pattern of every body, repeated as often as the longest piece needs. */
#define SERVED_PERIOD 23
static char served_pattern[5000 * SERVED_PERIOD];

TEST_ON_LOAD(served_fill_)
{
    for (size_t i = 0; i < sizeof(served_pattern); i++)
        served_pattern[i] = (char)('a' + i % SERVED_PERIOD);
}

static inline enum body_result
served_body_next(struct body *body, bool may_block, struct slice *piece)
{
    struct served_body *b = (struct served_body *)body;
    size_t n = 1 + (size_t)(b->at * 7919 % sizeof(b->piece));

    if (!b->left)
        return b->end;
    if (b->is_pool && !may_block)
        return BODY_WAITS;
    if (n > b->left)
        n = (size_t)b->left;
    memcpy(b->piece, served_pattern + b->at % SERVED_PERIOD, n);
    b->at += n;
    b->left -= n;
    *piece = (struct slice){b->piece, n};
    return BODY_DATA;
}

static inline void
served_body_free(struct body *body)
{
    atomic_fetch_sub(&served.n_bodies, 1);
    free(body);
}

static inline struct body *
served_body(uint64_t size, bool is_pool)
{
    struct served_body *b = calloc(1, sizeof(*b));

    b->base = (struct body){size, served_body_next, served_body_free};
    b->left = size;
    b->is_pool = is_pool;
    b->end = BODY_END;
    atomic_fetch_add(&served.n_bodies, 1);
    return &b->base;
}

/* As long as the longest answer. */
#define SERVED_FILE 10000000

/* A file without a name that has the first `size` bytes of the pattern. */
static inline int
served_file(uint64_t size)
{
    const char *dir = getenv("TMPDIR");
    int fd = open(dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    for (uint64_t left = size; left;) {
        size_t n = left < sizeof(served_pattern) ? (size_t)left
                                                 : sizeof(served_pattern);

        assert_int_equal(write(fd, served_pattern, n), n);
        left -= n;
    }
    return fd;
}

/* A descriptor of the file that all answers share. */
static inline int
served_shared_file(void)
{
    int fd;

    pthread_mutex_lock(&served.mutex);
    if (served.file < 0)
        served.file = served_file(SERVED_FILE);
    fd = dup(served.file);
    pthread_mutex_unlock(&served.mutex);
    assert_true(fd >= 0);
    return fd;
}

static void (*_Atomic served_free_file)(struct body *body);

static inline void
served_file_free(struct body *body)
{
    atomic_fetch_sub(&served.n_bodies, 1);
    served_free_file(body);
}

static inline struct body *
served_file_body(int fd, uint64_t size, bool is_cold)
{
    struct body *body = body_of_file(fd, size);

    assert_non_null(body);
    if (is_cold && !fdatasync(fd))
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    served_free_file = body->free;
    body->free = served_file_free;
    atomic_fetch_add(&served.n_bodies, 1);
    return body;
}

/* The other thread */

static inline void
served_answer_later(struct task *task)
{
    struct served_request *kept = list_entry(task, struct served_request, task);
    struct request *rq = ticket_request(kept->ticket);
    struct response r;
    char text[64];

    if (rq) {
        atomic_fetch_sub(&served.n_open, 1);
        response_init(&r, 200, "text/plain", NULL);
        snprintf(text, sizeof(text), "later %zu", kept->body.size);
        r.text = slice_of(text);
        if (kept->is_body)
            r.body = body_of_buf(&kept->body);
        request_answer(rq, &r);
    }
    buf_fini(&kept->body);
    free(kept);
    atomic_fetch_add(&served.n_tickets, 1);
}

static inline void *
served_other(void *unused)
{
    struct served_request *kept = NULL;

    (void)unused;
    pthread_mutex_lock(&served.mutex);
    for (;;) {
        while (!served.is_ending && (served.is_paused || !served.queue))
            pthread_cond_wait(&served.changed, &served.mutex);
        kept = served.queue;
        if (!kept)
            break;
        served.queue = kept->next;
        if (!kept->next)
            served.queue_end = &served.queue;
        if (served.is_closed) {
            buf_fini(&kept->body);
            free(kept);
        } else {
            service_post(kept->ticket.service, &kept->task);
        }
    }
    pthread_mutex_unlock(&served.mutex);
    return NULL;
}

static inline void
served_pause(bool is_paused)
{
    pthread_mutex_lock(&served.mutex);
    served.is_paused = is_paused;
    pthread_cond_signal(&served.changed);
    pthread_mutex_unlock(&served.mutex);
}

/* From here on the memory belongs to the other thread; the request keeps
 * none. */
static inline void
served_send_to_other(struct request *rq, struct served_request *kept)
{
    rq->user = NULL;
    kept->ticket = request_ticket(rq);
    kept->task = (struct task){.run = served_answer_later};
    pthread_mutex_lock(&served.mutex);
    kept->next = NULL;
    *served.queue_end = kept;
    served.queue_end = &kept->next;
    pthread_cond_signal(&served.changed);
    pthread_mutex_unlock(&served.mutex);
}

/* Handlers */

static inline void
served_answer_text(struct request *rq, unsigned status, struct slice text)
{
    struct response r;

    response_init(&r, status, "text/plain", NULL);
    r.text = text;
    request_answer(rq, &r);
}

static inline void
served_free(struct request *rq)
{
    struct served_request *kept = rq->user;

    atomic_fetch_sub(&served.n_open, 1);
    if (!kept)
        return;
    buf_fini(&kept->body);
    free(kept);
}

struct served_resume {
    struct task task;
    struct ticket ticket;
};

static inline void
served_resume(struct request *rq)
{
    struct served_request *kept = rq ? rq->user : NULL;

    if (!kept)
        return;
    if (kept->n_paused > atomic_load(&served.n_paused))
        atomic_store(&served.n_paused, (unsigned)kept->n_paused);
    kept->is_paused = false;
    kept->n_paused = 0;
    request_resume(rq);
}

static inline void
served_resume_slow(struct task *task)
{
    struct served_resume *r = list_entry(task, struct served_resume, task);

    served_resume(ticket_request(r->ticket));
    free(r);
}

/* Held requests go on. On its service thread. */
static inline void
served_release(void)
{
    served_resume(ticket_request(served.held));
}

static inline void
served_take_slowly(struct request *rq, struct served_request *kept, size_t size)
{
    struct served_resume *r;

    if (kept->is_paused) {
        kept->n_paused += size;
        return;
    }
    kept->is_paused = true;
    request_pause(rq);
    if (kept->is_held) {
        served.held = request_ticket(rq);
        kept->is_held = false;
    } else {
        r = calloc(1, sizeof(*r));
        r->task.run = served_resume_slow;
        r->ticket = request_ticket(rq);
        service_post(rq->service, &r->task);
    }
    atomic_fetch_add(&served.n_pauses, 1);
}

static inline void
served_on_data(struct request *rq, struct slice bytes)
{
    struct served_request *kept = rq->user;

    if (slice_is(rq->path, "/refuse-data")) {
        served_free(rq);
        request_answer_problem(rq, 413, NULL);
        return;
    }
    buf_add_slice(&kept->body, bytes);
    if (kept->is_slow)
        served_take_slowly(rq, kept, bytes.size);
}

static inline void
served_on_end(struct request *rq)
{
    struct served_request *kept = rq->user;

    if (kept->is_later) {
        served_send_to_other(rq, kept);
        return;
    }
    served_answer_text(rq, 200, buf_slice(&kept->body));
    served_free(rq);
}

static inline void
served_on_gone(struct request *rq)
{
    served_free(rq);
    atomic_fetch_add(&served.n_gone, 1);
}

static const struct request_handlers served_handlers = {
    served_on_data, served_on_end, served_on_gone, NULL};

static inline void
served_answer_broken(struct task *task)
{
    struct served_request *kept = list_entry(task, struct served_request, task);
    struct request *rq = ticket_request(kept->ticket);

    if (rq) {
        atomic_fetch_sub(&served.n_open, 1);
        request_answer_problem(rq, response_status_of(kept->broken), NULL);
    }
    buf_fini(&kept->body);
    free(kept);
}

static inline void
served_on_broken(struct request *rq, enum status rc, const struct problem *why)
{
    struct served_request *kept = rq->user;

    assert_true(why->text[0]);
    rq->user = NULL;
    kept->broken = rc;
    kept->ticket = request_ticket(rq);
    kept->task.run = served_answer_broken;
    service_post(rq->service, &kept->task);
}

static const struct request_handlers served_own_handlers = {
    served_on_data, served_on_end, served_on_gone, served_on_broken};

static inline void
served_tell_head(struct request *rq)
{
    static const char *const names[] = {"host",
                                        "origin",
                                        "content-type",
                                        "accept",
                                        "idempotency-key",
                                        "last-event-id",
                                        "if-none-match",
                                        "authorization",
                                        "x-forwarded-for",
                                        "accept-encoding",
                                        "link"};
    struct slice value = {NULL, 0};
    struct buf text;

    buf_init(&text, 65536);
    buf_add_format(&text, "path=%.*s\nquery=%.*s\n", SLICE_ARG(rq->path),
                   SLICE_ARG(rq->query));
    if (request_parameter(rq, "a", &value))
        buf_add_format(&text, "a=%.*s\n", SLICE_ARG(value));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (request_header(rq, names[i], &value))
            buf_add_format(&text, "%s=%.*s\n", names[i], SLICE_ARG(value));
    served_answer_text(rq, 200, buf_slice(&text));
    buf_fini(&text);
}

static inline void
served_tell_peer(struct request *rq)
{
    char peer[CLIENT_NAME_SIZE];

    client_name(request_client(rq), peer);
    served_answer_text(rq, 200, slice_of(peer));
}

static inline void
served_tell_listener(struct request *rq)
{
    static const char *const names[] = {[LISTENER_TCP] = "tcp",
                                        [LISTENER_UNIX] = "unix",
                                        [LISTENER_CONTROL] = "control"};

    served_answer_text(rq, 200, slice_of(names[rq->listener]));
}

static inline void
served_send_body(struct request *rq)
{
    struct slice path = rq->path, size = {"0", 1};
    struct response r;
    uint64_t n = 0;

    (void)request_parameter(rq, "size", &size);
    for (size_t i = 0; i < size.size; i++)
        n = n * 10 + (uint64_t)(size.data[i] - '0');
    response_init(&r, 200, "text/plain", NULL);
    if (slice_is(path, "/file") || slice_is(path, "/cold"))
        r.body =
            served_file_body(served_shared_file(), n, slice_is(path, "/cold"));
    else if (slice_is(path, "/cut"))
        r.body = served_file_body(served_file(n / 2), n, false);
    else
        r.body = served_body(n, slice_is(path, "/pool"));
    if (slice_is(path, "/short"))
        ((struct served_body *)r.body)->left = n - 1;
    if (slice_is(path, "/broken")) {
        ((struct served_body *)r.body)->left = n / 2;
        ((struct served_body *)r.body)->end = BODY_FAILED;
    }
    request_answer(rq, &r);
}

static inline void
served_stream(struct request *rq)
{
    static const char *const spoken[] = {"resourcesync.xml",
                                         "resourcesync.json"};
    struct stream_terms terms = {NULL, served.deflate};
    struct slice list = {NULL, 0};
    bool has_list = request_header(rq, "sec-websocket-protocol", &list);

    for (size_t i = 0; i < 2 && has_list && !terms.subprotocol; i++)
        if (slice_starts(list, spoken[i]))
            terms.subprotocol = spoken[i];
    if (has_list && !terms.subprotocol)
        request_answer_problem(rq, 400, NULL);
    else
        request_accept_stream(rq, &terms, served.stream_handlers, rq->service);
}

static inline void
served_long(struct request *rq)
{
    struct response r;

    response_init(&r, 200, "text/plain", NULL);
    r.is_long = true;
    if (rq->method == METHOD_HEAD)
        request_answer(rq, &r);
    else if (rq->is_1_0)
        request_accept_long(rq, &r, SLICE("first\n"), served.long_handlers,
                            rq->service);
    else
        request_accept_long(rq, &r, SLICE("6\r\nfirst\n\r\n"),
                            served.long_handlers, rq->service);
}

static inline void
served_on_request(struct request *rq, void *user)
{
    struct slice path = rq->path;
    enum method method = rq->method;
    struct served_request *kept = NULL;

    (void)user;
    atomic_fetch_add(&served.n_requests, 1);
    request_set_authority(rq, authority_ref(served.authority));
    if (rq->is_upgrade) {
        served_stream(rq);
        return;
    }
    if (method == METHOD_PATCH) {
        request_answer_problem_with(rq, 405, NULL, "GET, POST", NULL);
        return;
    }
    if (slice_is(path, "/long") &&
        (method == METHOD_GET || method == METHOD_HEAD)) {
        served_long(rq);
        return;
    }
    if (slice_is(path, "/refuse")) {
        request_answer_problem(rq, 413, NULL);
        return;
    }
    if (slice_is(path, "/head")) {
        served_tell_head(rq);
        return;
    }
    if (slice_is(path, "/peer")) {
        served_tell_peer(rq);
        return;
    }
    if (slice_is(path, "/listener")) {
        served_tell_listener(rq);
        return;
    }
    if (slice_is(path, "/big") || slice_is(path, "/pool") ||
        slice_is(path, "/file") || slice_is(path, "/cold") ||
        slice_is(path, "/short") || slice_is(path, "/broken") ||
        slice_is(path, "/cut")) {
        served_send_body(rq);
        return;
    }
    if (method != METHOD_POST && method != METHOD_PUT &&
        !slice_is(path, "/later") && !slice_is(path, "/never")) {
        served_answer_text(rq, 200, SLICE("hello"));
        return;
    }

    kept = calloc(1, sizeof(*kept));
    buf_init(&kept->body, 64 << 20);
    kept->is_body = slice_is(path, "/later-echo");
    kept->is_held = slice_is(path, "/held-echo");
    kept->is_slow = kept->is_held || slice_is(path, "/slow-echo");
    kept->is_own = slice_is(path, "/own-echo");
    kept->is_later = kept->is_body || slice_is(path, "/later");
    rq->user = kept;
    atomic_fetch_add(&served.n_open, 1);
    if (method == METHOD_POST || method == METHOD_PUT) {
        request_receive(rq,
                        kept->is_own ? &served_own_handlers : &served_handlers,
                        kept->is_own ? SERVED_OWN_MAX : UINT64_MAX);
        return;
    }
    rq->handlers = &served_handlers;
    if (kept->is_later)
        served_send_to_other(rq, kept);
}

static inline void
served_on_wake(struct service *service, void *user)
{
    (void)service;
    (void)user;
    atomic_fetch_add(&served.n_wakes, 1);
}

static inline void
served_on_tick(struct service *service, void *user)
{
    (void)service;
    (void)user;
    atomic_fetch_add(&served.n_seconds, 1);
}

#endif
