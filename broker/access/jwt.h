/*
 * jwt.h - verifies a JSON Web Token (RFC 7519) of an identity provider: three
 * base64url texts with dots between, header, claims and signature.
 *
 * The order of the checks is that of their cost: size and form, then the
 * header, then the signature (jwk_set.h), then the claims. Nothing of a token
 * is used before its signature holds, but the names of its key and algorithm.
 *
 *   alg   HS256, RS256, PS256 or ES256, as the key has it
 *   typ   JWT or at+jwt, if it is there: other types say something else
 *   crit, b64, zip, enc, cty   refused: the token has another meaning
 *   others                     passed over, also those that name keys
 *
 *   iss   the issuer, exactly
 *   aud   the audience, or an array with it: a token for another service of
 *         the same provider is none for us
 *   exp   required, and at most ten years away: later ones are milliseconds
 *   nbf, iat   not later than now
 *   sub   the holder; absent: all of them share one name
 *   tidings, mercure   the rights: below
 *
 * A clock of the provider may be JWT_LEEWAY_S ahead of ours: else it would make
 * tokens that are refused in their first seconds. The end has no leeway: it is
 * in the future for long, and an end that is late leaves somebody in.
 *
 * The rights. Ours:
 *
 *     "tidings": {"publish": ["news", "!news-internal"], "subscribe": ["*"],
 *                 "manage": [], "observe": true}
 *
 * Each text is a pattern (rights.h). No claim makes an administrator: only the
 * operator and tokens of ours do. A member of another type, or a text that is
 * no pattern, refuses the token: a list that lost a denial would allow more
 * than the provider meant.
 *
 * Mercure's, as hubs of Mercure read it:
 *
 *     "mercure": {"publish": ["https://example.org/sets/news"],
 *                 "subscribe": ["*"]}
 *
 * Each text selects topics. "*" is every set. The name of a set, or the URL of
 * a set, of its stream, its changes or its notifications, with the public URL
 * before it or as a path alone, is that set; with {NAME} in place of the set it
 * is every set. Others are topics of other hubs, and give nothing.
 *
 * Unknown members give nothing. Both claims together give what each gives.
 *
 * Any thread.
 */
#pragma once

#include "broker/access/jwk_set.h"
#include "broker/access/principal.h"
#include "broker/access/rights.h"

#define JWT_BYTES_MAX ((size_t)8 * 1024)
#define JWT_LEEWAY_S  60

/* What a token has to be. All are lent. */
struct jwt_terms {
    const struct jwk_set *keys;
    const char *issuer;
    const char *audience;
    const char *public_url; /* before the paths of sets */
};

/* What a token says. */
struct jwt {
    char name[PRINCIPAL_NAME_MAX + 1]; /* jwt:ISSUER:SUBJECT, where ISSUER is a
                                          hash: no name of a token of ours, and
                                          no holder at another provider */
    struct rights rights;
    int64_t ends_us;
    struct digest key; /* its mark */
};

/* True if `text` may be such a token: it has two dots, and no token of ours has
 * one. */
bool jwt_is_like(struct slice text);

/* STATUS_NOT_FOUND: its key is not in the set. Any other status:
 * the token is refused, and stays so with these keys; `why` is for the log, it
 * has names of claims and pieces of the header, never of the signature. */
MUST_CHECK enum status jwt_verify(struct jwt *jwt, struct slice text,
                                  const struct jwt_terms *terms, int64_t now_us,
                                  struct problem *why);
