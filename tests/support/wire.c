#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>

#include "tests/support/patience.h"
#include "tests/support/wire_inside.h"

static int64_t
now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t
wire_end_ms(const struct wire *w)
{
    return now_ms() + w->wait_ms;
}

/* Waits until the socket is ready, at most until `end_ms`. */
static bool
wait_for(const struct wire *w, short events, int64_t end_ms)
{
    for (;;) {
        struct pollfd p = {.fd = w->fd, .events = events};
        int64_t left = end_ms - now_ms();
        int n = poll(&p, 1, left > 0 ? (int)left : 0);

        if (n > 0)
            return true;
        if (n == 0 || errno != EINTR)
            return false;
    }
}

/* Takes over a connected socket. */
static struct wire *
wire_of(int fd)
{
    struct wire *w = calloc(1, sizeof(*w));

    if (!w) {
        close(fd);
        return NULL;
    }
    w->fd = fd;
    w->wait_ms = PATIENCE_MS;
    snprintf(w->host, sizeof(w->host), "localhost");
    return w;
}

static struct wire *
connect_with(const char *host, unsigned port, int receive_buffer)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
    struct wire *w;
    char service[16];
    int fd = -1, on = 1;

    snprintf(service, sizeof(service), "%u", port);
    if (getaddrinfo(host, service, &hints, &all))
        return NULL;
    for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        if (receive_buffer)
            setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer,
                       sizeof(receive_buffer));
        if (connect(fd, a->ai_addr, a->ai_addrlen)) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(all);
    if (fd < 0)
        return NULL;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    w = wire_of(fd);
    if (w)
        snprintf(w->host, sizeof(w->host),
                 strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
    return w;
}

struct wire *
wire_connect_unix(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return NULL;
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    if (!connect(fd, (const struct sockaddr *)&at, sizeof(at)))
        return wire_of(fd);
    close(fd);
    return NULL;
}

/* recv and send, over TLS or not; errno is set as by them. */

