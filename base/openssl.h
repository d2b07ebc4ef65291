/*
 * openssl.h - what everybody who uses OpenSSL's files of certificates and keys
 * needs. Any thread.
 */
#ifndef BASE_OPENSSL_H
#define BASE_OPENSSL_H

/* What OpenSSL says of its first error; empties the thread's queue of them.
 * Lent: OpenSSL's or the C library's. */
const char *openssl_reason(void);

/* A pem_password_cb: a key that wants a password is refused, where OpenSSL
 * would ask on the terminal. `is_asked`: a bool that becomes true; or NULL. */
int openssl_no_password(char *to, int size, int is_writing, void *is_asked);

#endif
