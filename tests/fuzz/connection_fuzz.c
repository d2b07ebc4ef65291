/*
 * connection_fuzz.c - a connection of the broker, from its first byte to its
 * end.
 *
 * The client sends the input. Where a byte 0xff and a letter stand in it,
 * something happens between the bytes:
 *
 *     c     the broker reads what was sent before, and does what it can
 *     l N   the client sends 64 times N letters
 *     q, r  the client stops reading; reads on
 *     h, x  the client ends its sending; is gone
 *     s N   N seconds pass, at most 63
 *     a     a handler gives the answer that it has put off, or reads on
 *     j     the worker pool does a job
 *     w, e  the handler of a stream writes a message; ends the stream
 *     b     the server begins to stop
 *
 * 0xff twice stands for one such byte. A socket pair carries the bytes;
 * connection, loop and sockets are the broker's. The clock, TCP's counters and
 * the worker pool are doubles, so that an input always has the same effect.
 */
#include "broker/net/connection.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/net/response.h"
#include "broker/net/service.h"
#include "broker/net/stream.h"
#include "broker/net/tcp.h"
#include "proto/buf.h"
#include "proto/http/network_address.h"
#include "tests/fuzz/fuzz.h"

#define SECOND INT64_C(1000000)

#define REQUESTS_MAX 4096 /* none of our inputs is so long */
#define ECHO_MAX     4096
#define LARGE        40000
#define SEND_ROOM    16384 /* of the broker's socket: a large answer waits */
#define MESSAGE      30000

/* More than an input and its end can take. */
#define ROUNDS_MAX 100000

enum manner {
    SMALL,   /* a text */
    LARGER,  /* a body from memory */
    POOL,    /* a body that has to be asked for on the worker pool */
    FILED,   /* a body from a file */
    FAILS,   /* a body that fails in its middle */
    LATER,   /* an answer by ticket, when the input says so */
    ECHOES,  /* the received bytes */
    PAUSES,  /* the same, but each piece is waited for */
    REFUSES, /* 413 at the first byte */
    MANNERS
};

static const char *const paths[MANNERS] = {
    [SMALL] = "/small", [LARGER] = "/large",  [POOL] = "/pool",
    [FILED] = "/filed", [FAILS] = "/fails",   [LATER] = "/later",
    [ECHOES] = "/echo", [PAUSES] = "/pauses", [REFUSES] = "/refuses",
};

/* A request, as its handler saw it. */
struct asked {
    bool is_head;
    bool is_open; /* its answer is owed */
    bool is_paused;
    enum manner manner;
    struct buf body;
    unsigned status;       /* of the answer; 0: none */
    struct slice expected; /* the answer's; data NULL: a problem's */
};

static struct service *service;

static struct world {
    int64_t now_us;
    int fd;            /* the client's; -1: closed */
    bool is_reading;   /* the client reads */
    bool is_shut;      /* it sends no more */
    bool is_end_seen;  /* it has read the end */
    bool is_disturbed; /* an answer may be cut, or not come */
    struct buf input;  /* the bytes that the client sends */
    size_t n_sent;     /* of it */
    struct buf got;    /* the bytes that the client has read */
    uv_work_t *job;    /* that the worker pool has to do; or NULL */
    unsigned n_bodies; /* of answers, not freed yet */

    unsigned n_asked;
    unsigned open;        /* 1 + the number of the request whose answer is owed,
                             or 0; then one of the next two may be set: */
    struct request *held; /* not read on */
    struct ticket later;  /* slot 0: none */

    struct streaming {
        enum { NO_STREAM, WEBSOCKET, CHUNKS, PLAIN } kind;
        struct stream *stream; /* between on_open and on_gone */
        bool is_choked, is_ended, is_gone;
        unsigned n_written;
    } streaming;

    struct asked asked[REQUESTS_MAX];
} world;

static char pattern[LARGE];
static int pattern_fd; /* a file of it */

/* Doubles */

int64_t
clock_now_us(void)
{
    return INT64_C(1700000000) * SECOND + world.now_us;
}

int64_t
clock_steady_us(void)
{
    return world.now_us;
}

int64_t
clock_steady_ms(void)
{
    return world.now_us / 1000;
}

void
tcp_limit_unsent(int fd, int bytes)
{
    (void)fd;
    (void)bytes;
}

