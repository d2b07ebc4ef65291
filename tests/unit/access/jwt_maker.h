/*
 * jwt_maker.h - an identity provider in a test: keys, their JWK set, and tokens
 * that are signed with them, or broken in a chosen way.
 */
#ifndef TESTS_UNIT_ACCESS_JWT_MAKER_H
#define TESTS_UNIT_ACCESS_JWT_MAKER_H

#include <openssl/evp.h>

#include "broker/access/jwk_set.h"
#include "proto/slice.h"

/* The keys, made once for a process. */
enum maker_key { MAKER_RSA, MAKER_EC, MAKER_SECRET, MAKER_RSA_2, MAKER_KEYS };

EVP_PKEY *maker_key(enum maker_key key);

/* The public key as a JWK with these members before its own
 * ("\"kid\":\"a\","). The caller frees it. */
char *maker_jwk(enum maker_key key, const char *members);

/* The set of {"keys":[...]}, read. Asserts that it is good. */
struct jwk_set *maker_set(const char *keys);

/* Base64url. The caller frees it. */
char *maker_base64url(struct slice bytes);

/* Signs `text` with the algorithm: "HS256", "RS256", "PS256", "ES256", or
 * "ES256-DER", the form that OpenSSL writes. Returns base64url that the caller
 * frees. */
char *maker_signature(const char *alg, EVP_PKEY *key, struct slice text);

/* A whole token. The caller frees it. */
char *maker_token(const char *alg, EVP_PKEY *key, const char *header,
                  const char *claims);

#endif
