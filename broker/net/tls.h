/*
 * tls.h - the certificate of the listeners, and sessions of OpenSSL. For this
 * folder only.
 *
 * What is where, in bytes: OpenSSL asks the kernel for one record at a time,
 * head then body, and socket_read has room for a whole one. So nothing waits
 * inside OpenSSL but a record of which a part is still to come, and the
 * kernel's word that there is something to read is enough.
 *
 * A write ends behind each record of 16 KB. Of one that the socket does not
 * take whole, OpenSSL keeps the rest, and wants the same bytes again
 * (SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER: from anywhere). A reader that is slow
 * thus costs one frame and one record, 80 KB; when idle, OpenSSL's buffers are
 * freed (SSL_MODE_RELEASE_BUFFERS).
 */
#ifndef BROKER_NET_TLS_H
#define BROKER_NET_TLS_H

#include <stdbool.h>

#include "proto/problem.h"
#include "proto/status.h"

struct ssl_st;
struct identity;
struct tls;

/* Reads certificate and private key (identity_read). Freed by tls_close. */
MUST_CHECK enum status tls_open(struct tls **tls, const char *cert_path,
                                const char *key_path, struct problem *why);

/* NULL is allowed. */
void tls_close(struct tls *tls);

/* Takes `id` (server.h), which handshakes that begin from now on show;
 * connections and session tickets go on. False: it is the same as the one
 * before. One thread at a time, any. */
bool tls_show(struct tls *tls, struct identity *id);

/* A session on a connected socket, which stays the caller's: the first read or
 * write begins the handshake. NULL: no memory. Any thread; then that thread's.
 */
struct ssl_st *tls_session(struct tls *tls, int fd);

#endif
