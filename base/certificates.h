/*
 * certificates.h - files of certificates and keys, PEM; and the least that TLS
 * must offer. Any thread.
 */
#pragma once

#include <openssl/ssl.h>

#include "proto/problem.h"

/* Opens a file for reading. `what` names it in an error: "certificate". */
FILE *certificates_open_file(const char *path, const char *what,
                             struct problem *why);

/* Reads all certificates of a file, at least one, in their order. An error
 * names the file, and which certificate is broken. Several threads may use the
 * certificates. Free them with certificates_free. */
MUST_CHECK enum status certificates_read(struct stack_st_X509 **all,
                                         const char *path, const char *what,
                                         struct problem *why);
void certificates_free(struct stack_st_X509 *all); /* NULL is allowed */

/* Writes the path of the system's file of authorities, below `root` ("": this
 * system): OpenSSL's own, else those of Debian, Alpine and Arch, of Fedora and
 * RHEL, of openSUSE. False: none of them can be read. */
bool certificates_find_system(const char *root, char *to, size_t size);

/* Names that file in SSL_CERT_FILE, where OpenSSL and the callers of libcurl
 * look, if OpenSSL's own is missing and the environment names none: a program
 * may run on another system than the one that its OpenSSL was built for. Call
 * it before there are threads. */
void certificates_use_system(void);

/* When it expires, in microseconds since 1970; and the first of them; 0: there
 * are none, or NULL. */
int64_t certificate_end_us(const struct x509_st *one);
int64_t certificates_end_us(const struct stack_st_X509 *all);

#define CERTIFICATES_DIGEST_SIZE 32

/* Writes a digest of all certificates. Compare lists by it: another thread may
 * free the certificates of a list that was replaced. NULL: all zero. False: no
 * memory. */
bool certificates_digest(const struct stack_st_X509 *all,
                         unsigned char to[CERTIFICATES_DIGEST_SIZE]);

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
