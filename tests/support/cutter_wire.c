/*
 * cutter_wire.c - the thread of a cutter: passes bytes between pairs of
 * sockets, as it is told.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/cutter_inside.h"

#define PAIRS_MAX  500
#define PIECE_SIZE 16384

/* One direction of a pair: what was read on one side, and not yet written to
 * the other. No more is read until that is done. */
struct lane {
    char bytes[PIECE_SIZE];
    size_t size, sent;
    int64_t due_ms; /* it is not sent before that */
    bool has_end;   /* the side it comes from says no more */
    bool is_shut;   /* and the other side was told */
};

struct cutter_pair {
    struct cutter_pair *next;
    int client, server; /* server -1: it is held, or over */
    size_t at;          /* of the client in what is polled */
    bool is_held, is_over, is_stalled;
    bool is_planned_hold;
    int64_t held_until_ms, stalled_until_ms; /* 0: no end */
    uint64_t left;                           /* down; CUTTER_NONE */
    enum cutter_end end_then;
    struct lane lanes[2];
};

static int64_t
now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* splitmix64 */
static uint64_t
roll(struct cutter *c)
{
    uint64_t z = c->die += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Ends. All of the following: the mutex is held. */

static void
close_socket(int *fd, bool resets)
{
    struct linger none = {.l_onoff = 1};

    if (*fd < 0)
        return;
    if (resets)
        setsockopt(*fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    close(*fd);
    *fd = -1;
}

static void
finish(struct cutter *c, struct cutter_pair *p, bool resets)
{
    if (p->is_over)
        return;
    close_socket(&p->client, resets);
    close_socket(&p->server, resets);
    p->is_over = true;
    c->counts.n_open--;
    if (p->is_held)
        c->counts.n_held--;
    p->is_held = false;
}

static void
end_pair(struct cutter *c, struct cutter_pair *p, enum cutter_end end)
{
    if (p->is_over || (end == CUTTER_STALL && p->is_stalled))
        return;
    if (end == CUTTER_STALL) {
        p->is_stalled = true;
        c->counts.n_stalls++;
        return;
    }
    if (end == CUTTER_CLOSE)
        c->counts.n_closes++;
    else
        c->counts.n_resets++;
    finish(c, p, end == CUTTER_RESET);
}

/* Connections */

static int
loopback(struct sockaddr_in *address, unsigned port)
{
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cutter_must(fd >= 0, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    *address = (struct sockaddr_in){.sin_family = AF_INET,
                                    .sin_port = htons((uint16_t)port)};
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return fd;
}

/* A socket that keeps the port; who connects before it listens is refused. */
static int
bind_port(struct cutter *c)
{
    struct sockaddr_in address;
    socklen_t size = sizeof(address);
    int fd = loopback(&address, c->port);

    cutter_must(!bind(fd, (struct sockaddr *)&address, size), "bind");
    cutter_must(!getsockname(fd, (struct sockaddr *)&address, &size), "name");
    c->port = ntohs(address.sin_port);
    return fd;
}

/* Goes on to the server; a loopback's answer to that comes at once. */
static void
let_through(struct cutter *c, struct cutter_pair *p)
{
    struct sockaddr_in address;
    int fd = loopback(&address, c->behind);

    if (p->is_held)
        c->counts.n_held--;
    p->is_held = false;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
        close(fd);
        finish(c, p, true);
        return;
    }
    p->server = fd;
}

/* What the plan has for a new connection. */
static void
plan_pair(struct cutter *c, struct cutter_pair *p)
{
    const struct cutter_plan *plan = &c->plan;
    uint64_t fate = roll(c) % 100, hold = roll(c) % 100, size = roll(c),
             part = roll(c) % 16;

    p->is_planned_hold = hold < plan->holds;
    if (p->is_planned_hold)
        p->held_until_ms = now_ms() + (plan->hold_ms ? plan->hold_ms : 100);
    if (fate < plan->closes)
        p->end_then = CUTTER_CLOSE;
    else if (fate < plan->closes + plan->resets)
        p->end_then = CUTTER_RESET;
    else if (fate < plan->closes + plan->resets + plan->stalls)
        p->end_then = CUTTER_STALL;
    else
        return;
    /* A range of sizes each, of powers of two, is as likely as the next. */
    p->left = 1 + size % (1 + (plan->bytes_max >> part));
}

static void
let_in(struct cutter *c)
{
    struct cutter_pair *p, **last = &c->pairs;
    int one = 1, fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC);
    size_t n = 0;

    if (fd < 0)
        return;
    for (; *last; last = &(*last)->next)
        n++;
    if (n == PAIRS_MAX) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    p = calloc(1, sizeof(*p));
    cutter_must(p != NULL, "memory");
    p->client = fd;
    p->server = -1;
    p->left = CUTTER_NONE;
    *last = p;
    c->counts.n_connections++;
    c->counts.n_open++;
    if (c->has_plan)
        plan_pair(c, p);
    if (c->holds || p->is_planned_hold) {
        p->is_held = true;
        c->counts.n_held++;
    } else {
        let_through(c, p);
    }
    /* Those that the plan has held come after this one. */
    for (struct cutter_pair *other = c->pairs; other != p; other = other->next)
        if (other->is_held && other->is_planned_hold && !c->holds)
            let_through(c, other);
}

static void
let(struct cutter *c)
{
    int i = c->let;

    c->let = -1;
    for (struct cutter_pair *p = c->pairs; p && i != -1; p = p->next)
        if (p->is_held && (i == -2 || i-- == 0))
            let_through(c, p);
}

/* Bytes */

static bool
may_pass(const struct cutter *c, const struct cutter_pair *p, int way)
{
    return !p->is_over && !p->is_held && !p->is_stalled && !c->is_stalled[way];
}

/* How much of a piece may be sent before something ends: at least 1, as what
 * has come to its end was ended. */
static size_t
allowed(const struct cutter *c, const struct cutter_pair *p, int way,
        size_t size)
{
    if (c->left[way] < size)
        size = (size_t)c->left[way];
    if (way == CUTTER_DOWN && p->left < size)
        size = (size_t)p->left;
    return size;
}

static void
count_down(struct cutter *c, struct cutter_pair *p, int way, size_t size)
{
    c->counts.passed[way] += size;
    if (c->left[way] != CUTTER_NONE) {
        c->left[way] -= size;
        if (c->left[way] == 0) {
            c->left[way] = CUTTER_NONE;
            end_pair(c, p, c->end_then[way]);
        }
    }
    if (way == CUTTER_DOWN && p->left != CUTTER_NONE) {
        p->left -= size;
        if (p->left == 0) {
            p->left = CUTTER_NONE;
            if (p->end_then == CUTTER_STALL && c->plan.stall_ms > 0)
                p->stalled_until_ms = now_ms() + c->plan.stall_ms;
            end_pair(c, p, p->end_then);
        }
    }
}

/* Reads a piece where there is none, and sends what may be sent. */
static void
pass(struct cutter *c, struct cutter_pair *p, int way)
{
    struct lane *lane = &p->lanes[way];
    int from = way == CUTTER_UP ? p->client : p->server;
    int to = way == CUTTER_UP ? p->server : p->client;
    ssize_t n;

    if (lane->size == 0 && !lane->has_end) {
        n = recv(from, lane->bytes, PIECE_SIZE, MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            finish(c, p, true); /* the one side's reset is the other's */
            return;
        }
        lane->has_end = n == 0;
        lane->size = n > 0 ? (size_t)n : 0;
        lane->sent = 0;
        lane->due_ms = c->delay_ms ? now_ms() + c->delay_ms : 0;
    }
    if (lane->size > 0 && now_ms() >= lane->due_ms) {
        n = send(to, lane->bytes + lane->sent,
                 allowed(c, p, way, lane->size - lane->sent),
                 MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            finish(c, p, true);
            return;
        }
        if (n > 0) {
            lane->sent += (size_t)n;
            if (lane->sent == lane->size)
                lane->size = 0;
            count_down(c, p, way, (size_t)n);
        }
    }
    if (lane->size == 0 && lane->has_end && !lane->is_shut && !p->is_over) {
        shutdown(to, SHUT_WR);
        lane->is_shut = true;
    }
    if (p->lanes[0].is_shut && p->lanes[1].is_shut)
        finish(c, p, false);
}

/* The thread */

/* What a lane waits for; *wait_ms: no longer than that. */
static void
watch(const struct cutter *c, const struct cutter_pair *p, int way,
      struct pollfd *client, struct pollfd *server, int64_t *wait_ms)
{
    const struct lane *lane = &p->lanes[way];
    struct pollfd *from = way == CUTTER_UP ? client : server;
    struct pollfd *to = way == CUTTER_UP ? server : client;
    int64_t left_ms = lane->due_ms - now_ms();

    if (!may_pass(c, p, way))
        return;
    if (lane->size == 0 && !lane->has_end)
        from->events |= POLLIN;
    else if (lane->size > 0 && left_ms <= 0)
        to->events |= POLLOUT;
    else if (lane->size > 0 && left_ms < *wait_ms)
        *wait_ms = left_ms;
}

static void
watch_clock(int64_t until_ms, int64_t *wait_ms)
{
    int64_t left_ms = until_ms - now_ms();

    if (until_ms > 0 && left_ms < *wait_ms)
        *wait_ms = left_ms > 0 ? left_ms : 0;
}

/* A socket that is not watched for anything would still wake with its error:
 * it is left out. */
static void
leave_out(struct pollfd *fd)
{
    if (!fd->events)
        fd->fd = -1;
}

static void
by_the_clock(struct cutter *c)
{
    int64_t now = now_ms();

    for (struct cutter_pair *p = c->pairs; p; p = p->next) {
        if (p->is_held && p->is_planned_hold && !c->holds &&
            now >= p->held_until_ms)
            let_through(c, p);
        if (p->is_stalled && p->stalled_until_ms > 0 &&
            now >= p->stalled_until_ms)
            end_pair(c, p, CUTTER_RESET);
    }
}

static void
do_as_told(struct cutter *c)
{
    int accepts = 0;
    socklen_t size = sizeof(accepts);

    if (c->has_end)
        for (struct cutter_pair *p = c->pairs; p; p = p->next)
            end_pair(c, p, c->end);
    if (c->has_go)
        for (struct cutter_pair *p = c->pairs; p; p = p->next) {
            p->is_stalled = false;
            p->stalled_until_ms = 0;
        }
    if (c->is_new_plan)
        c->die = c->plan.seed;
    c->has_end = c->has_go = c->is_new_plan = false;
    let(c);
    getsockopt(c->listener, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size);
    if (c->refuses && accepts) {
        close(c->listener);
        c->listener = bind_port(c);
    } else if (!c->refuses && !accepts) {
        cutter_must(!listen(c->listener, SOMAXCONN), "listen");
    }
    c->done = c->asked;
}

static void
remove_over(struct cutter *c, bool all)
{
    for (struct cutter_pair **at = &c->pairs, *p; (p = *at);) {
        if (all)
            finish(c, p, false);
        if (p->is_over) {
            *at = p->next;
            free(p);
        } else {
            at = &p->next;
        }
    }
}

/* Waits for what may happen next; the mutex is let go meanwhile. */
static void
rest(struct cutter *c, struct pollfd fds[], bool *has_caller)
{
    int64_t wait_ms = 3600000;
    uint64_t n_wakes;
    size_t n = 0;

    fds[n++] = (struct pollfd){.fd = c->wake, .events = POLLIN};
    fds[n++] =
        (struct pollfd){.fd = c->refuses ? -1 : c->listener, .events = POLLIN};
    for (struct cutter_pair *p = c->pairs; p; p = p->next) {
        struct pollfd *client = &fds[n++], *server = &fds[n++];

        *client = (struct pollfd){.fd = p->client};
        *server = (struct pollfd){.fd = p->server};
        p->at = n - 2;
        if (p->is_held || p->is_stalled)
            client->events = POLLRDHUP;
        watch(c, p, CUTTER_UP, client, server, &wait_ms);
        watch(c, p, CUTTER_DOWN, client, server, &wait_ms);
        leave_out(client);
        leave_out(server);
        if (p->is_held && p->is_planned_hold)
            watch_clock(p->held_until_ms, &wait_ms);
        if (p->is_stalled)
            watch_clock(p->stalled_until_ms, &wait_ms);
    }
    pthread_mutex_unlock(&c->mutex);
    poll(fds, n, (int)wait_ms);
    if (fds[0].revents && read(c->wake, &n_wakes, sizeof(n_wakes)) < 0)
        cutter_must(errno == EAGAIN, "wake");
    pthread_mutex_lock(&c->mutex);
    *has_caller = fds[1].revents != 0;
    for (struct cutter_pair *p = c->pairs; p; p = p->next)
        if ((p->is_held || p->is_stalled) &&
            fds[p->at].revents & (POLLRDHUP | POLLHUP | POLLERR))
            finish(c, p, true); /* the client has given up */
}

static void *
run(void *user)
{
    struct cutter *c = user;
    struct pollfd fds[2 + 2 * PAIRS_MAX];

    pthread_mutex_lock(&c->mutex);
    while (!c->is_ending) {
        bool has_caller;

        rest(c, fds, &has_caller);
        do_as_told(c);
        if (has_caller && !c->refuses)
            let_in(c);
        by_the_clock(c);
        for (struct cutter_pair *p = c->pairs; p; p = p->next)
            for (int way = 0; way < 2; way++)
                if (may_pass(c, p, way))
                    pass(c, p, way);
        remove_over(c, false);
        pthread_cond_broadcast(&c->changed);
    }
    remove_over(c, true);
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

void
cutter_wire_open(struct cutter *c)
{
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    cutter_must(c->wake >= 0, "eventfd");
    c->listener = bind_port(c);
    cutter_must(!listen(c->listener, SOMAXCONN), "listen");
    cutter_must(!pthread_create(&c->thread, NULL, run, c), "thread");
}

void
cutter_wire_wake(struct cutter *c)
{
    uint64_t one = 1;

    cutter_must(write(c->wake, &one, sizeof(one)) == sizeof(one), "wake");
}

void
cutter_wire_close(struct cutter *c)
{
    pthread_mutex_lock(&c->mutex);
    c->is_ending = true;
    pthread_mutex_unlock(&c->mutex);
    cutter_wire_wake(c);
    pthread_join(c->thread, NULL);
    close(c->listener);
    close(c->wake);
}
