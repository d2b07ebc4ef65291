/*
 * jwk_set.h - the keys of an identity provider: a JWK set (RFC 7517), and the
 * check of a signature with them.
 *
 * A key verifies one algorithm, which it names itself ("alg"), or which its
 * type has:
 *
 *     oct (a secret)   HS256            at least 256 bits
 *     RSA              RS256, PS256     2,048 to 8,192 bits
 *     EC, P-256        ES256
 *
 * The signed text names the algorithm, too, but only chooses among those of the
 * key: so a public RSA key is never the secret of HS256, and RS256 does not
 * pass for PS256. "none" is no algorithm here. A key's name ("kid") is compared
 * with others, and is nothing else; where a text says that keys are ("jku",
 * "x5u", "jwk"), nobody looks.
 *
 * Keys that do not verify these (encryption, other types, curves and
 * algorithms) are passed over, as RFC 7517 wants. Private keys, keys that are
 * too weak and broken ones refuse the set: whoever wrote it has made a mistake.
 *
 * OpenSSL verifies, with keys made once. libjose is not used: its check makes
 * them anew for each signature, and compares the names of the algorithms by
 * order (a key of PS256 verifies RS256); to load it took 1.3 ms of each start
 * of the broker, a fifth, for three functions.
 *
 * Immutable after jwk_set_read, but for the count: any thread.
 */
#pragma once

#include "proto/resourcesync/digest.h"

/* Bytes and keys of a set. */
#define JWK_SET_BYTES_MAX ((size_t)256 * 1024)
#define JWK_SET_KEYS_MAX  100

/* The verifier tries at most so many keys with one signature, if several have
 * its name, or if it names none. */
#define JWK_TRIED_MAX 4

struct jwk_set;

/* Reads a set. `is_public`: everybody can read it, so secrets (oct) in it
 * refuse the set. The set needs at least one key that verifies.
 * STATUS_TOO_LARGE, STATUS_MALFORMED, STATUS_INVALID: `why` names the key. The
 * caller owns the first reference. */
MUST_CHECK enum status jwk_set_read(struct jwk_set **set, struct slice text,
                                    bool is_public, struct problem *why);

/* Shared and counted. NULL is allowed. */
struct jwk_set *jwk_set_ref(struct jwk_set *set); /* returns `set` */
void jwk_set_unref(struct jwk_set *set);

/* A signed text, with the members of its header (JWS). */
struct jwk_claimed {
    struct slice alg;
    struct slice kid; /* data is NULL: it names no key */
    struct slice text, signature;
};

/* Verifies a signature, and writes the mark of the key: the hash of the key,
 * its name and its algorithms, the same in two sets if the key is.
 * STATUS_NOT_FOUND: no key has that name, a later set may have one.
 * STATUS_REFUSED: anything else.
 */
MUST_CHECK enum status jwk_set_verify(const struct jwk_set *set,
                                      const struct jwk_claimed *claimed,
                                      struct digest *mark, struct problem *why);

/* True if the set has the key of the mark. */
bool jwk_set_has(const struct jwk_set *set, const struct digest *mark);

size_t jwk_set_size(const struct jwk_set *set); /* keys that verify */
bool jwk_set_has_secret(const struct jwk_set *set);
