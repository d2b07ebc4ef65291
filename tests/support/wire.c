#include "tests/support/wire.h"

#include <ctype.h>
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
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

/* Longest body or message that is read. */
#define BODY_MAX ((size_t)256 << 20)

struct wire {
    int fd;
    SSL *ssl; /* NULL: plain */
    unsigned n_records;
    int wait_ms;
    char host[128];  /* as a Host header names the peer */
    size_t from, to; /* what was read and not yet asked for */
    char buffer[65536];
    char *body; /* of the last answer or frame */
};

static int64_t
now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
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

static struct wire *
connect_with(const char *host, unsigned port, int receive_buffer)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
    struct wire *w = NULL;
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
    w = calloc(1, sizeof(*w));
    if (!w) {
        close(fd);
        return NULL;
    }
    w->fd = fd;
    w->wait_ms = WIRE_WAIT_MS;
    snprintf(w->host, sizeof(w->host), "%s:%u", host, port);
    return w;
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

static bool
read_until(struct wire *w, void *to, size_t size, int64_t end_ms)
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

/* Room for `size` bytes and a terminator. */
static char *
body_room(struct wire *w, size_t size)
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
    int64_t end_ms = now_ms() + w->wait_ms;
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
    w->wait_ms = wait_ms;
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
    int64_t end_ms = now_ms() + w->wait_ms;

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
    return read_until(w, to, size, now_ms() + w->wait_ms);
}

