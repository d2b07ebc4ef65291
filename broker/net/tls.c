/*
 * tls.c - the certificate of the listeners, and sessions of OpenSSL.
 */
#include <pthread.h>
#include <sys/stat.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "base/certificates.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/net/service.h"
#include "broker/net/socket.h"
#include "proto/number.h"

struct identity {
    X509 *cert;
    STACK_OF(X509) * chain;
    EVP_PKEY *key;
    int64_t end_us; /* of the first of these certificates to expire */
    unsigned char digest[CERTIFICATES_DIGEST_SIZE]; /* of cert, chain */
};

/* The authorities that clients' certificates need. A client is asked for a
 * certificate, and need not send one. A certificate that it sends must be valid
 * today, for the purpose of clients, and lead to an authority of
 * --tls-client-ca; else the handshake fails. */
struct client_trust {
    STACK_OF(X509) * authorities;
    X509_STORE *store;
    STACK_OF(X509_NAME) * names; /* sent to clients: which to choose */
    unsigned char id[CERTIFICATES_DIGEST_SIZE]; /* tickets are good for the same
                                                   authorities alone */
};

struct tls {
    pthread_mutex_t mutex;
    struct identity *identity;  /* for new handshakes; under the mutex */
    struct client_trust *trust; /* likewise; NULL: no client is asked */
    /* Of all connections: all threads share its keys of session tickets, so
     * another thread may accept a client that returns. */
    SSL_CTX *ctx;
};

static enum status
read_key(struct identity *id, const char *path, struct problem *why)
{
    FILE *file = certificates_open_file(path, "private key", why);
    bool is_asked = false;
    enum status rc = STATUS_OK;
    struct stat info;

    if (!file)
        return STATUS_IO;
    if (!fstat(fileno(file), &info) && (info.st_mode & (S_IRWXG | S_IRWXO)))
        diag(DIAG_WARNING, "net",
             "the private key %s is open to others (mode %03o)", path,
             (unsigned)info.st_mode & 0777);
    ERR_clear_error();
    id->key = PEM_read_PrivateKey(file, NULL, openssl_no_password, &is_asked);
    if (!id->key && is_asked)
        rc = problem(why, STATUS_IO,
                     "%s: the private key is encrypted; nobody is there to be "
                     "asked for the password",
                     path);
    else if (!id->key)
        rc =
            problem(why, STATUS_IO,
                    "%s: there is no private key in it that can be read", path);
    ERR_clear_error();
    fclose(file);
    return rc;
}

enum status
identity_read(struct identity **id, const char *cert_path, const char *key_path,
              struct problem *why)
{
    struct identity *i = memory_new(1, sizeof(*i));
    enum status rc =
        certificates_read(&i->chain, cert_path, "certificate", why);
    SSL_CTX *ctx;

    *id = NULL;
    if (!rc) {
        /* The first certificate is the broker's, the others its chain. */
        (void)certificates_digest(i->chain, i->digest);
        i->end_us = certificates_end_us(i->chain);
        i->cert = sk_X509_shift(i->chain);
        if (X509_cmp_current_time(X509_get0_notAfter(i->cert)) < 0)
            diag(DIAG_WARNING, "net", "the certificate of %s has expired",
                 cert_path);
        rc = read_key(i, key_path, why);
    }
    if (!rc) { /* tries both on an SSL_CTX of their own */
        ctx = SSL_CTX_new(TLS_server_method());
        openssl_raise_level(ctx);
        if (X509_check_private_key(i->cert, i->key) != 1)
            rc = problem(why, STATUS_IO,
                         "%s: not the private key of the (first) certificate "
                         "in %s",
                         key_path, cert_path);
        else if (SSL_CTX_use_cert_and_key(ctx, i->cert, i->key, i->chain, 1) !=
                 1)
            rc = problem(why, STATUS_IO,
                         "%s: OpenSSL refuses the certificate: %s", cert_path,
                         openssl_reason());
        SSL_CTX_free(ctx);
        ERR_clear_error();
    }
    if (rc)
        identity_free(i);
    else
        *id = i;
    return rc;
}

void
identity_free(struct identity *id)
{
    if (!id)
        return;
    X509_free(id->cert);
    certificates_free(id->chain);
    EVP_PKEY_free(id->key);
    free(id);
}

/* OpenSSL asks for the certificate of a handshake. An SSL_CTX keeps one for
 * each type of key, and would still offer the earlier certificate of another
 * type: so the SSL_CTX has none. */
static int
on_certificate_wanted(SSL *ssl, void *user)
{
    struct tls *tls = user;
    int is_taken;

    SSL_certs_clear(ssl);
    pthread_mutex_lock(&tls->mutex);
    is_taken = SSL_use_cert_and_key(
        ssl, tls->identity->cert, tls->identity->key, tls->identity->chain, 1);
    pthread_mutex_unlock(&tls->mutex);
    return is_taken == 1;
}

/* Selects HTTP/1.1. Refuses a client that offers only other protocols: it would
 * misread our answers (RFC 7301 section 3.2). */
