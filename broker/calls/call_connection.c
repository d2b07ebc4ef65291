/*
 * The connections of a caller: their sockets, their bytes, and those that wait
 * for the next call to their host.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/certificates.h"
#include "base/clock.h"
#include "broker/base/authorities.h"
#include "broker/base/diag.h"
#include "broker/calls/caller_state.h"

/* A kept connection is closed after so long without a call. */
#define KEPT_US ((int64_t)118 * 1000000)

/* A longer buffer is freed after its call. */
#define KEPT_BUF_MAX ((size_t)1024)

/* The longest head of a request: URL, headers, and lines of our own. */
#define REQUEST_MAX ((size_t)1024 * 1024)

/* Kept connections per connection that may be under way. */
#define KEPT_TIMES 4

/*
 * TLS: OpenSSL on the socket, HTTP/1.1 and nothing
 * else (ALPN), certificates verified by the name or the address of the URL.
 *
 * The authorities are read before the first connection by TLS, and again after
 * each reload: that takes some 20 ms, and some megabytes.
 *
 * A session is kept for each of the hosts that were connected to lately, and
 * resumed by the next connection, which saves two thirds of a handshake. A
 * resumed session verifies no certificate: so it ends an hour after the
 * certificate was verified, and with the authorities that have verified it. The
 * sessions that a server gives to resumed ones end with the first.
 */

#define SESSIONS_MAX 256
#define SESSION_US   ((int64_t)3600 * 1000000)

/* Sessions of TLS */

struct session {
    struct map_node node;
    struct list at; /* in call_tls.recent */
    SSL_SESSION *of_openssl;
    int64_t verified_us; /* when its certificate was verified */
    char host[];         /* "host:port" */
};

static void
drop_session(struct call_tls *tls, struct session *s)
{
    list_remove(&s->at);
    map_remove(&tls->sessions, &s->node);
    SSL_SESSION_free(s->of_openssl);
    free(s);
}

static void
drop_sessions(struct call_tls *tls)
{
    struct session *s;

    while ((s = list_front(&tls->recent, offsetof(struct session, at))))
        drop_session(tls, s);
}

static struct session *
find_session(struct call_tls *tls, struct slice host)
{
    struct session *s;

    map_each_same (s, &tls->sessions, map_hash(&tls->sessions, host), node) {
        if (slice_is(host, s->host))
            return s;
    }
    return NULL;
}

/* For SSL_CTX_sess_set_new_cb: takes the session if it returns 1. */
static int
keep_session(SSL *ssl, SSL_SESSION *session)
{
    const struct call_connection *p = SSL_get_app_data(ssl);
    struct call_tls *tls = &p->caller->tls;
    struct slice host = p->host->key;
    struct session *s = find_session(tls, host);

    if (SSL_get_SSL_CTX(ssl) != tls->ctx)
        return 0; /* of earlier authorities */
    if (s)
        drop_session(tls, s);
    s = memory_new(1, sizeof(*s) + host.size + 1);
    memcpy(s->host, host.data, host.size);
    s->of_openssl = session;
    s->verified_us =
        SSL_session_reused(ssl) ? p->verified_us : clock_steady_us();
    map_add(&tls->sessions, &s->node, map_hash(&tls->sessions, host));
    list_append(&tls->recent, &s->at);
    if (tls->sessions.n > SESSIONS_MAX)
        drop_session(tls,
                     list_front(&tls->recent, offsetof(struct session, at)));
    return 1;
}

static SSL_CTX *
make_ctx(void)
{
    static const unsigned char ours[] = "\x08http/1.1";
    const char *path = getenv("SSL_CERT_FILE");
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    X509_STORE *store;

    if (!ctx)
        return NULL;
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(ctx, 1); /* one recv() for a record, not two */
    /* Else OpenSSL reads on behind a ticket or a KeyUpdate until there is a
     * byte of the answer: as long as the other side likes. */
    SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT |
                                            SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ctx, keep_session);
    if (!openssl_raise_level(ctx) ||
        SSL_CTX_set_alpn_protos(ctx, ours, sizeof(ours) - 1)) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    store = SSL_CTX_get_cert_store(ctx);
    if (!path || !*path)
        path = X509_get_default_cert_file();
    if (X509_STORE_load_locations(store, path, NULL) != 1)
        DIAG(DIAG_WARNING, "net",
             "no certificates of authorities: only those of --ca-file can be "
             "called by HTTPS",
             diag_text("file", path));
    authorities_add_to(store);
    return ctx;
}

/* TLS of one connection */

