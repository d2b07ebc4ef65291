/*
 * client_trust.h - the authorities that clients' certificates need, and the
 * certificate that a client has proved to have. For this folder only.
 *
 * A client is asked for a certificate, and need not send one. A certificate
 * that it sends must be valid today, for the purpose of clients, and lead to an
 * authority of --tls-client-ca; else the handshake fails.
 */
#pragma once

#include "proto/c.h"

struct client_trust;
struct ssl_st;
struct stack_st_X509;

/* Takes over the authorities. */
struct client_trust *client_trust_new(struct stack_st_X509 *authorities);
void client_trust_free(struct client_trust *trust); /* NULL is allowed */

/* True if both trust the same authorities. NULL: none. */
bool client_trust_is_same(const struct client_trust *a,
                          const struct client_trust *b);

/* When the first of the authorities expires: certificates_end_us. */
int64_t client_trust_end_us(const struct client_trust *trust);

/* Makes a session, before its handshake, ask for a certificate. A ticket of a
 * session with other authorities resumes nothing. */
void client_trust_ask(const struct client_trust *trust, struct ssl_st *ssl);

/* Writes the SHA-256 of the certificate that the client has proved to have, 64
 * digits and NUL, and when it expires. False: none, or it has expired
 * meanwhile. */
bool client_trust_proof(const struct ssl_st *ssl, char *fingerprint,
                        int64_t *ends_us);

/* Logs why the certificate of a handshake that failed was refused. */
void client_trust_report(const struct ssl_st *ssl);
