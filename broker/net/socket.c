#include "broker/net/socket.h"

#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "broker/base/diag.h"
#include "broker/net/tcp.h"

/* The first byte of a TLS handshake (RFC 8446 section 5.1). */
#define TLS_HANDSHAKE 0x16

/* The most bytes of a write to a unix socket. The kernel frees a write as a
 * whole, when it has been read (socket_taken). */
#define PIECE_MAX 8192

/* Events of the loop */

static void on_event(uv_poll_t *poll, int status, int events);

static void
watch_socket(struct socket *s)
{
    int events =
        (s->is_reading ? s->read_on : 0) | (s->is_writing ? s->write_on : 0);

    if (events == s->watched)
        return;
    s->watched = (uint8_t)events;
    if (events)
        uv_poll_start(&s->poll, events, on_event);
    else
        uv_poll_stop(&s->poll);
}

static void
on_event(uv_poll_t *poll, int status, int events)
{
    struct socket *s = poll->data;
    bool is_readable, is_writable;

    if (status < 0) { /* a reset, say: the loop stops watching */
        s->watched = 0;
        events = UV_READABLE | UV_WRITABLE;
    }
    is_readable = s->is_reading && (events & s->read_on);
    is_writable = s->is_writing && (events & s->write_on);
    s->on_ready(s, is_writable, is_readable);
    if (s->fd >= 0) /* bytes come before the error behind them */
        watch_socket(s);
}

void
socket_set_reading(struct socket *s, bool is_reading)
{
    s->is_reading = is_reading;
    watch_socket(s);
}

void
socket_set_writing(struct socket *s, bool is_writing)
{
    s->is_writing = is_writing;
    watch_socket(s);
}

/* Life */

bool
socket_open(struct socket *s, uv_loop_t *loop, int fd, bool is_unix,
            struct tls *tls, socket_ready_fn *on_ready)
{
    if (tls)
        s->ssl = tls_session(tls, fd);
    if (uv_poll_init(loop, &s->poll, fd)) {
        SSL_free(s->ssl);
        return false;
    }
    s->poll.data = s;
    s->fd = fd;
    s->is_unix = is_unix;
    s->is_tls_due = tls != NULL;
    s->read_on = UV_READABLE;
    s->write_on = UV_WRITABLE;
    s->on_ready = on_ready;
    return true;
}

void
socket_close(struct socket *s, uv_close_cb closed)
{
    uv_close((uv_handle_t *)&s->poll, closed);
    SSL_free(s->ssl);
    s->ssl = NULL;
    close(s->fd);
    s->fd = -1;
}

/* Bytes */

/* The event that an operation of OpenSSL waits for, which returned `rc` <= 0.
 * 0, and *on; or -1: the connection has ended or failed. */
static int
tls_result(struct socket *s, int rc, uint8_t *on)
{
    int error = SSL_get_error(s->ssl, rc);
    long verified = SSL_get_verify_result(s->ssl);

    if (error == SSL_ERROR_SSL && !SSL_is_init_finished(s->ssl) &&
        verified != X509_V_OK)
        DIAG(DIAG_INFO, "net", "the certificate of a client is refused",
             diag_text("error", X509_verify_cert_error_string(verified)));
    ERR_clear_error();
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
        return -1;
    *on = error == SSL_ERROR_WANT_READ ? UV_READABLE : UV_WRITABLE;
    watch_socket(s);
    return 0;
}

static ssize_t
plain_read(int fd, void *to, size_t size, int flags)
{
    ssize_t n;

    do
        n = recv(fd, to, size, flags);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
    return n ? n : -1;
}

ssize_t
socket_read(struct socket *s, void *to, size_t size)
{
    unsigned char first = 0;
    ssize_t n;
    int rc;

    if (s->is_tls_due) { /* looks at the first byte for a TLS handshake */
        n = plain_read(s->fd, &first, 1, MSG_PEEK);
        if (n <= 0)
            return n;
        s->is_tls_due = false;
        if (first != TLS_HANDSHAKE) {
            SSL_free(s->ssl);
            s->ssl = NULL;
            s->is_plain = true;
        }
    }
    if (!s->ssl)
        return plain_read(s->fd, to, size, 0);
    ERR_clear_error();
    rc = SSL_read(s->ssl, to, size < INT32_MAX ? (int)size : INT32_MAX);
    if (rc <= 0)
        return tls_result(s, rc, &s->read_on);
    s->read_on = UV_READABLE;
    watch_socket(s);
    return rc;
}

/* SSL_write ends behind each record (SSL_MODE_ENABLE_PARTIAL_WRITE). */
static ssize_t
tls_write(struct socket *s, const char *data, size_t size)
{
    size_t sent = 0;

    ERR_clear_error();
    while (sent < size) {
        size_t left = size - sent;
        int rc = SSL_write(s->ssl, data + sent,
                           left < INT32_MAX ? (int)left : INT32_MAX);

        if (rc <= 0 && tls_result(s, rc, &s->write_on))
            return -1;
        if (rc <= 0)
            return (ssize_t)sent;
        sent += (size_t)rc;
    }
    s->write_on = UV_WRITABLE;
    watch_socket(s);
    return (ssize_t)sent;
}

/* Sends `data`, or bytes of the file `fd` from `at` on (NULL). */
static ssize_t
plain_send(struct socket *s, const char *data, int fd, uint64_t at, size_t size)
{
    size_t sent = 0;

    while (sent < size) {
        size_t left = size - sent;
        size_t piece = s->is_unix && left > PIECE_MAX ? PIECE_MAX : left;
        off_t from = (off_t)(at + sent);
        ssize_t n = data ? send(s->fd, data + sent, piece, MSG_NOSIGNAL)
                         : sendfile(s->fd, fd, &from, piece);

        if (n < 0 && errno == EINTR)
            continue;
        if (!data && (n == 0 || (n < 0 && errno == EIO)))
            return -2;
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            return -1;
        if (n < 0)
            break;
        sent += (size_t)n;
        s->written += (size_t)n;
        if ((size_t)n < piece)
            break;
    }
    return (ssize_t)sent;
}

ssize_t
socket_write(struct socket *s, const void *data, size_t size)
{
    return s->ssl ? tls_write(s, data, size) : plain_send(s, data, -1, 0, size);
}

ssize_t
socket_send_file(struct socket *s, int fd, uint64_t at, size_t size)
{
    return plain_send(s, NULL, fd, at, size);
}

/* The first SSL_shutdown sends and does not block; a second one would read. */
bool
socket_say_end(struct socket *s)
{
    bool is_said = true;
    int rc;

    if (!s->ssl || !SSL_is_init_finished(s->ssl) ||
        (SSL_get_shutdown(s->ssl) & SSL_SENT_SHUTDOWN && !s->is_end_due))
        return true;
    ERR_clear_error();
    rc = SSL_shutdown(s->ssl);
    is_said = rc >= 0 || SSL_get_error(s->ssl, rc) != SSL_ERROR_WANT_WRITE;
    s->is_end_due = !is_said;
    ERR_clear_error();
    return is_said;
}

void
socket_end(struct socket *s)
{
    socket_say_end(s);
    shutdown(s->fd, SHUT_WR);
}

bool
socket_has_unread(const struct socket *s)
{
    return tcp_has_unread(s->fd) || (s->ssl && SSL_has_pending(s->ssl));
}

uint64_t
socket_taken(const struct socket *s)
{
    uint64_t held;

    if (!s->is_unix)
        return tcp_acked(s->fd);
    held = unix_unread(s->fd);
    return held < s->written ? s->written - held : 0;
}