long
wire_read_some(struct wire *w, void *to, size_t size)
{
    size_t n = w->to - w->from;

    if (!n) {
        long got = fill(w, now_ms() + w->wait_ms);

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
wire_is_ended(struct wire *w)
{
    int64_t end_ms = now_ms() + w->wait_ms;
    long n = 0;

    do {
        w->from = w->to = 0;
        n = fill(w, end_ms);
    } while (n > 0);
    return n == 0;
}

bool
wire_answer_head(struct wire *w, struct wire_answer *a)
{
    int64_t end_ms = now_ms() + w->wait_ms;
    size_t size = 0;

    memset(a, 0, sizeof(*a));
    while (size < 4 || memcmp(a->head + size - 4, "\r\n\r\n", 4)) {
        if (size + 1 == sizeof(a->head) ||
            !read_until(w, a->head + size, 1, end_ms))
            return false;
        size++;
    }
    return sscanf(a->head, "HTTP/1.1 %3u ", &a->status) == 1;
}

bool
wire_header(const struct wire_answer *a, const char *name, char *to,
            size_t size)
{
    size_t n = strlen(name);
    const char *line = strstr(a->head, "\r\n");

    for (; line && line[2] != '\r'; line = strstr(line + 2, "\r\n")) {
        const char *at = line + 2;

        if (strncasecmp(at, name, n) || at[n] != ':')
            continue;
        at += n + 1;
        at += strspn(at, " \t");
        snprintf(to, size, "%.*s", (int)strcspn(at, "\r"), at);
        return true;
    }
    return false;
}

bool
wire_answer(struct wire *w, struct wire_answer *a, bool is_head)
{
    char length[32] = "0";
    unsigned long long size = 0;

    if (!wire_answer_head(w, a))
        return false;
    if (!is_head && a->status >= 200 && a->status != 204 && a->status != 304) {
        if (!wire_header(a, "Content-Length", length, sizeof(length)))
            return false;
        size = strtoull(length, NULL, 10);
    }
    a->body = body_room(w, (size_t)size);
    a->body_size = (size_t)size;
    return a->body && wire_read(w, a->body, a->body_size);
}

bool
wire_request(struct wire *w, const char *method, const char *path,
             const char *headers, const char *body, struct wire_answer *a)
{
    char length[64] = "";

    if (body)
        snprintf(length, sizeof(length), "Content-Length: %zu\r\n",
                 strlen(body));
    return wire_send_format(w, "%s %s HTTP/1.1\r\nHost: %s\r\n%s%s\r\n%s",
                            method, path, w->host, headers ? headers : "",
                            length, body ? body : "") &&
           wire_answer(w, a, !strcmp(method, "HEAD"));
}

struct wire *
wire_ask(unsigned port, const char *path)
{
    struct wire *w = wire_connect("127.0.0.1", port);

    if (w && wire_send_format(w, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path,
                              w->host))
        return w;
    wire_close(w);
    return NULL;
}

bool
wire_upgrade(struct wire *w, const char *path, const char *subprotocols,
             struct wire_answer *a)
{
    /* The key and its answer of RFC 6455 section 1.3. */
    char value[64];

    return wire_send_format(
               w,
               "GET %s HTTP/1.1\r\nHost: %s\r\n"
               "Upgrade: websocket\r\nConnection: Upgrade\r\n"
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
               "Sec-WebSocket-Version: 13\r\n%s%s%s\r\n",
               path, w->host, subprotocols ? "Sec-WebSocket-Protocol: " : "",
               subprotocols ? subprotocols : "", subprotocols ? "\r\n" : "") &&
           wire_answer(w, a, false) && a->status == 101 &&
           wire_header(a, "Sec-WebSocket-Accept", value, sizeof(value)) &&
           !strcmp(value, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

/* Reads one frame; its payload to offset `at` of the body. */
static bool
read_frame(struct wire *w, struct wire_frame *f, size_t at)
{
    int64_t end_ms = now_ms() + w->wait_ms;
    uint8_t head[10];
    uint64_t size = 0;
    size_t more = 0;

    if (!read_until(w, head, 2, end_ms))
        return false;
    f->opcode = (enum wire_opcode)(head[0] & 0x0f);
    f->is_last = (head[0] & 0x80) != 0;
    size = head[1];
    more = size == 126 ? 2 : size == 127 ? 8 : 0;
    if ((head[0] & 0x70) || (head[1] & 0x80) ||
        !read_until(w, head + 2, more, end_ms))
        return false;
    if (more)
        size = 0;
    for (size_t i = 0; i < more; i++)
        size = size << 8 | head[2 + i];
    if (f->opcode >= WIRE_CLOSE && (size > WIRE_CONTROL_MAX || !f->is_last))
        return false;

    if (size > BODY_MAX || !body_room(w, at + (size_t)size))
        return false;
    f->payload = w->body;
    f->size = at + (size_t)size;
    return read_until(w, w->body + at, (size_t)size, end_ms);
}

bool
wire_frame(struct wire *w, struct wire_frame *f)
{
    return read_frame(w, f, 0);
}

bool
wire_message(struct wire *w, struct wire_frame *f)
{
    enum wire_opcode kind = WIRE_CONTINUATION;
    size_t size = 0;

    for (;;) {
        if (!read_frame(w, f, size))
            return false;
        if (f->opcode == WIRE_CLOSE) {
            memmove(f->payload, f->payload + size, f->size - size + 1);
            f->size -= size;
            return true;
        }
        if (f->opcode == WIRE_PING)
            wire_send_frame(w, WIRE_PONG, true, f->payload + size,
                            f->size - size);
        if (f->opcode >= WIRE_CLOSE)
            continue;
        if ((kind == WIRE_CONTINUATION) == (f->opcode == WIRE_CONTINUATION))
            return false; /* a fragment of nothing, or a message within one */
        if (f->opcode != WIRE_CONTINUATION)
            kind = f->opcode;
        size = f->size;
        if (f->is_last) {
            f->opcode = kind;
            return true;
        }
    }
}

bool
wire_send_frame(struct wire *w, enum wire_opcode opcode, bool is_last,
                const void *payload, size_t size)
{
    static const uint8_t mask[4] = {0x12, 0x34, 0x56, 0x78};
    uint8_t *frame = malloc(14 + size);
    const uint8_t *from = payload;
    size_t n = 2;
    bool is_sent = false;

    if (!frame)
        return false;
    frame[0] = (uint8_t)((is_last ? 0x80 : 0) | opcode);
    if (size < 126) {
        frame[1] = (uint8_t)(0x80 | size);
    } else if (size < 65536) {
        frame[1] = 0x80 | 126;
        frame[n++] = (uint8_t)(size >> 8);
        frame[n++] = (uint8_t)size;
    } else {
        frame[1] = 0x80 | 127;
        for (int shift = 56; shift >= 0; shift -= 8)
            frame[n++] = (uint8_t)((uint64_t)size >> shift);
    }
    memcpy(frame + n, mask, 4);
    n += 4;
    for (size_t i = 0; i < size; i++)
        frame[n + i] = from[i] ^ mask[i & 3];
    is_sent = wire_send(w, frame, n + size);
    free(frame);
    return is_sent;
}

unsigned
wire_close_code(const struct wire_frame *f)
{
    const uint8_t *p = (const uint8_t *)f->payload;

    return f->size < 2 ? 1005 : (unsigned)(p[0] << 8 | p[1]);
}
