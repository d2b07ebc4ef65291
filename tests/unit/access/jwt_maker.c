#include "tests/unit/access/jwt_maker.h"

#include <jose/b64.h>
#include <jose/openssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/ecdsa.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "proto/buf.h"
#include "tests/test.h"

/* 256 bits. */
static const unsigned char secret[] = "0123456789abcdefghijklmnopqrstuv";

EVP_PKEY *
maker_key(enum maker_key key)
{
    static EVP_PKEY *keys[MAKER_KEYS];

    if (!keys[key])
        keys[key] =
            key == MAKER_EC ? EVP_EC_gen("P-256")
            : key == MAKER_SECRET
                ? EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, secret, 32)
                : EVP_RSA_gen(2048);
    assert_non_null(keys[key]);
    return keys[key];
}

/* A key without its private part. */
static EVP_PKEY *
public_part(EVP_PKEY *key)
{
    unsigned char *der = NULL;
    int size = i2d_PUBKEY(key, &der);
    const unsigned char *at = der;
    EVP_PKEY *result = d2i_PUBKEY(NULL, &at, size);

    assert_non_null(result);
    OPENSSL_free(der);
    return result;
}

char *
maker_jwk(enum maker_key key, const char *members)
{
    char *own, *jwk = NULL;

    if (key == MAKER_SECRET) {
        char *k = maker_base64url((struct slice){(const char *)secret, 32});

        assert_true(
            asprintf(&jwk, "{%s\"kty\":\"oct\",\"k\":\"%s\"}", members, k) > 0);
        free(k);
    } else {
        EVP_PKEY *part = public_part(maker_key(key));
        json_t *object = jose_openssl_jwk_from_EVP_PKEY(NULL, part);

        own = json_dumps(object, JSON_COMPACT);
        assert_true(asprintf(&jwk, "{%s%s", members, own + 1) > 0);
        free(own);
        json_decref(object);
        EVP_PKEY_free(part);
    }
    return jwk;
}

struct jwk_set *
maker_set(const char *keys)
{
    struct problem why = {""};
    struct jwk_set *set;
    char *text;

    assert_true(asprintf(&text, "{\"keys\":[%s]}", keys) > 0);
    if (jwk_set_read(&set, slice_of(text), false, &why))
        fail_msg("%s", why.text);
    free(text);
    return set;
}

char *
maker_base64url(struct slice bytes)
{
    size_t size = jose_b64_enc_buf(bytes.data, bytes.size, NULL, 0);
    char *text = calloc(1, size + 1);

    assert_non_null(text);
    if (size)
        assert_int_equal(jose_b64_enc_buf(bytes.data, bytes.size, text, size),
                         size);
    return text;
}

/* Replaces a signature of OpenSSL by its two numbers, 32 bytes each. */
static size_t
flatten(unsigned char *signature, size_t size)
{
    const unsigned char *at = signature;
    ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &at, (long)size);

    assert_int_equal(BN_bn2binpad(ECDSA_SIG_get0_r(sig), signature, 32), 32);
    assert_int_equal(BN_bn2binpad(ECDSA_SIG_get0_s(sig), signature + 32, 32),
                     32);
    ECDSA_SIG_free(sig);
    return 64;
}

char *
maker_signature(const char *alg, EVP_PKEY *key, struct slice text)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char signature[1024];
    size_t size = sizeof(signature);
    EVP_PKEY_CTX *terms;

    assert_int_equal(EVP_DigestSignInit(ctx, &terms, EVP_sha256(), NULL, key),
                     1);
    if (!strcmp(alg, "PS256")) {
        assert_int_equal(
            EVP_PKEY_CTX_set_rsa_padding(terms, RSA_PKCS1_PSS_PADDING), 1);
        assert_int_equal(
            EVP_PKEY_CTX_set_rsa_pss_saltlen(terms, RSA_PSS_SALTLEN_DIGEST), 1);
    }
    assert_int_equal(EVP_DigestSign(ctx, signature, &size,
                                    (const unsigned char *)text.data,
                                    text.size),
                     1);
    EVP_MD_CTX_free(ctx);
    if (!strcmp(alg, "ES256"))
        size = flatten(signature, size);
    return maker_base64url((struct slice){(const char *)signature, size});
}

char *
maker_token(const char *alg, EVP_PKEY *key, const char *header,
            const char *claims)
{
    char *head = maker_base64url(slice_of(header));
    char *body = maker_base64url(slice_of(claims));
    char *text, *signature, *token;

    assert_true(asprintf(&text, "%s.%s", head, body) > 0);
    signature = maker_signature(alg, key, slice_of(text));
    assert_true(asprintf(&token, "%s.%s", text, signature) > 0);
    free(head);
    free(body);
    free(text);
    free(signature);
    return token;
}
