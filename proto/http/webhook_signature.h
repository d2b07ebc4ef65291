/*
 * webhook_signature.h - what proves that a body comes from who knows the
 * secret.
 *
 *     X-Hub-Signature: sha256=0f3a...          WebSub (W-100), of the body
 *     webhook-id: msg_...                      Standard Webhooks 1.0 (W-106),
 *     webhook-timestamp: 1700000000            of "id.timestamp.body", when the
 *     webhook-signature: v1,K7gNU3sdo+Ol...    secret is in its format: whsec_
 *                                              and the key in base64
 *     webhook-signature: v1a,hnO3f9T8Ytu...    the same, with a pair of keys of
 *                                              Ed25519 (RFC 8032): everybody
 *                                              with the public key can check it
 */
#pragma once

#include "proto/signing_key.h"

enum signature_method {
    SIGNATURE_SHA1,
    SIGNATURE_SHA256,
    SIGNATURE_SHA384,
    SIGNATURE_SHA512,
    SIGNATURE_METHODS
};

/* "sha512=", 128 digits, NUL. */
#define SIGNATURE_SIZE 136

/* "v1,", 44 characters of base64, NUL. */
#define WEBHOOK_SIGNATURE_SIZE 48

/* "sha1", "sha256", "sha384", "sha512", in this case alone. STATUS_INVALID:
 * there is no such method. */
MUST_CHECK enum status signature_method_of(struct slice name,
                                           enum signature_method *method);

/* A key, scheduled once, so that signing costs what hashing the body costs
 * (EVP_MAC, begun anew). One thread at a time. */
struct signer;

/* Keyed with the bytes of `secret` as they are, prefix whsec_ included (W-106).
 * NULL: no memory. */
struct signer *signer_new(enum signature_method method, struct slice secret);
void signer_free(struct signer *signer); /* NULL is allowed; wipes the key */

/* "method=hex" of the body. STATUS_MEMORY. */
MUST_CHECK enum status signer_sign(const struct signer *signer,
                                   struct slice body, char to[SIGNATURE_SIZE]);

/* True if the secret is in the format of Standard Webhooks: "whsec_" and the
 * base64, with its padding, of a key that is not empty. A secret that only
 * begins like that is one like any other. */
bool signer_is_webhook(const struct signer *signer);

/* "v1,base64" of "id.timestamp.body"; the timestamp is not negative.
 * STATUS_INVALID: the secret is not in that format; STATUS_MEMORY. */
MUST_CHECK enum status signer_sign_webhook(const struct signer *signer,
                                           struct slice id, int64_t timestamp_s,
                                           struct slice body,
                                           char to[WEBHOOK_SIGNATURE_SIZE]);

/* Is `header` (X-Hub-Signature) right for the body? In constant time; the
 * method is the one it names, the case of the digits does not matter (W-104).
 * STATUS_MALFORMED: no signature, unknown method, not as many hexadecimal
 * digits as it has; STATUS_INVALID: it is wrong; STATUS_MEMORY. */
MUST_CHECK enum status signature_check(struct slice header, struct slice secret,
                                       struct slice body);

/* "v1a,", 88 characters of base64, NUL. */
#define WEBHOOK_KEY_SIGNATURE_SIZE 93

/* Writes "v1a,base64" of a message: of "id.timestamp.body". STATUS_MEMORY. */
MUST_CHECK enum status webhook_sign(const struct signing_key *key,
                                    struct slice message,
                                    char to[WEBHOOK_KEY_SIGNATURE_SIZE]);
