/*
 * callbacks_line.c - a connection of callbacks: HTTP/1.1, as it is told.
 */
#include "tests/support/callbacks_line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_MAX  65536
#define BODY_MAX  ((size_t)64 << 20)
#define READ_SIZE 262144
#define SLOW_SIZE 100 /* bytes at a time */
#define PAUSE_MS  20

/* The life of a line */

static void
watch(struct line *l, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = l};

    if (events == l->events)
        return;
    l->events = events;
    callbacks_must(!epoll_ctl(l->c->epoll, EPOLL_CTL_MOD, l->fd, &e), "epoll");
}

static void
forget_request(struct line *l)
{
    free(l->head);
    free(l->method);
    free(l->target);
    l->head = l->method = l->target = NULL;
}

void
line_end(struct line *l, bool is_reset)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    if (is_reset)
        setsockopt(l->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    /* Also while a process that the test just forks has it open, too. */
    epoll_ctl(l->c->epoll, EPOLL_CTL_DEL, l->fd, NULL);
    close(l->fd);
    if (l->prev)
        l->prev->next = l->next;
    else
        l->c->lines = l->next;
    if (l->next)
        l->next->prev = l->prev;
    forget_request(l);
    buf_fini(&l->in);
    buf_fini(&l->body);
    buf_fini(&l->out);
    free(l);
}

void
line_begin(struct callbacks *c, int fd)
{
    struct line *l = calloc(1, sizeof(*l));
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = l};

    callbacks_must(l != NULL, "memory");
    l->c = c;
    l->fd = fd;
    l->events = EPOLLIN;
    l->next = c->lines;
    if (l->next)
        l->next->prev = l;
    c->lines = l;
    buf_init(&l->in, HEAD_MAX + READ_SIZE);
    buf_init(&l->body, BODY_MAX + READ_SIZE);
    buf_init(&l->out, BODY_MAX);
    pthread_mutex_lock(&c->lock);
    l->number = ++c->n_connections;
    pthread_mutex_unlock(&c->lock);
    callbacks_must(!epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &e), "epoll");
}

/* Answering. What may end the line returns false when it did. */

static bool read_head(struct line *l);

static void
filler(struct line *l)
{
    while (l->out.size - l->out_at < READ_SIZE)
        BUF_ADD(&l->out, "X-Filler: and another line of which there is no end "
                         "as long as somebody reads it\r\n");
}

/* Ready for the next request, which may be there already. */
static bool
rest(struct line *l)
{
    if (l->ends) {
        line_end(l, false);
        return false;
    }
    forget_request(l);
    buf_clear(&l->out);
    l->out_at = 0;
    l->state = LINE_HEAD;
    watch(l, EPOLLIN);
    return read_head(l);
}

/* Sends what there is; `most` bytes of it. */
static bool
send_out(struct line *l, size_t most)
{
    while (l->out_at < l->out.size) {
        size_t size = l->out.size - l->out_at;
        ssize_t n = send(l->fd, l->out.data + l->out_at,
                         size < most ? size : most, MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN) {
            watch(l, EPOLLOUT | EPOLLRDHUP);
            return true;
        }
        if (n < 0) {
            line_end(l, false);
            return false;
        }
        l->out_at += (size_t)n;
        if (l->state == LINE_TRICKLE)
            break;
        if (l->state == LINE_ENDLESS && l->out_at == l->out.size) {
            l->out_at = 0;
            buf_clear(&l->out);
            filler(l);
            watch(l, EPOLLOUT | EPOLLRDHUP);
            return true; /* others have a turn, too */
        }
    }
    return l->out_at < l->out.size || rest(l);
}

