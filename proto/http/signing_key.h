/*
 * signing_key.h - a pair of keys of Ed25519 (RFC 8032), for signatures of
 * Standard Webhooks that everybody with the public key can check.
 *
 *     webhook-signature: v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5B...
 */
#pragma once

#include "proto/problem.h"

/* Bytes of the secret and of the public key. */
#define SIGNING_KEY_SIZE 32

/* "v1a,", 88 characters of base64, NUL. */
#define SIGNING_KEY_TEXT_SIZE 93

/* One thread at a time. */
struct signing_key;

/* Makes a secret. False: no random numbers, or no memory. */
MUST_CHECK bool signing_key_make(unsigned char secret[SIGNING_KEY_SIZE]);

/* NULL: no memory. */
struct signing_key *
signing_key_new(const unsigned char secret[SIGNING_KEY_SIZE]);
void signing_key_free(struct signing_key *key); /* NULL is allowed; wipes it */

const unsigned char *signing_key_public(const struct signing_key *key);

/* Writes "v1a,base64" of a message: of "id.timestamp.body". Hashes it twice.
 * STATUS_MEMORY. */
MUST_CHECK enum status signing_key_sign(const struct signing_key *key,
                                        struct slice message,
                                        char to[SIGNING_KEY_TEXT_SIZE]);