/* Makes OpenSSL ask for the certificate of `name`, and verify it. */
static bool
set_name(SSL *ssl, const char *name)
{
    unsigned char address[sizeof(struct in6_addr)];

    if (inet_pton(AF_INET, name, address) == 1 ||
        inet_pton(AF_INET6, name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 &&
           SSL_set_tlsext_host_name(ssl, name) == 1;
}

bool
call_tls_begin(struct call_connection *p, const char *name, struct problem *why)
{
    struct call_tls *tls = &p->caller->tls;
    unsigned number = authorities_number();
    struct session *s;

    if (!tls->ctx || tls->number != number) {
        drop_sessions(tls);
        SSL_CTX_free(tls->ctx);
        tls->ctx = make_ctx();
        tls->number = number;
        ERR_clear_error();
    }
    if (!tls->ctx || !(p->ssl = SSL_new(tls->ctx)) ||
        SSL_set_fd(p->ssl, p->socket->fd) != 1 || !set_name(p->ssl, name)) {
        problem_set(why, "%s", openssl_reason());
        return false;
    }
    SSL_set_app_data(p->ssl, p);
    SSL_set_connect_state(p->ssl);
    s = find_session(tls, p->host->key);
    if (s) {
        p->verified_us = s->verified_us;
        if (clock_steady_us() - s->verified_us > SESSION_US)
            drop_session(tls, s);
        else
            SSL_set_session(p->ssl, s->of_openssl);
    }
    return true;
}

/* What the result of a call of OpenSSL means. An end without close_notify is
 * none: anybody on the way could have cut the answer. */
static enum call_io
judge(SSL *ssl, int result)
{
    switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_NONE:
        return IO_OK;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return IO_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return IO_END;
    default:
        return IO_BROKEN;
    }
}

enum call_io
call_tls_shake(struct call_connection *p, struct problem *why)
{
    struct slice host = p->host->key; /* "host:port" */
    long verified;
    enum call_io io;
    int error;

    errno = 0;
    io = judge(p->ssl, SSL_do_handshake(p->ssl));
    error = errno;
    verified = SSL_get_verify_result(p->ssl);
    if (io == IO_OK || io == IO_AGAIN) {
        ERR_clear_error();
        return io;
    }
    while (host.data[--host.size] != ':')
        ;
    if (verified == X509_V_ERR_HOSTNAME_MISMATCH ||
        verified == X509_V_ERR_IP_ADDRESS_MISMATCH)
        problem_set(why, "the server's certificate is not for %.*s",
                    SLICE_ARG(host));
    else if (verified != X509_V_OK)
        problem_set(why, "the server's certificate is not good: %s",
                    X509_verify_cert_error_string(verified));
    else if (ERR_peek_error() && ERR_GET_REASON(ERR_peek_error()) !=
                                     SSL_R_UNEXPECTED_EOF_WHILE_READING)
        problem_set(why, "%s", openssl_reason());
    else
        problem_set(why, "the connection ended in the handshake%s%s",
                    error ? ": " : "", error ? strerror(error) : "");
    ERR_clear_error();
    return io;
}

/* The same behind the handshake: nobody asks why. */
static enum call_io
judge_bytes(SSL *ssl, int result)
{
    enum call_io io = judge(ssl, result);

    if (io == IO_BROKEN)
        ERR_clear_error();
    return io;
}

bool
call_tls_is_quiet(SSL *ssl)
{
    char byte;
    size_t n;

    return judge_bytes(ssl, SSL_peek_ex(ssl, &byte, 1, &n)) == IO_AGAIN &&
           !SSL_has_pending(ssl);
}

/* Judgements */

void
call_fail(struct call *call, enum call_failure failure, const char *format, ...)
{
    va_list args;

    call->failure = failure;
    va_start(args, format);
    vsnprintf(call->why, sizeof(call->why), format, args);
    va_end(args);
}

bool
call_may_reach(const struct caller *c, const struct call *call,
               const struct sockaddr *address)
{
    const struct caller_options *o = &c->options;

    return o->unix_socket || o->calls_anywhere ||
           address_reach(networks_latest(o->allowed), address) ==
               ADDRESS_PUBLIC ||
           (call->also && address_reach(call->also, address) == ADDRESS_PUBLIC);
}

/* Sockets */

static socklen_t
size_of(const struct sockaddr *address)
{
    return address->sa_family == AF_UNIX    ? sizeof(struct sockaddr_un)
           : address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                            : sizeof(struct sockaddr_in);
}

struct call_socket *
call_socket_open(struct call_connection *p, const struct sockaddr *address)
{
    const int on = 1;
    int fd = socket(address->sa_family,
                    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct call_socket *s;
    int error = 0;

    if (fd < 0)
        return NULL;
    if (address->sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, address, size_of(address)) && errno != EINPROGRESS)
        error = errno;
    s = memory_new(1, sizeof(*s));
    if (!error)
        error = -uv_poll_init(loop_uv(p->caller->loop), &s->poll, fd);
    if (error) {
        close(fd);
        free(s);
        errno = error;
        return NULL;
    }
    s->poll.data = s;
    s->fd = fd;
    s->connection = p;
    memcpy(&s->address, address, size_of(address));
    p->caller->n_sockets++;
    return s;
}

static void
on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void
call_socket_close(struct call_socket *s)
{
    s->connection->caller->n_sockets--;
    uv_close((uv_handle_t *)&s->poll, on_closed);
    close(s->fd);
}

bool
call_socket_watch(struct call_socket *s, int events, uv_poll_cb on_event)
{
    if (events == s->events)
        return true;
    if (events == 0)
        uv_poll_stop(&s->poll);
    else if (uv_poll_start(&s->poll, events, on_event))
        return false;
    s->events = events;
    return true;
}

/* Bytes */

enum call_io
call_connection_read(struct call_connection *p, size_t size, size_t *n)
{
    char *bytes = p->caller->bytes;
    enum call_io io;
    ssize_t got;

    if (p->ssl) {
        /* OpenSSL 3.2 and later returns behind a ticket or a KeyUpdate, though
         * it may hold the record behind it, which no descriptor reports: it has
         * read everything when the socket has no more. */
        errno = 0;
        io = judge_bytes(p->ssl, SSL_read_ex(p->ssl, bytes, size, n));
        return io == IO_AGAIN && errno != EAGAIN ? IO_PASSED : io;
    }
    got = recv(p->socket->fd, bytes, size, MSG_DONTWAIT);
    *n = got > 0 ? (size_t)got : 0;
    return got > 0                             ? IO_OK
           : got == 0                          ? IO_END
           : errno == EAGAIN || errno == EINTR ? IO_AGAIN
                                               : IO_BROKEN;
}

enum call_io
call_connection_send(struct call_connection *p, struct slice head,
                     struct slice body, size_t n_sent, size_t *n)
{
    size_t of_head = n_sent < head.size ? n_sent : head.size;
    struct slice rest[2] = {slice_from(head, of_head), body};
    struct iovec parts[2];
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    enum call_io io = IO_OK;
    ssize_t sent;

    if (n_sent > of_head)
        slice_skip(&rest[1], n_sent - of_head);
    for (unsigned i = 0; i < 2; i++) {
        parts[i] =
            (struct iovec){(char *)(uintptr_t)rest[i].data, rest[i].size};
        while (p->ssl && !io && rest[i].size > 0) {
            size_t taken = 0;

            io = judge_bytes(p->ssl, SSL_write_ex(p->ssl, rest[i].data,
                                                  rest[i].size, &taken));
            slice_skip(&rest[i], taken);
            *n += taken;
        }
    }
    if (p->ssl)
        return io;
    sent = sendmsg(p->socket->fd, &message, MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR || errno == ENOBUFS
                   ? IO_AGAIN
                   : IO_BROKEN;
    *n += (size_t)sent;
    return IO_OK;
}

static bool
is_drained(const struct call_connection *p)
{
    char byte;

    return recv(p->socket->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           errno == EAGAIN;
}

/* True if the other side has neither closed the connection nor sent anything,
 * but a ticket by TLS. A byte that comes before the request is no answer to it.
 */
static bool
is_quiet(const struct call_connection *p)
{
    return is_drained(p) ? !p->ssl || !SSL_has_pending(p->ssl)
                         : p->ssl && call_tls_is_quiet(p->ssl) && is_drained(p);
}

/* Life */

struct call_connection *
call_connection_new(struct caller *c, struct call *call)
{
    struct call_connection *p = memory_new(1, sizeof(*p));

    p->caller = c;
    p->host = call_host(call);
    p->host->n_connections++;
    p->host->n_users++;
    p->is_tls = !strncasecmp(call_url(call), "https://", 8);
    list_init(&p->node);
    list_init(&p->age);
    buf_init(&p->request, REQUEST_MAX);
    buf_init(&p->head, CALL_HEAD_MAX + CALL_READ_SIZE);
    buf_init(&p->body, 0);
    return p;
}

void
call_connection_hang_up(struct call_connection *p)
{
    /* A session of a connection that ended otherwise is not resumed. */
    if (p->ssl && SSL_is_init_finished(p->ssl)) {
        SSL_shutdown(p->ssl);
        ERR_clear_error();
    }
    SSL_free(p->ssl);
    p->ssl = NULL;
    if (p->socket)
        call_socket_close(p->socket);
    p->socket = NULL;
}

void
call_connection_clear_alarms(struct call_connection *p)
{
    loop_clear_alarm(p->caller->loop, &p->deadline);
    loop_clear_alarm(p->caller->loop, &p->silence);
}

static void
unkeep(struct call_connection *p)
{
    if (list_is_empty(&p->age))
        return;
    p->caller->n_kept--;
    list_remove(&p->node);
    list_remove(&p->age);
}

/* The host is gone with its last connection, unless it has calls. */
void
call_connection_close(struct call_connection *p)
{
    unkeep(p);
    list_remove(&p->node);
    call_connection_clear_alarms(p);
    call_connection_hang_up(p);
    p->host->n_connections--;
    place_leave(p->host);
    gunzip_free(p->now.gunzip);
    buf_fini(&p->request);
    buf_fini(&p->head);
    buf_fini(&p->body);
    free(p);
}

/* Kept connections */

static struct call_connection *
oldest_kept(const struct caller *c)
{
    return list_front(&c->kept, offsetof(struct call_connection, age));
}

static void
on_old(struct alarm *alarm)
{
    struct caller *c = list_entry(alarm, struct caller, old);
    int64_t now_us = clock_steady_us();
    struct call_connection *p;

    while ((p = oldest_kept(c)) && p->kept_us + KEPT_US <= now_us)
        call_connection_close(p);
    if (p)
        loop_set_alarm(c->loop, alarm, p->kept_us + KEPT_US);
}

/* A host needs no more of them than it may have calls. */
void
call_connection_keep(struct call_connection *p)
{
    struct caller *c = p->caller;

    gunzip_free(p->now.gunzip);
    p->now.gunzip = NULL;
    buf_clear_large(&p->request, KEPT_BUF_MAX);
    buf_clear_large(&p->head, KEPT_BUF_MAX);
    buf_clear_large(&p->body, KEPT_BUF_MAX);
    p->kept_us = clock_steady_us();
    list_prepend(&p->host->kept, &p->node);
    list_append(&c->kept, &p->age);
    c->n_kept++;
    if (!c->old.is_set) {
        c->old.ring = on_old;
        loop_set_alarm(c->loop, &c->old, p->kept_us + KEPT_US);
    }
    if (p->host->n_connections > c->queue.host_connections)
        call_connection_close(
            list_entry(p->host->kept.prev, struct call_connection, node));
}

struct call_connection *
call_connection_take_kept(struct caller *c, struct call *call)
{
    bool is_tls = !strncasecmp(call_url(call), "https://", 8);
    struct call_connection *p;

    list_walk (p, &call_host(call)->kept, node) {
        if (p->is_tls != is_tls ||
            !call_may_reach(c, call, &p->socket->address.any))
            continue;
        if (is_quiet(p)) {
            unkeep(p);
            return p;
        }
        call_connection_close(p);
    }
    return NULL;
}

void
call_connections_make_room(struct caller *c)
{
    while (c->n_kept > 0 && c->n_sockets > c->kept_max)
        call_connection_close(oldest_kept(c));
}

void
call_connections_init(struct caller *c)
{
    struct rlimit files;

    /* At most a quarter of all descriptors. */
    c->kept_max = (size_t)KEPT_TIMES * c->options.connections;
    if (!getrlimit(RLIMIT_NOFILE, &files) && c->kept_max > files.rlim_cur / 4)
        c->kept_max = files.rlim_cur / 4;
    list_init(&c->due);
    list_init(&c->kept);
    list_init(&c->tls.recent);
    buf_init(&c->request, REQUEST_MAX);
    buf_init(&c->links, 2 * CALL_HEAD_MAX);
    buf_init(&c->coded, CALL_READ_SIZE);
}

void
call_connections_close(struct caller *c)
{
    struct call_connection *p;

    while ((p = oldest_kept(c)))
        call_connection_close(p);
    loop_clear_alarm(c->loop, &c->old);
}

void
call_connections_fini(struct caller *c)
{
    drop_sessions(&c->tls);
    map_fini(&c->tls.sessions);
    SSL_CTX_free(c->tls.ctx);
    buf_fini(&c->request);
    buf_fini(&c->links);
    buf_fini(&c->coded);
}
