#include "broker/net/tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "broker/base/diag.h"
#include "broker/base/openssl.h"

/* Name, AES and HMAC key of session tickets. */
#define TICKET_KEYS_SIZE 80

/* As OpenSSL defines it: 112 bits, RSA and DH of 2,048. */
#define SECURITY_LEVEL 2

struct tls {
    X509 *cert;
    STACK_OF(X509) * chain;
    EVP_PKEY *key;
    SSL_CTX *tried; /* all of it was tried out on this one */
    /* The same in every thread's SSL_CTX: a client that comes back may be
     * accepted by another thread. They live as long as the process. */
    unsigned char ticket_keys[TICKET_KEYS_SIZE];
};

static bool
is_end_of_pem(void)
{
    unsigned long code = ERR_peek_last_error();

    return ERR_GET_LIB(code) == ERR_LIB_PEM &&
           ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
}

static FILE *
open_pem(const char *path, const char *what, struct problem *why)
{
    char doing[64];
    FILE *file = NULL;

    snprintf(doing, sizeof(doing), "cannot read the %s", what);
    file = fopen(path, "re");
    if (!file)
        problem_errno(why, doing, path);
    return file;
}

static enum status
read_cert(struct tls *tls, const char *path, struct problem *why)
{
    FILE *file = open_pem(path, "certificate", why);
    X509 *next = NULL;
    enum status rc = STATUS_OK;

    if (!file)
        return STATUS_IO;
    ERR_clear_error();
    tls->cert = PEM_read_X509_AUX(file, NULL, openssl_no_password, NULL);
    if (!tls->cert) {
        rc = is_end_of_pem()
                 ? problem(why, STATUS_IO, "%s: there is no certificate in it",
                           path)
                 : problem(why, STATUS_IO, "%s: not a certificate: %s", path,
                           openssl_reason());
        goto out;
    }
    while ((next = PEM_read_X509(file, NULL, openssl_no_password, NULL)))
        if (!sk_X509_push(tls->chain, next)) {
            X509_free(next);
            break;
        }
    if (next)
        rc = problem(why, STATUS_MEMORY, "no memory for certificates");
    else if (!is_end_of_pem())
        rc = problem(why, STATUS_IO, "%s: certificate %d of it is broken: %s",
                     path, sk_X509_num(tls->chain) + 2, openssl_reason());
    if (!rc && X509_cmp_current_time(X509_get0_notAfter(tls->cert)) < 0)
        diag(DIAG_WARNING, "net", "the certificate of %s has expired", path);
out:
    ERR_clear_error();
    fclose(file);
    return rc;
}

static enum status
read_key(struct tls *tls, const char *path, struct problem *why)
{
    FILE *file = open_pem(path, "private key", why);
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
    tls->key = PEM_read_PrivateKey(file, NULL, openssl_no_password, &is_asked);
    if (!tls->key && is_asked)
        rc = problem(why, STATUS_IO,
                     "%s: the private key is encrypted; nobody is there to be "
                     "asked for the password",
                     path);
    else if (!tls->key)
        rc =
            problem(why, STATUS_IO,
                    "%s: there is no private key in it that can be read", path);
    ERR_clear_error();
    fclose(file);
    return rc;
}

/* Tries all of it on an SSL_CTX, whose ticket keys become those of all. */
static enum status
try_out(struct tls *tls, const char *cert_path, const char *key_path,
        struct problem *why)
{
    SSL_CTX *ctx = tls->tried = SSL_CTX_new(TLS_server_method());
    enum status rc = STATUS_OK;

    if (!ctx || SSL_CTX_get_tlsext_ticket_keys(ctx, tls->ticket_keys,
                                               TICKET_KEYS_SIZE) != 1)
        rc = problem(why, STATUS_MEMORY, "no memory for TLS: %s",
                     openssl_reason());
    else if (X509_check_private_key(tls->cert, tls->key) != 1)
        rc = problem(why, STATUS_IO,
                     "%s: not the private key of the (first) certificate in %s",
                     key_path, cert_path);
    else if (!tls_apply(tls, ctx))
        rc = problem(why, STATUS_IO, "%s: OpenSSL refuses the certificate: %s",
                     cert_path, openssl_reason());
    ERR_clear_error();
    return rc;
}

enum status
tls_open(struct tls **tls, const char *cert_path, const char *key_path,
         struct problem *why)
{
    struct tls *t = calloc(1, sizeof(*t));
    enum status rc = STATUS_OK;

    *tls = NULL;
    if (t)
        t->chain = sk_X509_new_null();
    if (!t || !t->chain)
        rc = problem(why, STATUS_MEMORY, "no memory for TLS");
    if (!rc)
        rc = read_cert(t, cert_path, why);
    if (!rc)
        rc = read_key(t, key_path, why);
    if (!rc)
        rc = try_out(t, cert_path, key_path, why);
    if (rc) {
        tls_close(t);
        return rc;
    }
    *tls = t;
    return STATUS_OK;
}

void
tls_close(struct tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->tried);
    X509_free(tls->cert);
    sk_X509_pop_free(tls->chain, X509_free);
    EVP_PKEY_free(tls->key);
    OPENSSL_cleanse(tls->ticket_keys, sizeof(tls->ticket_keys));
    free(tls);
}

bool
tls_apply(const struct tls *tls, void *ssl_ctx)
{
    SSL_CTX *ctx = ssl_ctx;

    /* Ciphers are OpenSSL's own choice at this level. */
    if (SSL_CTX_get_security_level(ctx) < SECURITY_LEVEL)
        SSL_CTX_set_security_level(ctx, SECURITY_LEVEL);
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    /* Sessions are resumed by tickets, which the clients keep: a cache would
     * be memory for those who do not come back. */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_tlsext_ticket_keys(ctx, (void *)tls->ticket_keys,
                                          TICKET_KEYS_SIZE) == 1 &&
           SSL_CTX_use_cert_and_key(ctx, tls->cert, tls->key, tls->chain, 1) ==
               1;
}

void *
tls_client_ctx(const struct tls *tls)
{
    return tls->tried;
}

bool
tls_is_used(struct lws *wsi)
{
    return lws_get_ssl(wsi) != NULL;
}

bool
tls_has_unread(struct lws *wsi)
{
    SSL *ssl = lws_get_ssl(wsi);

    return ssl && SSL_has_pending(ssl);
}

void
tls_say_end(struct lws *wsi)
{
    SSL *ssl = lws_get_ssl(wsi);

    if (!ssl || !SSL_is_init_finished(ssl))
        return;
    ERR_clear_error();
    SSL_shutdown(ssl); /* a first one only sends, and does not block */
    ERR_clear_error();
}
