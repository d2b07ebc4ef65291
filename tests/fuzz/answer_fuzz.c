/*
 * answer_fuzz.c - calls, from the request to the answer, on connections
 * that are kept for the next call.
 *
 * The server sends the input. Where a byte 0xff and a letter stand in it,
 * something happens between the bytes:
 *
 *     c        the caller reads what was sent before
 *     g, h, p  the next call begins, a GET, HEAD or POST, if none is under way
 *     b        a GET begins before the caller sees what was sent last
 *     e        the server ends its sending
 *     q        the server reads no more of the request
 *     x        the caller gives the call up
 *     l N      the server sends 64 times N letters
 *
 * 0xff twice stands for one such byte. A GET is under way when the input
 * begins. Socket pairs carry the bytes; call_exchange.c, call_connection.c and
 * the loop are the broker's, its queue and the opening of connections are
 * doubles.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/calls/caller_state.h"
#include "tests/fuzz/fuzz.h"

#define ANSWER_MAX ((size_t)5000)
#define POST_SIZE  ((size_t)300000) /* more than a socket takes */
#define LETTERS    64

/* The most that may pass between a run and its repeat, for a Retry-After with a
 * date. */
#define SECONDS_PASSED_US 60000000

/* More than an input can take. */
#define ROUNDS_MAX 100000

static char post[POST_SIZE];

/* The result of a call. */
struct outcome {
    bool is_over;
    enum call_failure failure;
    unsigned status;
    bool is_cut;
    int64_t retry_after_us;
    struct buf text; /* the rest, as lines */
};

static struct world {
    struct caller *caller;
    struct place host, lane;
    int fd;           /* the server's end; -1: none */
    struct buf got;   /* that the server has read of this connection */
    bool is_unread;   /* the server reads no more */
    bool is_shut;     /* it sends no more */
    bool is_reliable; /* the whole request is read: the answer alone decides */
    struct call call;
    bool is_calling;
    struct outcome outcome;

    /* Since the call began, on its connection. */
    struct buf sent;
    bool is_sent_shut;
} world;

/* Doubles */

void
call_queue_release(struct call *call)
{
    FUZZ_ASSERT(call == &world.call && world.is_calling);
}

void
place_leave(struct place *place)
{
    FUZZ_ASSERT(place == &world.host && place->n_users-- > 0);
}

struct place *
call_queue_host(struct call_queue *queue, const char *url)
{
    FUZZ_ASSERT(!queue && !url); /* no redirect is followed */
    return NULL;
}

/* Requests */

static bool
begins_with(struct slice text, const char *with)
{
    size_t size = strlen(with);

    return text.size >= size && !memcmp(text.data, with, size);
}

/* Whole requests, one behind the other, and a part of one at the end. */
static void
check_requests(void)
{
    struct slice rest = buf_slice(&world.got);

    while (rest.size > 0) {
        const char *end = memmem(rest.data, rest.size, "\r\n\r\n", 4);
        bool is_post = begins_with(rest, "POST /a?b HTTP/1.1\r\nHost: h\r\n");
        struct slice body;

        if (!end)
            return;
        FUZZ_ASSERT(is_post ||
                    begins_with(rest, "GET /a?b HTTP/1.1\r\nHost: h\r\n") ||
                    begins_with(rest, "HEAD /a?b HTTP/1.1\r\nHost: h\r\n"));
        fuzz_take(&rest, (size_t)(end + 4 - rest.data));
        body = fuzz_take(&rest, is_post ? POST_SIZE : 0);
        FUZZ_ASSERT(!memcmp(body.data, post, body.size));
    }
}

/* Calls begin */

/* Connects at once. */
void
call_connect(struct call_connection *p)
{
    struct call_socket *socket = calloc(1, sizeof(*socket));
    int fds[2];

    FUZZ_ASSERT(socket && p->caller == world.caller && p->call == &world.call);
    FUZZ_ASSERT(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                            0, fds));
    FUZZ_ASSERT(!uv_poll_init(loop_uv(p->caller->loop), &socket->poll, fds[0]));
    socket->poll.data = socket;
    socket->fd = fds[0];
    socket->connection = p;
    socket->address.any.sa_family = AF_UNIX;
    p->socket = socket;
    p->caller->n_sockets++;
    check_requests();
    if (world.fd >= 0)
        close(world.fd);
    world.fd = fds[1];
    world.is_shut = world.is_sent_shut = false;
    buf_clear(&world.sent);
    buf_clear(&world.got);
    list_put(&p->caller->due, &p->node);
}

void
call_connect_stop(struct call_connection *p)
{
    FUZZ_ASSERT(!p->connecting);
}

/* Outcomes */