static void
compose(struct line *l, bool has_length)
{
    const struct manner *m = &l->m.manner;
    unsigned status = m->status ? m->status : 200;
    const char *body = m->body ? m->body : l->m.challenge;
    const char *behind = m->behind ? m->behind : "";

    buf_add_format(&l->out, "HTTP/1.1 %u Scripted\r\n%s", status,
                   m->headers ? m->headers : "");
    if (status == 204 || status == 304) {
        BUF_ADD(&l->out, "\r\n");
        return;
    }
    BUF_ADD(&l->out, "Content-Type: application/octet-stream\r\n");
    if (has_length)
        buf_add_format(&l->out, "Content-Length: %zu\r\n",
                       strlen(body) + strlen(behind));
    buf_add_format(&l->out, "\r\n%s%s", body, behind);
}

static void
accept_it(struct line *l)
{
    unsigned status = l->m.manner.status ? l->m.manner.status : 200;

    if (status / 100 == 2)
        callbacks_accept(l->c, &l->m);
}

static void
tick_later(struct line *l)
{
    unsigned pause_ms = l->m.manner.pause_ms;

    l->next_us =
        callbacks_now_us() + 1000 * (int64_t)(pause_ms ? pause_ms : PAUSE_MS);
    l->c->is_ticking = true;
    watch(l, EPOLLRDHUP);
}

/* Does what is to be done with the request that is there. */
static bool
perform(struct line *l)
{
    switch (l->m.manner.kind) {
    case MANNER_RESET_EARLY:
    case MANNER_RESET:
        line_end(l, true);
        return false;
    case MANNER_CLOSE:
        line_end(l, false);
        return false;
    case MANNER_HANG:
        l->state = LINE_HANG;
        watch(l, EPOLLIN | EPOLLRDHUP);
        return true;
    case MANNER_RESET_MIDDLE:
        send(l->fd, "HTTP/1.1 200 OK\r\nContent-Le", 27, MSG_NOSIGNAL);
        line_end(l, true);
        return false;
    case MANNER_GARBAGE:
        BUF_ADD(&l->out, "\x16\x03\x01 this is not what was asked for\r\n\r\n");
        l->ends = true;
        break;
    case MANNER_ENDLESS_HEAD:
        BUF_ADD(&l->out, "HTTP/1.1 200 Endless\r\n");
        filler(l);
        l->state = LINE_ENDLESS;
        return send_out(l, SIZE_MAX);
    case MANNER_ENDLESS_BODY:
        accept_it(l);
        compose(l, false);
        filler(l);
        l->state = LINE_ENDLESS;
        return send_out(l, SIZE_MAX);
    case MANNER_TRICKLE:
        accept_it(l);
        compose(l, true);
        l->state = LINE_TRICKLE;
        tick_later(l);
        return true;
    case MANNER_ANSWER:
    case MANNER_SLOW_READ:
        accept_it(l);
        compose(l, true);
        break;
    }
    l->state = LINE_ANSWER;
    return send_out(l, SIZE_MAX);
}

static bool
try_to_go(struct line *l)
{
    if (callbacks_may_go(l->c, &l->m))
        return perform(l);
    l->state = LINE_WAIT;
    watch(l, EPOLLIN | EPOLLRDHUP);
    return true;
}

/* Reading */

static bool
take_request(struct line *l, bool is_whole)
{
    struct slice body = {l->body.data, is_whole ? l->body_size : 0};

    callbacks_record(l->c, &l->m, l->number, l->head, l->method, l->target,
                     body, is_whole);
    if (is_whole && l->body.size > l->body_size) { /* and the next one */
        buf_clear(&l->in);
        buf_add(&l->in, l->body.data + l->body_size,
                l->body.size - l->body_size);
    }
    buf_clear(&l->body);
    return l->m.manner.waits ? try_to_go(l) : perform(l);
}

/* Takes the request line apart. */
static bool
read_line(struct line *l)
{
    const char *target = strchr(l->head, ' ');
    const char *end = target ? strchr(target + 1, ' ') : NULL;

    if (!end || strncmp(end, " HTTP/1.1\r\n", 11) != 0)
        return false;
    l->method = slice_dup((struct slice){l->head, (size_t)(target - l->head)});
    l->target =
        slice_dup((struct slice){target + 1, (size_t)(end - target - 1)});
    return l->method && l->target;
}