/* The kernel sends all that it takes. */
size_t
tcp_unsent(int fd)
{
    (void)fd;
    return 0;
}

size_t
tcp_left(int fd)
{
    (void)fd;
    return 0;
}

void
tcp_reset_at_close(int fd)
{
    (void)fd;
}

uint64_t
tcp_acked(int fd)
{
    (void)fd;
    return world.got.size;
}

uint64_t
unix_unread(int fd)
{
    (void)fd;
    return 0;
}

bool
tcp_has_unread(int fd)
{
    int n = 0;

    return !ioctl(fd, FIONREAD, &n) && n > 0;
}

bool
tcp_is_ended(int fd)
{
    (void)fd;
    return world.is_shut;
}

void
tcp_peer(int fd, struct sockaddr_storage *peer)
{
    (void)fd;
    FUZZ_ASSERT(address_read("192.0.2.1", peer));
}

/* libuv's worker pool. */
int
uv_queue_work(uv_loop_t *loop, uv_work_t *job, uv_work_cb work,
              uv_after_work_cb done)
{
    (void)loop;
    FUZZ_ASSERT(!world.job);
    job->work_cb = work;
    job->after_work_cb = done;
    world.job = job;
    return 0;
}

static bool
run_job(void)
{
    uv_work_t *job = world.job;

    if (!job)
        return false;
    world.job = NULL;
    job->work_cb(job);
    job->after_work_cb(job, 0);
    return true;
}

/* Bodies */

struct patterned {
    struct body base;
    size_t at;
    enum manner manner;
};

static enum body_result
next_piece(struct body *body, bool may_block, struct slice *piece)
{
    struct patterned *b = (struct patterned *)body;
    size_t n = 1 + b->at * 7919 % 30000;

    if (b->manner == POOL && !may_block)
        return BODY_WAITS;
    if (b->at == LARGE)
        return BODY_END;
    if (b->manner == FAILS && b->at > LARGE / 2)
        return BODY_FAILED;
    if (n > LARGE - b->at)
        n = LARGE - b->at;
    *piece = (struct slice){pattern + b->at, n};
    b->at += n;
    return BODY_DATA;
}

static void
free_body(struct body *body)
{
    world.n_bodies--;
    free(body);
}

static struct body *
body_for(enum manner manner)
{
    struct patterned *b = NULL;

    if (manner == FILED)
        return body_of_file(dup(pattern_fd), LARGE);
    b = calloc(1, sizeof(*b));
    FUZZ_ASSERT(b);
    b->base = (struct body){LARGE, next_piece, free_body, NULL};
    b->manner = manner;
    world.n_bodies++;
    return &b->base;
}

/* Handlers. Each answer has the number of its request. */

static struct asked *
asked_of(const struct request *rq)
{
    struct asked *a = rq->user;

    FUZZ_ASSERT(a->is_open);
    FUZZ_ASSERT(world.open == 1 + (unsigned)(a - world.asked));
    return a;
}

static void
close_request(struct asked *a)
{
    a->is_open = false;
    world.open = 0;
    world.held = NULL;
    world.later.slot = 0;
}

static void
answer(struct request *rq, unsigned status)
{
    struct asked *a = asked_of(rq);
    struct problem why = {"no", 0, 0};
    struct response r;

    close_request(a);
    a->status = status;
    response_init(&r, status, "text/plain", NULL);
    response_header(&r, "X-Number", "%u", (unsigned)(a - world.asked));
    if (status != 200) {
        response_answer_problem(rq, &r, &why, NULL);
        return;
    }
    if (a->manner >= LARGER && a->manner <= FAILS) {
        a->expected = (struct slice){pattern, LARGE};
        world.is_disturbed |= a->manner == FAILS && !a->is_head;
        r.body = body_for(a->manner);
        FUZZ_ASSERT(r.body);
    } else {
        a->expected = a->manner == ECHOES || a->manner == PAUSES
                          ? buf_slice(&a->body)
                          : slice_of(paths[a->manner]);
        if (!a->expected.data)
            a->expected = SLICE("");
        r.text = a->expected;
    }
    request_answer(rq, &r);
}

