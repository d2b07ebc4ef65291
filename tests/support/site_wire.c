/*
 * site_wire.c - the thread of a site: listens, and looks after the connections
 * (poll).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/site_inside.h"

#define LINES_MAX   1000
#define REQUEST_MAX (8 << 20)

/* A connection: one request after the other. */
struct site_line {
    struct site_line *next;
    int fd;
    struct buf in, out;
    size_t n_sent;
    size_t cut;                   /* of `out`; SIZE_MAX: all of it is sent */
    struct site_request *request; /* under way; NULL: it waits for one */
    bool is_answered;             /* the answer is in `out` */
    bool is_over;
};

/* The mutex is held. */
static void
end_request(struct site *s, struct site_line *l)
{
    if (l->request) {
        l->request->is_over = true;
        s->n_parallel--;
    }
    l->request = NULL;
    l->is_answered = false;
    pthread_cond_broadcast(&s->changed);
}

static void
let_in(struct site *s, size_t n_lines)
{
    struct site_line *l;
    int one = 1, fd;

    if (n_lines >= LINES_MAX)
        return;
    fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    l = calloc(1, sizeof(*l));
    site_must(l != NULL, "memory");
    l->fd = fd;
    buf_init(&l->in, REQUEST_MAX);
    buf_init(&l->out, SIZE_MAX / 2);
    l->next = s->lines;
    s->lines = l;
    pthread_mutex_lock(&s->mutex);
    s->n_connections++;
    pthread_mutex_unlock(&s->mutex);
}

/* Takes a request off what has come; false: it is not whole yet. The mutex is
 * held. */
static bool
take_request(struct site *s, struct site_line *l)
{
    const char *end =
        l->in.size ? memmem(l->in.data, l->in.size, "\r\n\r\n", 4) : NULL;
    struct site_request *r;
    struct slice line, value;
    size_t head_size, body_size = 0;
    char *head;

    if (!end)
        return false;
    head_size = (size_t)(end - l->in.data) + 4;
    head = slice_dup((struct slice){l->in.data, head_size});
    site_must(head != NULL, "memory");
    if (site_value(head, "Content-Length", &value))
        body_size = strtoull(value.data, NULL, 10);
    if (l->in.size - head_size < body_size) {
        free(head);
        return false;
    }
    r = calloc(1, sizeof(*r));
    site_must(r != NULL, "memory");
    r->head = head;
    r->body = slice_dup((struct slice){l->in.data + head_size, body_size});
    r->body_size = body_size;
    line = slice_of(head);
    slice_take(&line, ' ');
    r->page = site_page_asked(s, slice_take(&line, ' '));
    *s->last = r;
    s->last = &r->next;
    l->in.size -= head_size + body_size;
    memmove(l->in.data, l->in.data + head_size + body_size, l->in.size);
    l->request = r;
    if (++s->n_parallel > s->max_parallel)
        s->max_parallel = s->n_parallel;
    pthread_cond_broadcast(&s->changed);
    return true;
}

/* Sends as much as the socket takes; the answer is over when all is sent. */
static void
send_some(struct site *s, struct site_line *l)
{
    size_t end = l->out.size < l->cut ? l->out.size : l->cut;
    struct slice value;

    while (l->n_sent < end) {
        ssize_t n =
            send(l->fd, l->out.data + l->n_sent, end - l->n_sent, MSG_NOSIGNAL);

        if (n < 0) {
            l->is_over = errno != EAGAIN && errno != EINTR;
            return;
        }
        l->n_sent += (size_t)n;
    }
    if (l->cut != SIZE_MAX ||
        (site_value(l->request->head, "Connection", &value) &&
         slice_is_word(value, "close")))
        l->is_over = true;
    pthread_mutex_lock(&s->mutex);
    end_request(s, l);
    pthread_mutex_unlock(&s->mutex);
}

/* Goes on with a connection as far as it can. */
static void
go_on(struct site *s, struct site_line *l)
{
    while (!l->is_over) {
        bool is_ready;

        pthread_mutex_lock(&s->mutex);
        is_ready = l->request || take_request(s, l);
        if (is_ready && !l->is_answered) {
            is_ready =
                !l->request->page->manners.holds && !s->all.manners.holds;
            if (is_ready) {
                buf_clear(&l->out);
                l->n_sent = 0;
                site_answer(s, l->request, &l->out, &l->cut);
                site_must(!l->out.failed, "memory");
                l->is_answered = true;
            }
        }
        pthread_mutex_unlock(&s->mutex);
        if (!is_ready)
            return;
        send_some(s, l);
        if (l->is_answered) /* the peer has to read first */
            return;
    }
}

static void
receive(struct site_line *l)
{
    char *room = buf_room(&l->in, 65536);
    ssize_t n;

    if (!room) {
        l->is_over = true;
        return;
    }
    n = recv(l->fd, room, 65536, 0);
    if (n > 0)
        l->in.size += (size_t)n;
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        l->is_over = true;
}

static void
remove_over(struct site *s, bool all)
{
    for (struct site_line **at = &s->lines, *l; (l = *at);) {
        if (!l->is_over && !all) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        pthread_mutex_lock(&s->mutex);
        end_request(s, l);
        pthread_mutex_unlock(&s->mutex);
        close(l->fd);
        buf_fini(&l->in);
        buf_fini(&l->out);
        free(l);
    }
}

static bool
is_ending(struct site *s)
{
    bool is;

    pthread_mutex_lock(&s->mutex);
    is = s->is_ending;
    pthread_mutex_unlock(&s->mutex);
    return is;
}

static void *
run(void *user)
{
    struct site *s = user;
    struct pollfd fds[LINES_MAX + 2];
    uint64_t n_wakes;

    while (!is_ending(s)) {
        struct site_line *l;
        size_t n = 2;

        fds[0] = (struct pollfd){.fd = s->wake, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = s->listener, .events = POLLIN};
        for (l = s->lines; l; l = l->next)
            fds[n++] = (struct pollfd){
                .fd = l->fd,
                .events = (short)(POLLIN | (l->is_answered ? POLLOUT : 0))};
        if (poll(fds, n, -1) < 0)
            continue;
        if (fds[0].revents && read(s->wake, &n_wakes, sizeof(n_wakes)) < 0)
            site_must(errno == EAGAIN, "wake");
        n = 2;
        for (l = s->lines; l; l = l->next, n++) {
            if (fds[n].revents & (POLLIN | POLLHUP | POLLERR))
                receive(l);
            go_on(s, l);
        }
        remove_over(s, false);
        if (fds[1].revents)
            let_in(s, n - 2);
    }
    remove_over(s, true);
    return NULL;
}

void
site_wire_open(struct site *s)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->listener =
        socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    site_must(s->wake >= 0 && s->listener >= 0, "socket");
    site_must(!bind(s->listener, (struct sockaddr *)&address, size), "bind");
    site_must(!listen(s->listener, SOMAXCONN), "listen");
    site_must(!getsockname(s->listener, (struct sockaddr *)&address, &size),
              "name");
    s->port = ntohs(address.sin_port);
    site_must(!pthread_create(&s->thread, NULL, run, s), "thread");
}

void
site_wire_wake(struct site *s)
{
    uint64_t one = 1;

    site_must(write(s->wake, &one, sizeof(one)) == sizeof(one), "wake");
}

void
site_wire_close(struct site *s)
{
    pthread_mutex_lock(&s->mutex);
    s->is_ending = true;
    pthread_mutex_unlock(&s->mutex);
    site_wire_wake(s);
    pthread_join(s->thread, NULL);
    close(s->listener);
    close(s->wake);
}