/* A head, of `size` bytes with its empty line, stands in l->in. */
static bool
take_head(struct line *l, size_t size)
{
    struct seen head;
    char text[64];

    l->head = slice_dup((struct slice){l->in.data, size});
    callbacks_must(l->head != NULL, "memory");
    buf_clear(&l->body);
    buf_add(&l->body, l->in.data + size, l->in.size - size);
    buf_clear(&l->in);
    head = (struct seen){.head = l->head};
    if (!read_line(l) ||
        seen_header(&head, "Transfer-Encoding", text, sizeof(text))) {
        l->m = (struct meeting){.kind = SEEN_STRAY,
                                .manner = {.kind = MANNER_CLOSE}};
        callbacks_record(l->c, &l->m, l->number, l->head, "?", "?",
                         (struct slice){NULL, 0}, false);
        return perform(l);
    }
    l->body_size = 0;
    if (seen_header(&head, "Content-Length", text, sizeof(text)))
        l->body_size = strtoull(text, NULL, 10);
    if (seen_header(&head, "Connection", text, sizeof(text)))
        l->ends = l->ends || !strcasecmp(text, "close");

    callbacks_meet(l->c, &l->m, l->method, l->target);
    if (l->m.manner.kind == MANNER_RESET_EARLY)
        return take_request(l, false);
    if (seen_header(&head, "Expect", text, sizeof(text)))
        send(l->fd, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL);
    if (l->body.size >= l->body_size)
        return take_request(l, true);
    if (l->m.manner.kind == MANNER_SLOW_READ) {
        l->state = LINE_SLOW;
        tick_later(l);
    } else {
        l->state = LINE_BODY;
    }
    return true;
}

static bool
read_head(struct line *l)
{
    const char *end =
        l->in.size > 0 ? memmem(l->in.data, l->in.size, "\r\n\r\n", 4) : NULL;

    if (end)
        return take_head(l, (size_t)(end + 4 - l->in.data));
    if (l->in.size > HEAD_MAX) {
        line_end(l, true);
        return false;
    }
    return true;
}

/* Reads at most `size` bytes. */
static bool
receive(struct line *l, struct buf *to, size_t size, bool *is_new)
{
    char *room = buf_room(to, size);
    ssize_t n;

    callbacks_must(room != NULL, "memory");
    n = recv(l->fd, room, size, 0);
    *is_new = n > 0;
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        line_end(l, false);
        return false;
    }
    to->size += *is_new ? (size_t)n : 0;
    return true;
}

static bool
read_body(struct line *l, size_t most)
{
    size_t left = l->body_size - l->body.size;
    bool is_new;

    if (!receive(l, &l->body, left < most ? left : most, &is_new))
        return false;
    return l->body.size < l->body_size || take_request(l, true);
}

void
line_serve(struct line *l, uint32_t events)
{
    bool is_new;

    if (events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP))
        line_end(l, false);
    else if (events & EPOLLOUT)
        send_out(l, SIZE_MAX);
    else if (l->state == LINE_BODY)
        read_body(l, READ_SIZE);
    else if (receive(l, &l->in, READ_SIZE, &is_new) && is_new &&
             l->state == LINE_HEAD)
        read_head(l);
}

void
line_wake(struct line *l)
{
    if (l->state == LINE_WAIT)
        try_to_go(l);
}

bool
line_tick(struct line *l, int64_t now_us)
{
    bool is_slow = l->state == LINE_SLOW;

    if (!is_slow && l->state != LINE_TRICKLE)
        return false;
    if (l->next_us > now_us)
        return true;
    if ((is_slow ? read_body(l, SLOW_SIZE) : send_out(l, 1)) &&
        (l->state == LINE_TRICKLE || l->state == LINE_SLOW))
        tick_later(l);
    return true;
}
