/*
 * tls.h - the certificate of the listeners, and what libwebsockets does not do
 * for a connection over TLS. For this folder only.
 *
 * libwebsockets 4.1.6 does the handshake, reads and writes. Its own loading of
 * certificates is not used: it tells the log alone what is wrong, and allows
 * one curve only. So files are read here, and each service thread's SSL_CTX
 * (context.c) asks for what was read at every handshake.
 *
 * What is where, in bytes: OpenSSL asks the kernel for one record at a time,
 * head then body, and the library takes all of it: up to 64 KB at once, or of a
 * WebSocket in steps, as long as SSL_pending says so. Nothing waits inside
 * OpenSSL but a record of which a part is still to come; so the kernel's word
 * that there is something to read is enough.
 *
 * A write is one SSL_write of at most 64 KB (stream.h, answer.c), made into
 * records of 16 KB. Without SSL_MODE_ENABLE_PARTIAL_WRITE, which would end it
 * after each record, it says "later" when the socket is full, and must be
 * repeated with the same bytes; the library keeps a copy of them, all and
 * not just the rest (SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER: elsewhere), and
 * OpenSSL the rest of one record. A reader that is slow thus costs one frame
 * and one record, 80 KB, and nothing follows until it has taken them; when
 * idle, OpenSSL's buffers are freed (SSL_MODE_RELEASE_BUFFERS).
 */
#ifndef BROKER_NET_TLS_H
#define BROKER_NET_TLS_H

#include <stdbool.h>

#include <libwebsockets.h>

#include "proto/problem.h"
#include "proto/status.h"

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

/* Makes `ssl_ctx`, an SSL_CTX of the library's, ours: certificate, key,
 * protocols. It borrows `tls`. false: OpenSSL does not take them (the error is
 * in its queue). */
bool tls_apply(struct tls *tls, void *ssl_ctx);

/* An SSL_CTX for the library's client side, which nobody here uses: its own it
 * would fill with the system's certificates, and leak when there are several
 * contexts. Lent as long as `tls` lives. */
void *tls_client_ctx(const struct tls *tls);

/* Does the connection speak TLS? */
bool tls_is_used(struct lws *wsi);

/* Has the peer begun a record whose rest is to come, or is there one that
 * nobody has read? Not over TLS: no. */
bool tls_has_unread(struct lws *wsi);

/* Says that nothing more is sent (close_notify), so that the peer can tell the
 * end from a cut. Nothing may be kept back. Not over TLS, or before the
 * handshake is through: does nothing. */
void tls_say_end(struct lws *wsi);

#endif
