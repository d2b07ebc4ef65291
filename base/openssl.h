/*
 * openssl.h - helpers for OpenSSL's files of certificates and keys. Any thread.
 */
#ifndef BASE_OPENSSL_H
#define BASE_OPENSSL_H

/* Describes OpenSSL's first error, and empties the thread's queue of errors.
 * Lent: the text belongs to OpenSSL or the C library. */
const char *openssl_reason(void);

/* A pem_password_cb: refuses a key with a password, for which OpenSSL would ask
 * on the terminal. `is_asked`: a bool that becomes true then; or NULL. */
int openssl_no_password(char *to, int size, int is_writing, void *is_asked);

#endif