static void
on_data(struct request *rq, struct slice bytes)
{
    struct asked *a = asked_of(rq);

    FUZZ_ASSERT(bytes.size > 0);
    FUZZ_ASSERT(!a->is_paused);
    buf_add_slice(&a->body, bytes);
    FUZZ_ASSERT(!a->body.failed);
    FUZZ_ASSERT(!rq->in.length || rq->in.length >= a->body.size);
    if (a->manner == REFUSES) {
        answer(rq, 413);
    } else if (a->manner == PAUSES) {
        a->is_paused = true;
        world.held = rq;
        request_pause(rq);
    }
}

static void
on_end(struct request *rq)
{
    struct asked *a = asked_of(rq);

    FUZZ_ASSERT(!rq->in.length || rq->in.length == a->body.size);
    answer(rq, 200);
}

static void
on_gone(struct request *rq)
{
    close_request(asked_of(rq));
}

static void
on_broken(struct request *rq, enum status rc, const struct problem *why)
{
    FUZZ_ASSERT(!asked_of(rq)->is_paused);
    FUZZ_ASSERT(rc && why->text[0]);
    world.later = request_ticket(rq);
}

static const struct request_handlers receiving = {on_data, on_end, on_gone,
                                                  NULL};
static const struct request_handlers pausing = {on_data, on_end, on_gone,
                                                on_broken};
static const struct request_handlers waiting = {.on_gone = on_gone};

/* Streams */

static void
write_message(void)
{
    static char bytes[MESSAGE + STREAM_CHUNK_HEADER_MAX + 2];
    struct streaming *st = &world.streaming;
    enum stream_result result;
    size_t n = 0;

    if (!st->stream || st->is_choked || st->is_ended)
        return;
    if (st->kind == WEBSOCKET)
        n = stream_frame_header((uint8_t *)bytes, MESSAGE, true, true);
    else if (st->kind == CHUNKS)
        n = stream_chunk_header(bytes, MESSAGE);
    memset(bytes + n, 'm', MESSAGE);
    n += MESSAGE;
    if (st->kind == CHUNKS) {
        memcpy(bytes + n, STREAM_CHUNK_END, 2);
        n += 2;
    }
    result = stream_write(st->stream, bytes, n);
    st->n_written += result != STREAM_DEAD;
    st->is_choked = result == STREAM_CHOKED;
}

static void
end_stream(void)
{
    struct streaming *st = &world.streaming;
    const char *last = st->kind == CHUNKS ? STREAM_CHUNK_LAST : "";

    if (!st->stream || st->is_ended)
        return;
    st->is_ended = true;
    if (st->kind == WEBSOCKET)
        stream_close(st->stream, 1001, "the end");
    else
        stream_end(st->stream, last, strlen(last));
}

static void
on_open(struct stream *stream, void *user)
{
    struct streaming *st = user;

    FUZZ_ASSERT(!st->stream && !st->is_gone);
    st->stream = stream;
    write_message();
}

static void
on_room(struct stream *stream, void *user)
{
    struct streaming *st = user;

    FUZZ_ASSERT(st->stream == stream && st->is_choked && !st->is_ended);
    st->is_choked = false;
}

static void
on_stream_gone(struct stream *stream, void *user)
{
    struct streaming *st = user;

    FUZZ_ASSERT(!st->is_gone && (!st->stream || st->stream == stream));
    st->stream = NULL;
    st->is_gone = true;
}

static const struct stream_handlers streaming = {on_open, on_room,
                                                 on_stream_gone};

/* True if it is a stream now. */
static bool
accept_stream(struct request *rq)
{
    bool is_deflated = slice_is(rq->path, "/deflate");
    struct stream_terms terms = {NULL,
                                 is_deflated ? "permessage-deflate" : NULL};
    struct response r;

    if (rq->is_upgrade && (is_deflated || slice_is(rq->path, "/ws"))) {
        world.streaming.kind = WEBSOCKET;
        request_accept_stream(rq, &terms, &streaming, &world.streaming);
        return true;
    }
    if (rq->method != METHOD_GET || rq->is_upgrade ||
        !slice_is(rq->path, "/long"))
        return false;
    world.streaming.kind = rq->is_1_0 ? PLAIN : CHUNKS;
    response_init(&r, 200, "text/plain", NULL);
    r.is_long = true;
    request_accept_long(rq, &r, rq->is_1_0 ? SLICE("m") : SLICE("1\r\nm\r\n"),
                        &streaming, &world.streaming);
    return true;
}

