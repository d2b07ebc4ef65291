/*
 * TLS of the caller's connections: OpenSSL on the socket, HTTP/1.1 and nothing
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
#include <arpa/inet.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/certificates.h"
#include "base/clock.h"
#include "broker/base/authorities.h"
#include "broker/base/diag.h"
#include "broker/calls/caller_state.h"

#define SESSIONS_MAX 256
#define SESSION_US   ((int64_t)3600 * 1000000)

/* Sessions */

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

/* One connection */

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

enum call_io
call_tls_read(SSL *ssl, char *bytes, size_t size, size_t *n)
{
    enum call_io io;

    /* OpenSSL 3.2 and later returns behind a ticket or a KeyUpdate, though it
     * may hold the record behind it, which no descriptor reports: it has read
     * everything when the socket has no more. */
    errno = 0;
    io = judge(ssl, SSL_read_ex(ssl, bytes, size, n));
    if (io == IO_AGAIN && errno != EAGAIN)
        return IO_PASSED;
    if (io == IO_BROKEN)
        ERR_clear_error();
    return io;
}

enum call_io
call_tls_write(SSL *ssl, struct slice bytes, size_t *n)
{
    enum call_io io = judge(ssl, SSL_write_ex(ssl, bytes.data, bytes.size, n));

    if (io == IO_BROKEN)
        ERR_clear_error();
    return io;
}

bool
call_tls_is_quiet(SSL *ssl)
{
    char byte;
    size_t n;
    enum call_io io = judge(ssl, SSL_peek_ex(ssl, &byte, 1, &n));

    if (io == IO_BROKEN)
        ERR_clear_error();
    return io == IO_AGAIN && !SSL_has_pending(ssl);
}

/* A session of a connection that ended otherwise is not resumed. */
void
call_tls_end(SSL *ssl)
{
    if (ssl && SSL_is_init_finished(ssl)) {
        SSL_shutdown(ssl);
        ERR_clear_error();
    }
    SSL_free(ssl);
}

void
call_tls_fini(struct call_tls *tls)
{
    drop_sessions(tls);
    map_fini(&tls->sessions);
    SSL_CTX_free(tls->ctx);
}
