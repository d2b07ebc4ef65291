/*
 * certificates.h - files of certificates, PEM. Any thread.
 */
#pragma once

#include "proto/problem.h"

struct stack_st_X509; /* OpenSSL's STACK_OF(X509) */
struct x509_st;       /* X509 */

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
