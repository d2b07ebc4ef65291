/*
 * tls_front.h - TLS in front of a plain server, for tests: bytes that reach the
 * front over TLS go on to the server unchanged, and its answers back.
 *
 *     struct tls_front *f = tls_front_new(&certificate, "127.0.0.1",
 *                                        "127.0.0.2", port);
 *
 *     ... https://127.0.0.1:tls_front_port(f)/ ...
 *     tls_front_free(f);
 *
 * A thread for each connection, which it ends without close_notify. Callbacks
 * stay what they are: raw sockets.
 */
#ifndef TESTS_SUPPORT_TLS_FRONT_H
#define TESTS_SUPPORT_TLS_FRONT_H

#include <stdbool.h>

#include "tests/support/certificate.h"

struct tls_front;

/* Listens at `host`, an IPv4 address, on a port of its own; the server is at
 * `behind`, on `port`. Fails the test if it cannot. */
struct tls_front *tls_front_new(const struct certificate *c, const char *host,
                                const char *behind, unsigned port);

/* Ends all connections. NULL is allowed. */
void tls_front_free(struct tls_front *f);

unsigned tls_front_port(const struct tls_front *f);

/* The connections that have resumed a session. */
unsigned tls_front_resumed(const struct tls_front *f);

/* From now on the front asks its clients to renegotiate, by TLS 1.2, when they
 * have sent something. */
void tls_front_renegotiate(struct tls_front *f);

/* From now on the front sends a flood of KeyUpdates (TLS 1.3) before its next
 * answer. */
void tls_front_flood(struct tls_front *f);

/* True if the flood has begun. */
bool tls_front_is_flooding(const struct tls_front *f);

#endif
