/*
 * signing_key.h - pairs of keys of Ed25519 (RFC 8032).
 */
#pragma once

#include "proto/problem.h"

/* Bytes of the secret and of the public key. */
#define SIGNING_KEY_SIZE 32

/* Bytes of a signature. */
#define SIGNATURE_BYTES 64

/* Several threads may sign at once. */
struct signing_key;

/* Makes a secret. False: no random numbers, or no memory. */
MUST_CHECK bool signing_key_make(unsigned char secret[SIGNING_KEY_SIZE]);

/* The same as text: base64, and a NUL. */
#define SIGNING_KEY_TEXT 45
MUST_CHECK bool signing_key_make_text(char text[SIGNING_KEY_TEXT]);

/* Reads a secret as text. STATUS_INVALID: it is none, and `why` stays. */
MUST_CHECK enum status signing_key_read(struct signing_key **key,
                                        struct slice text, struct problem *why);

/* NULL: no memory. */
struct signing_key *
signing_key_new(const unsigned char secret[SIGNING_KEY_SIZE]);
void signing_key_free(struct signing_key *key); /* NULL is allowed; wipes it */

const unsigned char *signing_key_public(const struct signing_key *key);

/* Hashes the message twice. False: no memory. */
MUST_CHECK bool signing_key_sign(const struct signing_key *key,
                                 struct slice message,
                                 unsigned char signature[SIGNATURE_BYTES]);

/* True if the signature of the message is of who has the public key's secret.
 */
bool signature_is_of(const unsigned char public[SIGNING_KEY_SIZE],
                     struct slice message,
                     const unsigned char signature[SIGNATURE_BYTES]);