static int
on_protocols(SSL *ssl, const unsigned char **chosen, unsigned char *size,
             const unsigned char *offered, unsigned offered_size, void *user)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *one = NULL;

    (void)ssl;
    (void)user;
    if (SSL_select_next_proto(&one, size, ours, sizeof(ours) - 1, offered,
                              offered_size) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = one;
    return SSL_TLSEXT_ERR_OK;
}

enum status
tls_open(struct tls **tls, const char *cert_path, const char *key_path,
         struct problem *why)
{
    struct tls *t = memory_new(1, sizeof(*t));
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    enum status rc;

    *tls = NULL;
    t->ctx = ctx;
    pthread_mutex_init(&t->mutex, NULL);
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    /* Else OpenSSL reads on behind a KeyUpdate until there is a byte of a
     * request: as long as the client likes. */
    SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
    /* Tickets, which the clients keep, resume sessions: a cache would spend
     * memory on clients that do not return. */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(ctx, on_protocols, NULL);
    SSL_CTX_set_cert_cb(ctx, on_certificate_wanted, t);
    rc = identity_read(&t->identity, cert_path, key_path, why);
    if (!rc && !openssl_raise_level(ctx)) /* which chooses the ciphers */
        rc = problem_memory(why);
    ERR_clear_error();
    if (rc) {
        tls_close(t);
        return rc;
    }
    metrics_set_label(METRIC_CERTIFICATE_END, CERTIFICATE_SERVER,
                      t->identity->end_us);
    *tls = t;
    return STATUS_OK;
}

bool
server_show(struct server *server, struct identity *id)
{
    struct tls *tls = server->tls;
    /* Only this thread changes it. */
    bool is_new =
        memcmp(id->digest, tls->identity->digest, sizeof(id->digest)) != 0;
    struct identity *last;

    pthread_mutex_lock(&tls->mutex);
    last = tls->identity;
    tls->identity = id;
    pthread_mutex_unlock(&tls->mutex);
    metrics_set_label(METRIC_CERTIFICATE_END, CERTIFICATE_SERVER, id->end_us);
    identity_free(last);
    return is_new;
}

static void
free_trust(struct client_trust *t)
{
    if (!t)
        return;
    certificates_free(t->authorities);
    X509_STORE_free(t->store);
    sk_X509_NAME_pop_free(t->names, X509_NAME_free);
    free(t);
}

bool
server_trust(struct server *server, STACK_OF(X509) * authorities)
{
    struct tls *tls = server->tls;
    struct client_trust *t = NULL, *last;
    bool is_new;

    if (!tls) {
        certificates_free(authorities);
        return false;
    }
    last = tls->trust; /* only this thread changes it */
    if (authorities) {
        t = memory_new(1, sizeof(*t));
        t->authorities = authorities;
        t->store = X509_STORE_new();
        t->names = sk_X509_NAME_new_null();
        (void)certificates_digest(authorities, t->id);
    }
    for (int i = 0; t && i < sk_X509_num(authorities); i++) {
        X509 *one = sk_X509_value(authorities, i);

        sk_X509_NAME_push(t->names, X509_NAME_dup(X509_get_subject_name(one)));
        X509_STORE_add_cert(t->store, one);
    }
    is_new =
        t && last ? memcmp(t->id, last->id, sizeof(t->id)) != 0 : t != last;
    pthread_mutex_lock(&tls->mutex);
    tls->trust = t;
    pthread_mutex_unlock(&tls->mutex);
    metrics_set_label(METRIC_CERTIFICATE_END, CERTIFICATE_CLIENT_CA,
                      t ? certificates_end_us(authorities) : 0);
    free_trust(last);
    return is_new;
}

SSL *
tls_session(struct tls *tls, int fd)
{
    SSL *ssl = SSL_new(tls->ctx);
    const struct client_trust *t;

    SSL_set_fd(ssl, fd);
    pthread_mutex_lock(&tls->mutex);
    t = tls->trust;
    if (t) { /* asks for a certificate in the handshake */
        SSL_set0_CA_list(ssl, SSL_dup_CA_list(t->names));
        SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
        SSL_set1_verify_cert_store(ssl, t->store);
        SSL_set_session_id_context(ssl, t->id, sizeof(t->id));
    }
    pthread_mutex_unlock(&tls->mutex);
    SSL_set_accept_state(ssl);
    return ssl;
}

bool
tls_client_proof(const SSL *ssl, char *fingerprint, int64_t *ends_us)
{
    const X509 *cert = SSL_get0_peer_certificate(ssl);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;

    /* A resumed session, and a connection that stays, outlive the certificate's
     * last day. */
    if (!cert || SSL_get_verify_result(ssl) != X509_V_OK ||
        X509_cmp_current_time(X509_get0_notAfter(cert)) <= 0 ||
        X509_digest(cert, EVP_sha256(), digest, &size) != 1)
        return false;
    *ends_us = certificate_end_us(cert);
    *hex_write(fingerprint, digest, size) = '\0';
    return true;
}

void
tls_close(struct tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->ctx);
    identity_free(tls->identity);
    free_trust(tls->trust);
    pthread_mutex_destroy(&tls->mutex);
    free(tls);
}
