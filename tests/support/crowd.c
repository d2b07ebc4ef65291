#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>

#include "tests/support/crowd_inside.h"
#include "tests/test.h"

struct crowd *
crowd_new(size_t max, uint64_t entries_max)
{
    struct crowd *c = calloc(1, sizeof(*c));
    struct rlimit files;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_true(files.rlim_cur > max + 64);

    assert_non_null(c);
    c->max = max;
    c->entries_max = entries_max;
    c->members = calloc(max, sizeof(*c->members));
    c->digests = calloc(entries_max + 1, sizeof(*c->digests));
    assert_non_null(c->members);
    assert_non_null(c->digests);
    for (size_t i = 0; i < 2; i++) {
        struct text *t = &c->texts[i];

        buf_init(&t->bytes, (size_t)1 << 30);
        t->ends = malloc((entries_max + 1) * sizeof(*t->ends));
        assert_non_null(t->ends);
        for (uint64_t seq = 0; seq <= entries_max; seq++)
            t->ends[seq] = NO_OFFSET;
        t->ends[0] = 0;
    }
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    assert_true(c->epoll >= 0);
    return c;
}

void
crowd_free(struct crowd *c)
{
    for (size_t i = 0; i < c->n; i++) {
        SSL_free(c->members[i].ssl);
        close(c->members[i].fd);
    }
    SSL_CTX_free(c->tls);
    for (size_t i = 0; i < 2; i++) {
        buf_fini(&c->texts[i].bytes);
        free(c->texts[i].ends);
    }
    close(c->epoll);
    free(c->members);
    free(c->digests);
    free(c);
}

void
crowd_speak_tls(struct crowd *c)
{
    signal(SIGPIPE, SIG_IGN);
    c->tls = SSL_CTX_new(TLS_client_method());
    assert_non_null(c->tls);
    SSL_CTX_set_mode(c->tls, SSL_MODE_RELEASE_BUFFERS);
}

static void
start_tls(struct crowd *c, struct member *m)
{
    m->ssl = SSL_new(c->tls);
    assert_non_null(m->ssl);
    SSL_set_fd(m->ssl, m->fd);
    assert_int_equal(SSL_connect(m->ssl), 1);
}

/* Asks for the stream. */
static void
connect_member(struct crowd *c, struct member *m, unsigned port,
               const char *path, bool is_narrow)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };
    int size = 4096, n;
    char request[512];

    m->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(m->fd >= 0);
    if (is_narrow)
        assert_int_equal(
            setsockopt(m->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
    assert_int_equal(connect(m->fd, (struct sockaddr *)&to, sizeof(to)), 0);
    if (c->tls)
        start_tls(c, m);
    if (m->is_events)
        n = snprintf(request, sizeof(request),
                     "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
                     "Accept: text/event-stream\r\n\r\n",
                     path, port);
    else
        n = snprintf(request, sizeof(request),
                     "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
                     "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                     "Sec-WebSocket-Version: 13\r\n"
                     "Sec-WebSocket-Protocol: %s\r\n\r\n",
                     path, port, crowd_subprotocol(m->form));
    assert_int_equal(m->ssl ? SSL_write(m->ssl, request, n)
                            : send(m->fd, request, (size_t)n, MSG_NOSIGNAL),
                     n);
    assert_int_equal(fcntl(m->fd, F_SETFL, O_NONBLOCK), 0);
}

static size_t
join(struct crowd *c, unsigned port, const char *path, enum notice_form form,
     bool is_events, bool is_narrow)
{
    struct member *m = &c->members[c->n];

    assert_true(c->n < c->max);
    *m = (struct member){.form = form, .is_events = is_events};
    connect_member(c, m, port, path, is_narrow);
    crowd_read_again(c, c->n);
    return c->n++;
}

size_t
crowd_join(struct crowd *c, unsigned port, const char *path,
           enum notice_form form, bool is_narrow)
{
    return join(c, port, path, form, false, is_narrow);
}

size_t
crowd_join_events(struct crowd *c, unsigned port, const char *path,
                  bool is_narrow)
{
    return join(c, port, path, NOTICE_JSON, true, is_narrow);
}

void
crowd_rejoin(struct crowd *c, size_t number, unsigned port, const char *path)
{
    struct member *m = &c->members[number];
    char from[256];

    assert_false(m->is_in_entries);
    SSL_free(m->ssl);
    close(m->fd); /* and no longer read */
    *m = (struct member){.form = m->form,
                         .is_events = m->is_events,
                         .last = m->last,
                         .at = m->at};
    snprintf(from, sizeof(from), "%s%llu", path, (unsigned long long)m->last);
    connect_member(c, m, port, from, false);
    crowd_read_again(c, number);
}

static void
count(struct crowd *c)
{
    c->n_reading = c->n_there = 0;
    for (size_t i = 0; i < c->n; i++) {
        c->n_reading += c->members[i].is_reading;
        c->n_there +=
            c->members[i].is_reading && crowd_is_there(c, &c->members[i]);
    }
}

/* Reading */

void
crowd_stop_reading(struct crowd *c, size_t number)
{
    struct member *m = &c->members[number];

    assert_true(m->is_reading);
    assert_int_equal(epoll_ctl(c->epoll, EPOLL_CTL_DEL, m->fd, NULL), 0);
    m->is_reading = false;
}

void
crowd_read_again(struct crowd *c, size_t number)
{
    struct member *m = &c->members[number];
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = m}};

    assert_false(m->is_reading);
    assert_int_equal(epoll_ctl(c->epoll, EPOLL_CTL_ADD, m->fd, &event), 0);
    m->is_reading = true;
}

/* As recv. A buffer that is larger than a record leaves nothing in the SSL. */
static ssize_t
receive(struct member *m, char *to, size_t size)
{
    int n = 0, error = 0;

    if (!m->ssl)
        return recv(m->fd, to, size, MSG_DONTWAIT);
    ERR_clear_error();
    n = SSL_read(m->ssl, to, (int)size);
    error = SSL_get_error(m->ssl, n);
    errno = error == SSL_ERROR_WANT_READ ? EAGAIN : EPIPE;
    return n;
}

void
crowd_read_until(struct crowd *c, uint64_t last, int wait_ms)
{
    static char bytes[1 << 18];
    struct epoll_event events[256];

    c->awaited = last;
    count(c);
    while (c->n_there < c->n_reading) {
        int n = epoll_wait(c->epoll, events, 256, wait_ms);

        if (n == 0)
            fail_msg("%zu of %zu have got entry %llu, the others nothing more",
                     c->n_there, c->n_reading, (unsigned long long)last);
        assert_true(n > 0 || errno == EINTR);
        for (int i = 0; i < n; i++) {
            struct member *m = events[i].data.ptr;
            ssize_t size = receive(m, bytes, sizeof(bytes));

            if (size <= 0 && errno != EAGAIN)
                fail_msg("subscriber %td was closed after entry %llu",
                         m - c->members, (unsigned long long)m->last);
            if (size > 0)
                crowd_take(c, m, bytes, (size_t)size);
        }
    }
}

uint64_t
crowd_last(const struct crowd *c, size_t number)
{
    return c->members[number].last;
}

size_t
crowd_unread(const struct crowd *c, size_t number)
{
    int size = 0;

    assert_int_equal(ioctl(c->members[number].fd, FIONREAD, &size), 0);
    return (size_t)size;
}

struct slice
crowd_text(const struct crowd *c, enum notice_form form)
{
    return buf_slice(&c->texts[form].bytes);
}

const char *
crowd_digest(const struct crowd *c, uint64_t seq)
{
    return c->digests[seq];
}
