/*
 * jwt_fuzz.c - a line, and a JSON Web Token; or a JWK set.
 *
 * The line chooses: "set" and a set behind it; "token" and the text of a token;
 * anything else is the header of a token, and what follows its claims, which
 * this target signs: else no input would come past the signature.
 */
#include "broker/access/jwt.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "broker/access/jose_text.h"
#include "proto/buf.h"
#include "tests/fuzz/fuzz.h"

#define NOW_US (INT64_C(1800000000) * 1000000)

static const char secret[] = "0123456789abcdefghijklmnopqrstuv";

static const struct jwk_set *
keys(void)
{
    static const char text[] =
        "{\"keys\":[{\"kty\":\"oct\",\"kid\":\"a\",\"k\":"
        "\"MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY\"}]}";
    static struct jwk_set *set;

    if (!set)
        FUZZ_ASSERT(!jwk_set_read(&set, slice_of(text), false, NULL));
    return set;
}

static void
add_base64url(struct buf *to, struct slice bytes)
{
    char *room = buf_room(to, (bytes.size + 2) / 3 * 4 + 1);

    if (!room)
        return;
    jose_base64url_write(room, bytes);
    to->size += strlen(room);
}

static void
sign(struct buf *token, struct slice header, struct slice claims)
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned size;

    add_base64url(token, header);
    BUF_ADD(token, ".");
    add_base64url(token, claims);
    HMAC(EVP_sha256(), secret, sizeof(secret) - 1,
         (const unsigned char *)token->data, token->size, mac, &size);
    BUF_ADD(token, ".");
    add_base64url(token, (struct slice){(const char *)mac, size});
}

/* A token that is accepted ends, has a name of its own, and makes no
 * administrator. */
static bool
verify(struct slice text)
{
    struct jwt_terms terms = {keys(), "i", "a", "http://b"};
    struct problem why = {""};
    struct jwt jwt;

    if (jwt_verify(&jwt, text, &terms, NOW_US, &why)) {
        fuzz_check_problem(&why);
        return false;
    }
    FUZZ_ASSERT(jwt.ends_us > NOW_US);
    FUZZ_ASSERT(jwk_set_has(keys(), &jwt.key));
    FUZZ_ASSERT(!strncmp(jwt.name, "jwt:", 4));
    for (const char *c = jwt.name; *c; c++)
        FUZZ_ASSERT(*c > ' ' && *c <= '~');
    FUZZ_ASSERT(!jwt.rights.admin);
    return true;
}

static void
read_set(struct slice text, bool is_public)
{
    struct problem why = {""};
    struct jwk_set *set;

    if (jwk_set_read(&set, text, is_public, &why)) {
        FUZZ_ASSERT(!set);
        fuzz_check_problem(&why);
        return;
    }
    FUZZ_ASSERT(jwk_set_size(set) > 0);
    jwk_set_unref(set);
}

FUZZ_TARGET(jwt, text)
{
    struct slice line = slice_take(&text, '\n');
    struct buf token;

    if (slice_is(line, "set")) {
        read_set(text, false);
        read_set(text, true);
    } else if (slice_is(line, "token")) {
        FUZZ_ASSERT(!verify(text)); /* nobody guesses the signature */
    } else {
        buf_init(&token, SIZE_MAX);
        sign(&token, line, text);
        if (verify(buf_slice(&token))) {
            token.data[token.size - 2] ^= 1;
            FUZZ_ASSERT(!verify(buf_slice(&token)));
        }
        buf_fini(&token);
    }
}
