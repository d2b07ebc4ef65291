#include "broker/net/client_trust.h"

#include <openssl/evp.h>
#include <openssl/ssl.h>

#include "base/certificates.h"
#include "broker/base/diag.h"
#include "proto/number.h"

struct client_trust {
    STACK_OF(X509) * authorities;
    X509_STORE *store;
    STACK_OF(X509_NAME) * names; /* sent to clients: which to choose */
    unsigned char id[CERTIFICATES_DIGEST_SIZE]; /* tickets are good for the same
                                                   authorities alone */
};

struct client_trust *
client_trust_new(struct stack_st_X509 *authorities)
{
    struct client_trust *t = memory_new(1, sizeof(*t));

    t->authorities = authorities;
    t->store = X509_STORE_new();
    t->names = sk_X509_NAME_new_null();
    for (int i = 0; i < sk_X509_num(authorities); i++) {
        X509 *one = sk_X509_value(authorities, i);

        sk_X509_NAME_push(t->names, X509_NAME_dup(X509_get_subject_name(one)));
        X509_STORE_add_cert(t->store, one);
    }
    (void)certificates_digest(authorities, t->id);
    return t;
}

void
client_trust_free(struct client_trust *t)
{
    if (!t)
        return;
    certificates_free(t->authorities);
    X509_STORE_free(t->store);
    sk_X509_NAME_pop_free(t->names, X509_NAME_free);
    free(t);
}

bool
client_trust_is_same(const struct client_trust *a, const struct client_trust *b)
{
    return a && b ? !memcmp(a->id, b->id, sizeof(a->id)) : a == b;
}

int64_t
client_trust_end_us(const struct client_trust *t)
{
    return t ? certificates_end_us(t->authorities) : 0;
}

void
client_trust_ask(const struct client_trust *t, struct ssl_st *ssl)
{
    SSL_set0_CA_list(ssl, SSL_dup_CA_list(t->names));
    SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    SSL_set1_verify_cert_store(ssl, t->store);
    SSL_set_session_id_context(ssl, t->id, sizeof(t->id));
}

bool
client_trust_proof(const struct ssl_st *ssl, char *fingerprint,
                   int64_t *ends_us)
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
client_trust_report(const struct ssl_st *ssl)
{
    long error = SSL_get_verify_result(ssl);

    if (error != X509_V_OK)
        DIAG(DIAG_INFO, "net", "the certificate of a client is refused",
             diag_text("error", X509_verify_cert_error_string(error)));
}