/* Reads a field that may come several times, and a parameter. */
static void
read_head(struct request *rq)
{
    struct slice value = {NULL, 0};

    if (request_header(rq, "accept", &value))
        FUZZ_ASSERT(!memchr(value.data, '\n', value.size));
    if (request_parameter(rq, "n", &value))
        FUZZ_ASSERT(value.data);
    FUZZ_ASSERT(request_client(rq));
}

/* One request at a time, and none behind the last one. */
static void
on_request(struct request *rq, void *user)
{
    struct asked *a = &world.asked[world.n_asked];
    enum manner m = SMALL;

    (void)user;
    FUZZ_ASSERT(!world.open && !world.streaming.kind);
    read_head(rq);
    if (accept_stream(rq))
        return;
    FUZZ_ASSERT(++world.n_asked < REQUESTS_MAX);
    world.open = world.n_asked;
    while (m < MANNERS && !slice_is(rq->path, paths[m]))
        m++;
    *a = (struct asked){
        .is_open = true, .is_head = rq->method == METHOD_HEAD, .manner = m};
    buf_init(&a->body, ECHO_MAX);
    rq->user = a;
    if (m == MANNERS) {
        answer(rq, 404);
    } else if (rq->is_upgrade || m < LATER) {
        answer(rq, 200);
    } else if (m == LATER) {
        world.later = request_ticket(rq);
        rq->handlers = &waiting;
    } else if (rq->in.length > ECHO_MAX) {
        answer(rq, 413);
    } else {
        request_receive(rq, m == PAUSES ? &pausing : &receiving, ECHO_MAX);
    }
}

/* Goes on with the work that a handler has put off; false: there is none. */
static bool
go_on(void)
{
    struct request *held = world.held, *later = NULL;

    if (held) {
        world.held = NULL;
        asked_of(held)->is_paused = false;
        request_resume(held);
        return true;
    }
    if (!world.later.slot)
        return false;
    later = ticket_request(world.later);
    FUZZ_ASSERT(later);
    answer(later, 200);
    return true;
}

/* The connection */

static void
set_up(void)
{
    static const struct lookup_answer nowhere = {.n = 0};
    struct problem why;

    struct server *server;

    if (service)
        return;
    diag_set_level(DIAG_ERROR);
    signal(SIGPIPE, SIG_IGN); /* of sendfile: socket.h */
    for (size_t i = 0; i < LARGE; i++)
        pattern[i] = (char)('a' + i % 23);
    pattern_fd = memfd_create("pattern", MFD_CLOEXEC);
    FUZZ_ASSERT(write(pattern_fd, pattern, LARGE) == LARGE);
    server = calloc(1, sizeof(*server) + sizeof(*service));
    FUZZ_ASSERT(server);
    server->options = (struct server_options){
        .threads = 1,
        .request_timeout_us = 10 * SECOND,
        .min_rate = 1024,
        .on_request = on_request,
    };
    server->n_services = 1;
    server->fd_end = INT_MAX;
    server->clients = &server->unlimited;
    clients_init(server->clients, 100);
    service = &server->services[0];
    FUZZ_ASSERT(!service_init(service, server, 0, &nowhere, &why));
    loop_clear_alarm(service->loop, &service->second);
    loop_clear_alarm(service->loop, &service->tick);
}

static void
connect_client(void)
{
    static const union {
        struct sockaddr_in v4;
        struct sockaddr any;
    } client = {.v4 = {.sin_family = AF_INET}};

    static const int room = SEND_ROOM;
    int fds[2];

    memset(&world, 0, offsetof(struct world, asked));
    world.now_us = 1000 * SECOND;
    world.is_reading = true;
    buf_init(&world.input, SIZE_MAX);
    buf_init(&world.got, SIZE_MAX);
    atomic_store(&service->server->is_stopping, false);
    FUZZ_ASSERT(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                            0, fds));
    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    world.fd = fds[1];
    FUZZ_ASSERT(!connection_new(service, fds[0], &client.any, LISTENER_TCP));
}

/* The broker's side of the connection; NULL: it is gone, or `is_timed` and the
 * broker does not look at it once a second. */