static ssize_t
tls_result(const struct wire *w, int n)
{
    int error = SSL_get_error(w->ssl, n);

    if (n > 0)
        return n;
    errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE
                ? EAGAIN
                : EPIPE;
    return error == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

static ssize_t
receive(struct wire *w)
{
    if (!w->ssl)
        return recv(w->fd, w->buffer, sizeof(w->buffer), MSG_DONTWAIT);
    ERR_clear_error();
    return tls_result(w, SSL_read(w->ssl, w->buffer, sizeof(w->buffer)));
}

static ssize_t
transmit(struct wire *w, const void *data, size_t size)
{
    if (!w->ssl)
        return send(w->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    ERR_clear_error();
    return tls_result(
        w, SSL_write(w->ssl, data, size < 1 << 30 ? (int)size : 1 << 30));
}

/* Reads until `end_ms` into the empty buffer. As wire_read_some. */
static long
fill(struct wire *w, int64_t end_ms)
{
    ssize_t n = 0;

    do {
        if (!(w->ssl && SSL_pending(w->ssl)) && !wait_for(w, POLLIN, end_ms))
            return -1;
        n = receive(w);
    } while (n < 0 && (errno == EAGAIN || errno == EINTR));
    if (n <= 0)
        return 0;
    w->from = 0;
    w->to = (size_t)n;
    return n;
}

bool
wire_read_until(struct wire *w, void *to, size_t size, int64_t end_ms)
{
    char *out = to;

    while (size) {
        size_t n = w->to - w->from;

        if (!n) {
            if (fill(w, end_ms) <= 0)
                return false;
            continue;
        }
        if (n > size)
            n = size;
        memcpy(out, w->buffer + w->from, n);
        w->from += n;
        out += n;
        size -= n;
    }
    return true;
}

char *
wire_room(struct wire *w, size_t size)
{
    char *room = size > BODY_MAX ? NULL : realloc(w->body, size + 1);

    if (room) {
        w->body = room;
        room[size] = '\0';
    }
    return room;
}

struct wire *
wire_connect(const char *host, unsigned port)
{
    return connect_with(host, port, 0);
}

struct wire *
wire_connect_narrow(const char *host, unsigned port)
{
    return connect_with(host, port, 4096);
}

/* The head of each record passes here. */
static void
count_record(int is_sent, int version, int type, const void *bytes, size_t size,
             SSL *ssl, void *user)
{
    struct wire *w = user;

    (void)version;
    (void)bytes;
    (void)size;
    (void)ssl;
    if (!is_sent && type == SSL3_RT_HEADER)
        w->n_records++;
}

bool
wire_start_tls(struct wire *w, int version)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    int64_t end_ms = wire_end_ms(w);
    int n = 0, error = SSL_ERROR_NONE;

    signal(SIGPIPE, SIG_IGN);
    if (!ctx)
        return false;
    /* Old versions are there to be refused. */
    if (version)
        SSL_CTX_set_security_level(ctx, 0);
    SSL_CTX_set_min_proto_version(ctx, version ? version : TLS1_2_VERSION);
    SSL_CTX_set_max_proto_version(ctx, version);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    w->ssl = SSL_new(ctx);
    SSL_CTX_free(ctx);
    if (!w->ssl)
        return false;
    SSL_set_fd(w->ssl, w->fd);
    SSL_set_msg_callback(w->ssl, count_record);
    SSL_set_msg_callback_arg(w->ssl, w);
    fcntl(w->fd, F_SETFL, fcntl(w->fd, F_GETFL) | O_NONBLOCK);
    do {
        ERR_clear_error();
        n = SSL_connect(w->ssl);
        if (n == 1)
            return true;
        error = SSL_get_error(w->ssl, n);
    } while ((error == SSL_ERROR_WANT_READ && wait_for(w, POLLIN, end_ms)) ||
             (error == SSL_ERROR_WANT_WRITE && wait_for(w, POLLOUT, end_ms)));
    return false;
}

void *
wire_tls(const struct wire *w)
{
    return w->ssl;
}

unsigned
wire_records(const struct wire *w)
{
    return w->n_records;
}

bool
wire_end_is_said(const struct wire *w)
{
    return w->ssl && (SSL_get_shutdown(w->ssl) & SSL_RECEIVED_SHUTDOWN);
}

static void
say_end(struct wire *w)
{
    if (w->ssl && SSL_is_init_finished(w->ssl))
        SSL_shutdown(w->ssl);
    ERR_clear_error();
}

static void
drop(struct wire *w)
{
    SSL_free(w->ssl);
    close(w->fd);
    free(w->body);
    free(w);
}

void
wire_close(struct wire *w)
{
    if (!w)
        return;
    say_end(w);
    drop(w);
}

void
wire_abort(struct wire *w)
{
    struct linger at_once = {.l_onoff = 1};

    setsockopt(w->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    drop(w);
}

void
wire_shut(struct wire *w)
{
    say_end(w);
    shutdown(w->fd, SHUT_WR);
}

void
wire_set_wait(struct wire *w, int wait_ms)
{
    w->wait_ms = wait_ms < 0 ? PATIENCE_MS : wait_ms;
}

int
wire_fd(const struct wire *w)
{
    return w->fd;
}

bool
wire_send(struct wire *w, const void *data, size_t size)
{
    const char *from = data;
    int64_t end_ms = wire_end_ms(w);

    while (size) {
        ssize_t n = 0;

        if (!wait_for(w, POLLOUT, end_ms))
            return false;
        n = transmit(w, from, size);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (n > 0) {
            from += n;
            size -= (size_t)n;
        }
    }
    return true;
}

bool
wire_send_text(struct wire *w, const char *text)
{
    return wire_send(w, text, strlen(text));
}

bool
wire_send_format(struct wire *w, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    bool is_sent = false;
    int n = 0;

    va_start(args, format);
    n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0)
        return false;
    is_sent = wire_send(w, text, (size_t)n);
    free(text);
    return is_sent;
}

bool
wire_read(struct wire *w, void *to, size_t size)
{
    return wire_read_until(w, to, size, wire_end_ms(w));
}

long
wire_read_some(struct wire *w, void *to, size_t size)
{
    size_t n = w->to - w->from;

    if (!n) {
        long got = fill(w, wire_end_ms(w));

        if (got <= 0)
            return got;
        n = (size_t)got;
    }
    if (n > size)
        n = size;
    memcpy(to, w->buffer + w->from, n);
    w->from += n;
    return (long)n;
}

bool
wire_is_silent(struct wire *w)
{
    return w->from == w->to && fill(w, now_ms()) < 0;
}

bool
wire_is_ended(struct wire *w)
{
    int64_t end_ms = wire_end_ms(w);
    long n = 0;

    do {
        w->from = w->to = 0;
        n = fill(w, end_ms);
    } while (n > 0);
    return n == 0;
}
