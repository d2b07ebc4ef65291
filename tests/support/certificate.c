#include "tests/support/certificate.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include "tests/test.h"

#define DAY_S 86400L

static void
add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *extension = NULL;

    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* A certificate of `key` for `name`; signed by `issuer`, or by itself (NULL).
 * `names` are those of a server; NULL: it is a CA. */
static X509 *
sign(EVP_PKEY *key, const char *name, X509 *issuer, EVP_PKEY *issuer_key,
     const char *names, bool is_expired)
{
    X509 *cert = X509_new();
    X509_NAME *subject = NULL;
    uint64_t serial = 0;

    assert_non_null(cert);
    if (!issuer)
        issuer = cert;
    assert_int_equal(RAND_bytes((unsigned char *)&serial, sizeof(serial)), 1);
    X509_set_version(cert, X509_VERSION_3);
    ASN1_INTEGER_set_uint64(X509_get_serialNumber(cert), serial >> 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -2 * DAY_S);
    X509_gmtime_adj(X509_getm_notAfter(cert), is_expired ? -DAY_S : 2 * DAY_S);
    X509_set_pubkey(cert, key);
    subject = X509_get_subject_name(cert);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(issuer));
    add_extension(cert, issuer, NID_basic_constraints,
                  names ? "critical,CA:FALSE" : "critical,CA:TRUE");
    if (names)
        add_extension(cert, issuer, NID_subject_alt_name, names);
    assert_true(X509_sign(cert, issuer_key, EVP_sha256()) > 0);
    return cert;
}

static FILE *
create(char *path, size_t size, const char *dir, const char *name)
{
    FILE *file = NULL;

    snprintf(path, size, "%s/%s", dir, name);
    file = fopen(path, "we");
    assert_non_null(file);
    return file;
}

void
certificate_make(struct certificate *c, const char *dir,
                 const struct certificate_wish *wish)
{
    static const struct certificate_wish none = {NULL, false, 0, NULL};
    EVP_PKEY *root_key = EVP_EC_gen("P-256"), *key = NULL;
    EVP_PKEY *middle_key = EVP_EC_gen("P-256");
    X509 *root = NULL, *middle = NULL, *cert = NULL;
    FILE *file = NULL;

    if (!wish)
        wish = &none;
    key = wish->rsa_bits ? EVP_RSA_gen((unsigned)wish->rsa_bits)
                         : EVP_EC_gen("P-256");
    assert_true(root_key && middle_key && key);
    root = sign(root_key, "a root", NULL, root_key, NULL, false);
    middle = sign(middle_key, "in between", root, root_key, NULL, false);
    cert = sign(key, "a broker", middle, middle_key,
                wish->names ? wish->names : "DNS:localhost,IP:127.0.0.1,IP:::1",
                wish->is_expired);

    file = create(c->ca, sizeof(c->ca), dir, "ca.pem");
    assert_int_equal(PEM_write_X509(file, root), 1);
    assert_int_equal(fclose(file), 0);

    file = create(c->cert, sizeof(c->cert), dir, "cert.pem");
    assert_int_equal(PEM_write_X509(file, cert), 1);
    assert_int_equal(PEM_write_X509(file, middle), 1);
    assert_int_equal(fclose(file), 0);

    file = create(c->key, sizeof(c->key), dir, "key.pem");
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    assert_int_equal(PEM_write_PrivateKey(
                         file, key, wish->password ? EVP_aes_128_cbc() : NULL,
                         (const unsigned char *)wish->password,
                         wish->password ? (int)strlen(wish->password) : 0, NULL,
                         NULL),
                     1);
    assert_int_equal(fclose(file), 0);

    X509_free(cert);
    X509_free(middle);
    X509_free(root);
    EVP_PKEY_free(key);
    EVP_PKEY_free(middle_key);
    EVP_PKEY_free(root_key);
}