static struct connection *
find_connection(bool is_timed)
{
    struct list *lists[] = {&service->heads, &service->timed,
                            &service->untimed};
    struct list *node = NULL;

    for (size_t i = 0; !node && i < (is_timed ? 2 : 3); i++)
        node = list_first(lists[i]);
    return node ? list_entry(node, struct connection, node) : NULL;
}

/* Reads what is there. false: nothing, nor the end. */
static bool
receive(void)
{
    static char bytes[65536];
    bool has_moved = false;
    ssize_t n = 0;

    while (world.fd >= 0 && world.is_reading && !world.is_end_seen) {
        n = recv(world.fd, bytes, sizeof(bytes), 0);
        if (n < 0 && errno == EAGAIN)
            break;
        world.is_end_seen = n <= 0;
        if (n > 0)
            buf_add(&world.got, bytes, (size_t)n);
        has_moved = true;
    }
    return has_moved;
}

/* Sends the pending bytes, turns the loop, reads. false: no byte moved. */
static bool
turn(void)
{
    bool has_moved = false;
    ssize_t n = 1;

    while (!world.is_shut && world.n_sent < world.input.size && n > 0) {
        n = send(world.fd, world.input.data + world.n_sent,
                 world.input.size - world.n_sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) /* nobody is there */
            n = (ssize_t)(world.input.size - world.n_sent);
        if (n > 0) {
            world.n_sent += (size_t)n;
            has_moved = true;
        }
    }
    uv_run(loop_uv(service->loop), UV_RUN_NOWAIT);
    return receive() || has_moved;
}

/* Reads and writes of the loop within itself move no byte here. */
static void
turn_until_quiet(void)
{
    for (unsigned quiet = 0, rounds = 0; quiet < 3; rounds++) {
        quiet = turn() ? 0 : quiet + 1;
        FUZZ_ASSERT(rounds < ROUNDS_MAX);
    }
}

static void
pass_seconds(unsigned n)
{
    for (; n > 0; n--) {
        struct connection *c = find_connection(true);

        world.now_us += SECOND;
        if (c)
            connection_check(c, world.now_us);
        turn();
    }
}

static void
shut(void)
{
    world.is_shut = world.is_disturbed = true;
    if (world.fd >= 0)
        shutdown(world.fd, SHUT_WR);
}

static void
leave(void)
{
    world.is_shut = world.is_disturbed = true;
    if (world.fd >= 0)
        close(world.fd);
    world.fd = -1;
}

/* The input */

/* Is that what the client sends, and nothing else? */
static bool
is_plain(struct slice input)
{
    const char *end = input.data + input.size, *at = input.data;

    while ((at = memchr(at, 0xff, (size_t)(end - at)))) {
        if (end - at < 2 || !strchr("cl\xff", at[1]) || !at[1])
            return false;
        at += 2;
    }
    return true;
}