static void
add_line(struct buf *to, struct slice line)
{
    FUZZ_ASSERT(!memchr(line.data ? line.data : "", '\n', line.size));
    buf_add_slice(to, line);
    BUF_ADD(to, "\n");
}

static void
on_done(struct call *call)
{
    struct outcome *o = &world.outcome;
    struct buf *text = &o->text;

    FUZZ_ASSERT(world.is_calling && !o->is_over);
    world.is_calling = false;
    o->is_over = true;
    o->failure = call->failure;
    o->status = call->status;
    o->is_cut = call->is_cut;
    o->retry_after_us = call->retry_after_us;
    if (call->failure) {
        FUZZ_ASSERT(call->failure == CALL_BROKEN);
        fuzz_check_sentence(call->why);
        buf_add_text(text, call->why);
        return;
    }
    FUZZ_ASSERT(call->status >= 200 && call->status <= 999);
    FUZZ_ASSERT(call->answer.size <= call->max_answer);
    FUZZ_ASSERT(!call->is_cut || call->answer.size == call->max_answer);
    FUZZ_ASSERT(call->method != CALL_HEAD || call->answer.size == 0);
    add_line(text, call->content_type);
    add_line(text, call->etag);
    add_line(text, call->last_modified);
    add_line(text, call->links);
    buf_add_slice(text, call->answer);
}

static void
begin_outcome(void)
{
    buf_fini(&world.outcome.text);
    world.outcome = (struct outcome){false};
    buf_init(&world.outcome.text, SIZE_MAX);
}

/* The server */

/* Reads what is there of requests. */
static bool
read_requests(void)
{
    static char bytes[65536];
    bool has_moved = false;
    ssize_t n = 1;

    while (world.fd >= 0 && !world.is_unread && n > 0) {
        n = recv(world.fd, bytes, sizeof(bytes), 0);
        if (n > 0)
            buf_add(&world.got, bytes, (size_t)n);
        has_moved |= n > 0;
    }
    return has_moved;
}

/* True if the caller has read all that was sent, or reads no more. */
static bool
is_all_read(void)
{
    static int before;
    int n = 0;

    if (world.fd >= 0)
        FUZZ_ASSERT(!ioctl(world.fd, SIOCOUTQ, &n));
    if (n == before)
        return true;
    before = n;
    return n == 0;
}

static void
turn_until_quiet(void)
{
    for (unsigned quiet = 0, rounds = 0; quiet < 3; rounds++) {
        loop_turn(world.caller->loop, false);
        call_go_on(world.caller);
        quiet = read_requests() || !is_all_read() ? 0 : quiet + 1;
        FUZZ_ASSERT(rounds < ROUNDS_MAX);
    }
}

/* Sends in pieces that the caller reads as they come. */
static void
send_bytes(struct slice bytes)
{
    if (world.is_calling && !world.is_shut)
        buf_add_slice(&world.sent, bytes);
    while (bytes.size > 0 && !world.is_shut) {
        ssize_t n = send(world.fd, bytes.data, bytes.size, MSG_NOSIGNAL);

        if (n < 0 && errno != EAGAIN)
            return; /* nobody is there */
        if (n > 0)
            slice_skip(&bytes, (size_t)n);
        else
            turn_until_quiet();
    }
}

static void
shut_server(void)
{
    if (world.is_calling)
        world.is_sent_shut = true;
    world.is_shut = true;
    shutdown(world.fd, SHUT_WR);
}

/* Calls */

static void
begin_call(enum call_method method)
{
    struct call *call = &world.call;

    begin_outcome();
    memset(call, 0, sizeof(*call));
    call->method = method;
    call->url = "http://h/a?b";
    call->timeout_us = INT64_C(3600000000);
    call->max_answer = ANSWER_MAX;
    call->body = (struct slice){post, POST_SIZE};
    call->done = on_done;
    call->own.lane = &world.lane;
    call->own.began_us = clock_steady_us();
    world.is_calling = world.is_reliable = true;
    world.is_unread = false;
    buf_clear(&world.sent);
    world.is_sent_shut = false;
    call_begin(world.caller, call);
    call_go_on(world.caller); /* a new connection is open */
    FUZZ_ASSERT(!world.is_shut);
}

static void
give_up(void)
{
    call_stop(&world.call);
    world.is_calling = false;
}

static void
set_up(void)
{
    static const struct loop_calls calls = {NULL, NULL};
    static const struct sockaddr_un anywhere = {.sun_family = AF_UNIX};
    struct caller *c = calloc(1, sizeof(*c));

    FUZZ_ASSERT(c);
    memset(post, 'p', sizeof(post));
    call_connections_init(c);
    c->queue.host_connections = 1;
    c->options.unix_socket = &anywhere;
    c->loop = loop_new(&calls, c);
    FUZZ_ASSERT(c->loop);
    memset(&world, 0, sizeof(world));
    world.fd = -1;
    world.caller = c;
    world.host.key = SLICE("h:80");
    list_init(&world.host.kept);
    world.lane.host = &world.host;
    buf_init(&world.sent, SIZE_MAX);
    buf_init(&world.got, SIZE_MAX);
}

