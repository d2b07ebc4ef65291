/*
 * tls.h - the certificate of the listeners, and sessions of OpenSSL. For this
 * folder only.
 *
 * Where bytes wait: OpenSSL reads one record at a time from the kernel, head
 * then body, and socket_read has room for a whole one. So OpenSSL only holds
 * bytes of an incomplete record, and poll notices all others.
 *
 * A write ends behind each record of 16 KB. If the socket does not take a whole
 * record, OpenSSL keeps the rest, and requires the same bytes again
 * (SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER: from any address). So a slow reader
 * costs one frame and one record, 80 KB. When idle, OpenSSL frees its buffers
 * (SSL_MODE_RELEASE_BUFFERS).
 */
#ifndef BROKER_NET_TLS_H
#define BROKER_NET_TLS_H

#include <stdbool.h>

#include "proto/problem.h"
#include "proto/status.h"

struct ssl_st;
struct identity;
struct tls;

/* Reads certificate and private key (identity_read). Free it with tls_close. */
MUST_CHECK enum status tls_open(struct tls **tls, const char *cert_path,
                                const char *key_path, struct problem *why);

/* NULL is allowed. */
void tls_close(struct tls *tls);

/* Takes over `id` (server.h) for new handshakes; connections and session
 * tickets continue. False: it equals the one before. One thread at a time,
 * any. */
bool tls_show(struct tls *tls, struct identity *id);

/* Makes a session on a connected socket, which the caller keeps: the first read
 * or write begins the handshake. NULL: no memory. Any thread; then that
 * thread's. */
struct ssl_st *tls_session(struct tls *tls, int fd);

#endif