static void
do_what(char what, unsigned n)
{
    static const char letters[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                                  "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

    if (what == 'l') {
        for (; n > 0; n--)
            BUF_ADD(&world.input, letters);
        return;
    }
    if (what == 'c' || (world.n_sent < world.input.size && !world.is_shut))
        turn_until_quiet();
    switch (what) {
    case 'q':
        world.is_reading = false;
        break;
    case 'r':
        world.is_reading = true;
        receive(); /* the broker does not know of the room yet */
        break;
    case 'h':
        shut();
        break;
    case 'x':
        leave();
        break;
    case 's':
        world.is_disturbed = true;
        pass_seconds(n % 64);
        break;
    case 'a':
        go_on();
        break;
    case 'j':
        run_job();
        break;
    case 'w':
        write_message();
        break;
    case 'e':
        end_stream();
        break;
    case 'b':
        atomic_store(&service->server->is_stopping, true);
        break;
    }
}

/* `is_whole`: sends all at once. */
static void
do_input(struct slice input, bool is_whole)
{
    while (input.size > 0) {
        const char *mark = memchr(input.data, 0xff, input.size);
        size_t size = mark ? (size_t)(mark - input.data) : input.size;
        char what = '\xff';
        unsigned n = 0;

        buf_add_slice(&world.input, fuzz_take(&input, size));
        if (!mark)
            break;
        fuzz_take(&input, 1);
        if (input.size > 0)
            what = *fuzz_take(&input, 1).data;
        if ((what == 'l' || what == 's') && input.size > 0)
            n = (unsigned char)*fuzz_take(&input, 1).data;
        if (what == '\xff')
            buf_add(&world.input, &what, 1);
        else if (what != 'c' || !is_whole)
            do_what(what, n);
    }
}

/* The answers */

static struct slice
header(struct slice head, const char *name)
{
    const char *at = memmem(head.data, head.size, name, strlen(name));
    const char *end = NULL;

    if (!at)
        return (struct slice){NULL, 0};
    at += strlen(name);
    end = memchr(at, '\r', head.size - (size_t)(at - head.data));
    FUZZ_ASSERT(end);
    return (struct slice){at, (size_t)(end - at)};
}

static bool
is_all(struct slice bytes, char c)
{
    return !bytes.size || (bytes.data[0] == c &&
                           !memcmp(bytes.data, bytes.data + 1, bytes.size - 1));
}

/* Whole frames up to a close frame, unless the client has disturbed them. */
static void
check_frames(struct slice rest)
{
    bool is_closed = false;
    unsigned n_messages = 0;

    while (rest.size > 0) {
        const uint8_t *b = (const uint8_t *)rest.data;
        size_t size = rest.size < 2 ? 0 : b[1];
        struct slice payload;

        FUZZ_ASSERT(!is_closed);
        if (size == 126)
            size = rest.size < 4 ? 0 : 2 + (size_t)(b[2] << 8 | b[3]);
        if (rest.size < 2 + size) {
            FUZZ_ASSERT(world.is_disturbed);
            return;
        }
        fuzz_take(&rest, b[1] == 126 ? 4 : 2);
        payload = fuzz_take(&rest, b[1] == 126 ? size - 2 : size);
        if (b[0] == 0x81) {
            FUZZ_ASSERT(payload.size == MESSAGE && is_all(payload, 'm'));
            n_messages++;
        } else {
            FUZZ_ASSERT(payload.size <= 125);
            FUZZ_ASSERT(b[0] == 0x8a || (b[0] == 0x88 && payload.size != 1));
            is_closed = b[0] == 0x88;
        }
    }
    FUZZ_ASSERT(n_messages <= world.streaming.n_written);
    FUZZ_ASSERT(world.is_disturbed || n_messages == world.streaming.n_written);
    FUZZ_ASSERT(world.is_disturbed || is_closed || !world.streaming.is_ended);
}

/* Chunks up to the last one, which is empty. */
static void
check_chunks(struct slice rest)
{
    bool is_last = false;

    while (rest.size > 0) {
        char *end = NULL;
        size_t size = 0;
        struct slice data;

        FUZZ_ASSERT(!is_last);
        if (!memchr(rest.data, '\n', rest.size)) {
            FUZZ_ASSERT(world.is_disturbed);
            return;
        }
        size = strtoul(rest.data, &end, 16);
        FUZZ_ASSERT(end > rest.data && end[0] == '\r' && end[1] == '\n');
        fuzz_take(&rest, (size_t)(end + 2 - rest.data));
        is_last = !size;
        data = fuzz_take(&rest, size);
        FUZZ_ASSERT(is_all(data, 'm'));
        if (rest.size < 2) {
            FUZZ_ASSERT(world.is_disturbed);
            return;
        }
        FUZZ_ASSERT(!memcmp(fuzz_take(&rest, 2).data, "\r\n", 2));
    }
    FUZZ_ASSERT(world.is_disturbed || is_last == world.streaming.is_ended);
}

/* The body of an answer: `size` bytes were announced. */
static void
check_body(struct slice *rest, size_t size, struct slice expected)
{
    struct slice body = fuzz_take(rest, size);

    FUZZ_ASSERT(world.is_disturbed || body.size == size);
    if (!expected.data)
        return;
    FUZZ_ASSERT(size == expected.size);
    FUZZ_ASSERT(!memcmp(body.data, expected.data, body.size));
}

/* One answer to each request, in order, whole, and none behind the last one.
 * Returns the size of the bytes before the frames of a WebSocket. */
static size_t
check_answers(void)
{
    static const char go_on_line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct slice rest = buf_slice(&world.got);
    unsigned n_checked = 0, next = 0;

    while (rest.size > 0) {
        const char *end = memmem(rest.data, rest.size, "\r\n\r\n", 4);
        struct slice head, number, length, no = {NULL, 0};
        const struct asked *a = NULL;
        bool is_last = false;
        size_t size = 0;

        if (!end) {
            FUZZ_ASSERT(world.is_disturbed);
            break;
        }
        head = fuzz_take(&rest, (size_t)(end + 4 - rest.data));
        if (slice_is(head, go_on_line))
            continue;
        FUZZ_ASSERT(head.size > 13 && !memcmp(head.data, "HTTP/1.1 ", 9));
        if (!memcmp(head.data + 9, "101", 3)) {
            FUZZ_ASSERT(world.streaming.kind == WEBSOCKET);
            check_frames(rest);
            return world.got.size - rest.size;
        }
        number = header(head, "X-Number: ");
        length = header(head, "Content-Length: ");
        is_last = header(head, "Connection: ").data &&
                  !slice_is(header(head, "Connection: "), "keep-alive") &&
                  !slice_is(header(head, "Connection: "), "upgrade");
        if (header(head, "Transfer-Encoding: ").data) {
            FUZZ_ASSERT(is_last && world.streaming.kind == CHUNKS);
            check_chunks(rest);
            return world.got.size;
        }
        if (!length.data) {
            FUZZ_ASSERT(is_last && world.streaming.kind == PLAIN);
            FUZZ_ASSERT(is_all(rest, 'm'));
            return world.got.size;
        }
        size = strtoul(length.data, NULL, 10);
        if (number.data) {
            unsigned i = (unsigned)strtoul(number.data, NULL, 10);

            FUZZ_ASSERT(i >= next && i < world.n_asked);
            next = i + 1;
            a = &world.asked[i];
            FUZZ_ASSERT(a->status == strtoul(head.data + 9, NULL, 10));
            n_checked++;
            check_body(&rest, a->is_head ? 0 : size,
                       a->is_head ? no : a->expected);
        } else { /* net's own; to a HEAD it has no body */
            FUZZ_ASSERT(is_last);
            check_body(&rest, rest.size ? size : 0, no);
        }
        if (is_last) {
            FUZZ_ASSERT(!rest.size);
            FUZZ_ASSERT(world.is_disturbed || world.is_end_seen);
        }
    }
    for (unsigned i = 0; i < world.n_asked && !world.is_disturbed; i++)
        n_checked -= world.asked[i].status > 0;
    FUZZ_ASSERT(world.is_disturbed || n_checked == 0);
    return world.got.size;
}

/* A connection from its first byte to its end. Unless the client disturbs them,
 * `answers` gets its answers, up to the frames of a WebSocket. */
static void
run_connection(struct slice input, bool is_whole, struct buf *answers)
{
    service->next_id = 0; /* so that the answers of two runs are the same */
    connect_client();
    do_input(input, is_whole);
    world.is_reading = true;
    do
        turn_until_quiet();
    while (go_on() || run_job());
    /* An answer is owed only where the body has not come. */
    FUZZ_ASSERT(!world.open || world.asked[world.open - 1].manner >= ECHOES);
    if (!world.is_disturbed) /* else it may be cut in another place */
        buf_add(answers, world.got.data, check_answers());
    else
        check_answers();

    leave();
    for (unsigned i = 0; i < 200 && find_connection(false); i++) {
        pass_seconds(1);
        run_job();
        go_on();
    }
    run_job();
    FUZZ_ASSERT(!find_connection(false) && !world.job);
    for (enum client_kind kind = 0; kind < CLIENT_KINDS; kind++)
        FUZZ_ASSERT(clients_held(service->server->clients, kind) == 0);
    FUZZ_ASSERT(!world.open && world.n_bodies == 0);
    FUZZ_ASSERT(!world.streaming.kind || world.streaming.is_gone);
    for (unsigned i = 0; i < world.n_asked; i++)
        buf_fini(&world.asked[i].body);
    buf_fini(&world.input);
    buf_fini(&world.got);
}

FUZZ_TARGET(connection, input)
{
    struct buf in_pieces, whole;

    set_up();
    buf_init(&in_pieces, SIZE_MAX);
    buf_init(&whole, SIZE_MAX);
    run_connection(input, false, &in_pieces);
    if (is_plain(input)) {
        run_connection(input, true, &whole);
        FUZZ_ASSERT(slice_equal(buf_slice(&in_pieces), buf_slice(&whole)));
    }
    buf_fini(&in_pieces);
    buf_fini(&whole);
}
