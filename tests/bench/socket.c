#include "tests/bench/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "tests/bench/bench.h"

/* Nothing that is waited for in a blocking way takes longer. */
#define WAIT_S 20

/* No descriptor is larger. */
#define FILES_MAX 131072

static SSL_CTX *tls;             /* NULL: plain */
static SSL *sessions[FILES_MAX]; /* by descriptor */

void
wire_use_tls(void)
{
    signal(SIGPIPE, SIG_IGN);
    tls = SSL_CTX_new(TLS_client_method());
    if (!tls)
        bench_fail("no TLS");
    SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
}

static void
start_tls(int fd)
{
    SSL *ssl = SSL_new(tls);

    if (fd >= FILES_MAX || !ssl || !SSL_set_fd(ssl, fd) ||
        SSL_connect(ssl) != 1)
        bench_fail("no TLS handshake");
    sessions[fd] = ssl;
}

static ssize_t
result(SSL *ssl, int n)
{
    int error = SSL_get_error(ssl, n);

    if (n > 0)
        return n;
    errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE
                ? EAGAIN
                : EPIPE;
    return error == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

ssize_t
wire_send(int fd, const void *data, size_t size)
{
    if (!tls)
        return send(fd, data, size, MSG_NOSIGNAL);
    ERR_clear_error();
    return result(sessions[fd], SSL_write(sessions[fd], data, (int)size));
}

ssize_t
wire_receive(int fd, void *to, size_t size)
{
    if (!tls)
        return recv(fd, to, size, 0);
    ERR_clear_error();
    return result(sessions[fd], SSL_read(sessions[fd], to, (int)size));
}

void
wire_close(int fd)
{
    if (tls) {
        SSL_free(sessions[fd]);
        sessions[fd] = NULL;
    }
    close(fd);
}

int
wire_connect(unsigned port, int receive_bytes)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval wait = {.tv_sec = WAIT_S};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (fd < 0)
        bench_fail("socket: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    if (receive_bytes)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes,
                   sizeof(receive_bytes));
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
        bench_fail("cannot connect to port %u: %s", port, strerror(errno));
    if (tls)
        start_tls(fd);
    return fd;
}

void
wire_set_nonblocking(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}