/* Nothing stays behind. */
static void
tear_down(void)
{
    if (world.is_calling)
        give_up();
    call_connections_close(world.caller);
    FUZZ_ASSERT(world.host.n_connections == 0 && world.host.n_users == 0);
    FUZZ_ASSERT(world.caller->n_kept == 0 && world.caller->n_sockets == 0);
    if (world.fd >= 0)
        close(world.fd);
    FUZZ_ASSERT(loop_free(world.caller->loop));
    call_connections_fini(world.caller);
    free(world.caller);
    buf_fini(&world.sent);
    buf_fini(&world.got);
    buf_fini(&world.outcome.text);
}

static void
answer_alone(const struct world *before, size_t size)
{
    set_up();
    begin_call(before->call.method);
    turn_until_quiet();
    send_bytes((struct slice){before->sent.data, size});
    if (before->is_sent_shut)
        shut_server();
    turn_until_quiet();
}

/* If the connection is kept, the answer needed each byte that the server sent:
 * without the last one the call goes on. */
static void
check_end(void)
{
    struct world before = world;

    answer_alone(&before, before.sent.size - 1);
    FUZZ_ASSERT(!world.outcome.is_over);
    tear_down();
    world = before;
}

/* A call alone, on a connection of its own, whose answer comes at once, has the
 * same outcome: so neither pieces nor earlier answers matter. A request of
 * which the server has read only a part may end otherwise. */
static void
check_outcome(void)
{
    struct world before = world;

    if (!before.outcome.is_over || !before.is_reliable)
        return;
    answer_alone(&before, before.sent.size);
    FUZZ_ASSERT(world.outcome.is_over);
    FUZZ_ASSERT(world.outcome.failure == before.outcome.failure);
    FUZZ_ASSERT(world.outcome.status == before.outcome.status);
    FUZZ_ASSERT(world.outcome.is_cut == before.outcome.is_cut);
    FUZZ_ASSERT(llabs(world.outcome.retry_after_us -
                      before.outcome.retry_after_us) <= SECONDS_PASSED_US);
    FUZZ_ASSERT(slice_equal(buf_slice(&world.outcome.text),
                            buf_slice(&before.outcome.text)));
    tear_down();
    world = before;
}

static void
begin_next(enum call_method method)
{
    if (world.is_calling)
        return;
    check_outcome();
    if (world.caller->n_kept > 0)
        check_end();
    begin_call(method);
}

/* The input */

static void
do_letter(char letter, struct slice *rest)
{
    static char letters[LETTERS * 256];
    struct slice count;

    switch (letter) {
    case 'c':
        turn_until_quiet();
        break;
    case 'g':
        turn_until_quiet();
        begin_next(CALL_GET);
        break;
    case 'h':
        turn_until_quiet();
        begin_next(CALL_HEAD);
        break;
    case 'p':
        turn_until_quiet();
        begin_next(CALL_POST);
        break;
    case 'b':
        begin_next(CALL_GET);
        break;
    case 'e':
        shut_server();
        break;
    case 'q':
        world.is_unread = true;
        world.is_reliable = false;
        break;
    case 'x':
        if (world.is_calling)
            give_up();
        break;
    case 'l':
        count = fuzz_take(rest, 1);
        memset(letters, 'a', sizeof(letters));
        if (count.size)
            send_bytes((struct slice){
                letters, LETTERS * (size_t)(unsigned char)count.data[0]});
        break;
    case '\xff':
        send_bytes(SLICE("\xff"));
        break;
    default:
        break;
    }
}

FUZZ_TARGET(answer, input)
{
    set_up();
    begin_call(CALL_GET);
    while (input.size > 0) {
        const char *mark = memchr(input.data, 0xff, input.size);
        struct slice letter;

        send_bytes(
            fuzz_take(&input, mark ? (size_t)(mark - input.data) : input.size));
        fuzz_take(&input, 1);
        letter = fuzz_take(&input, 1);
        if (letter.size)
            do_letter(letter.data[0], &input);
    }
    turn_until_quiet();
    for (int i = 0; i < 2; i++) { /* it may be made again, once */
        shut_server();
        turn_until_quiet();
    }
    check_requests();
    FUZZ_ASSERT(!world.is_calling || world.is_unread);
    check_outcome();
    tear_down();
}
