/*
 * jwt_verifier.h - the JSON Web Tokens that requests show: each is verified
 * once, and then found by its hash.
 *
 * A token and its principal stay until the token ends, until others need the
 * room, or until its key is in no set, or the issuer or the audience is another
 * one: then the principal ends, and with it all that acts for it
 * (principal_is_over). A token whose principal is in use stays whatever comes.
 *
 * All functions: any thread. A look-up has a lock of its own, also for a walk
 * through all tokens when the keys change. Signatures are verified side by
 * side; a change of keys waits for those at work.
 */
#pragma once

#include "broker/access/jwk_set.h"
#include "broker/access/principal.h"

/* Tokens that are remembered while no request, stream or subscription uses
 * them. */
#define JWT_VERIFIED_MAX 4096

struct jwt_verifier;

/* `public_url` (jwt.h) is lent, and not read before the first token. It accepts
 * no token yet. */
struct jwt_verifier *jwt_verifier_new(const char *public_url);
void jwt_verifier_free(struct jwt_verifier *v); /* NULL is allowed */

/* Tokens are of this issuer and for this audience from now on; an empty issuer:
 * none is accepted. */
void jwt_verifier_expect(struct jwt_verifier *v, const char *issuer,
                         const char *audience);

/* Takes over the reference to `keys`. NULL: none is known. */
void jwt_verifier_set_keys(struct jwt_verifier *v, struct jwk_set *keys);

/* Returns a reference to the principal of a token; NULL: it is not accepted,
 * which is logged at level debug. Sets *is_key_unknown if new keys might accept
 * it. */
struct principal *jwt_verifier_find(struct jwt_verifier *v, struct slice text,
                                    int64_t now_us, bool *is_key_unknown);
