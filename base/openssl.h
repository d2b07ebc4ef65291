/*
 * openssl.h - helpers for OpenSSL's files of certificates and keys. Any thread.
 */
#pragma once

#include <openssl/ssl.h>

#include "proto/c.h"

/* The least that a connection must offer, in OpenSSL's definition: 112 bits,
 * RSA and DH of 2,048, no SHA-1 in signatures of certificates. */
#define OPENSSL_SECURITY_LEVEL 2

/* Makes a context speak TLS 1.2 and later at this level, also where the
 * system's configuration permits less. Where that requires a higher level, it
 * stays. False: this OpenSSL has no TLS 1.2. For users of libssl. */
static inline bool
openssl_raise_level(SSL_CTX *ctx)
{
    if (SSL_CTX_get_security_level(ctx) < OPENSSL_SECURITY_LEVEL)
        SSL_CTX_set_security_level(ctx, OPENSSL_SECURITY_LEVEL);
    return SSL_CTX_get_min_proto_version(ctx) >= TLS1_2_VERSION ||
           SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1;
}

/* Describes OpenSSL's first error, and empties the thread's queue of errors.
 * Lent: the text belongs to OpenSSL or the C library. */
const char *openssl_reason(void);

/* A pem_password_cb: refuses a key with a password, for which OpenSSL would ask
 * on the terminal. `is_asked`: a bool that becomes true then; or NULL. */
int openssl_no_password(char *to, int size, int is_writing, void *is_asked);
