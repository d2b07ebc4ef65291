#include "broker/access/jwt.h"

#include <ctype.h>
#include <math.h>

#include <openssl/crypto.h>

#include "broker/access/jose_text.h"
#include "proto/number.h"
#include "proto/uri.h"

#define SECOND      ((int64_t)1000000)
#define LIFE_MAX_US ((int64_t)3660 * 86400 * SECOND)

/* A longer subject is named by its hash. */
#define SUBJECT_MAX 128

/* RSA of 8,192 bits */
#define SIGNATURE_MAX 1024

/* Bytes of a hash in a name. */
#define ISSUER_HASH_SIZE 8

bool
jwt_is_like(struct slice text)
{
    unsigned n_dots = 0;

    for (size_t i = 0; i < text.size; i++)
        n_dots += text.data[i] == '.';
    return n_dots == 2;
}

/* Header */

static enum status
read_header(struct jwk_claimed *claimed, const json_t *header,
            struct problem *why)
{
    static const char *const refused[] = {"crit", "b64", "zip", "enc", "cty"};
    struct slice typ = jose_string(header, "typ");

    for (size_t i = 0; i < N_ELEMENTS(refused); i++)
        if (json_object_get(header, refused[i]))
            return problem(why, STATUS_REFUSED,
                           "the header has \"%s\", which is not accepted",
                           refused[i]);
    if (json_object_get(header, "typ") && !slice_is_word(typ, "JWT") &&
        !slice_is_word(typ, "at+jwt") &&
        !slice_is_word(typ, "application/jwt") &&
        !slice_is_word(typ, "application/at+jwt"))
        return problem_quoting(why, STATUS_REFUSED, "a token of another type",
                               typ);
    claimed->alg = jose_string(header, "alg");
    claimed->kid = jose_string(header, "kid");
    if (!claimed->alg.data)
        return problem(why, STATUS_REFUSED,
                       "the header names no algorithm (\"alg\")");
    return json_object_get(header, "kid") && !claimed->kid.data
               ? problem(why, STATUS_REFUSED, "\"kid\" is no text")
               : STATUS_OK;
}

/* Claims */

/* Reads a time (NumericDate); if it is absent, *us stays. */
static enum status
read_time(int64_t *us, const json_t *claims, const char *name,
          struct problem *why)
{
    const json_t *value = json_object_get(claims, name);
    double seconds = json_number_value(value);

    if (!value)
        return STATUS_OK;
    if (!json_is_number(value) || !isfinite(seconds) || seconds < 0 ||
        seconds > 1e12)
        return problem(why, STATUS_REFUSED,
                       "\"%s\" is no number of seconds since 1970", name);
    *us = (int64_t)(seconds * (double)SECOND);
    return STATUS_OK;
}

static enum status
check_times(struct jwt *jwt, const json_t *claims, int64_t now_us,
            struct problem *why)
{
    static const char *const begins[] = {"nbf", "iat"};
    enum status rc = read_time(&jwt->ends_us, claims, "exp", why);

    if (rc)
        return rc;
    if (!json_object_get(claims, "exp"))
        return problem(why, STATUS_REFUSED, "it has no end (\"exp\")");
    if (jwt->ends_us <= now_us)
        return problem(why, STATUS_LATE, "it has expired");
    if (jwt->ends_us > now_us + LIFE_MAX_US)
        return problem(why, STATUS_REFUSED,
                       "its end (\"exp\") is more than ten years away");
    for (size_t i = 0; i < N_ELEMENTS(begins); i++) {
        int64_t at_us = 0;

        rc = read_time(&at_us, claims, begins[i], why);
        if (rc)
            return rc;
        if (at_us > now_us + JWT_LEEWAY_S * SECOND)
            return problem(why, STATUS_REFUSED, "\"%s\" is in the future",
                           begins[i]);
    }
    return STATUS_OK;
}

/* Writes the first bytes of a hash as hexadecimal digits, terminated. */
static void
add_hash(char *to, size_t n_bytes, struct slice text)
{
    struct digest hash;

    digest_sha256(&hash, text);
    *hex_write(to, hash.bytes, n_bytes) = '\0';
}

static enum status
name_holder(struct jwt *jwt, const json_t *claims, const char *issuer,
            struct problem *why)
{
    struct slice sub = jose_string(claims, "sub");
    size_t size = strlen("jwt:");
    bool is_plain; /* the name has the subject itself */

    if (json_object_get(claims, "sub") && !sub.data)
        return problem(why, STATUS_REFUSED, "\"sub\" is no text");
    memcpy(jwt->name, "jwt:", size);
    add_hash(jwt->name + size, ISSUER_HASH_SIZE, slice_of(issuer));
    size += 2 * ISSUER_HASH_SIZE;
    jwt->name[size++] = ':';
    /* Else the name has a hash, behind a sign with which no plain subject
     * begins. */
    is_plain = sub.size <= SUBJECT_MAX && !slice_starts(sub, "=");
    for (size_t i = 0; i < sub.size; i++)
        is_plain &= sub.data[i] > ' ' && sub.data[i] <= '~';
    if (is_plain) {
        snprintf(jwt->name + size, sizeof(jwt->name) - size, "%.*s",
                 SLICE_ARG(sub));
    } else {
        jwt->name[size++] = '=';
        add_hash(jwt->name + size, DIGEST_SIZE, sub);
    }
    return STATUS_OK;
}

/* Rights */

/* True for the variable of a URI template (RFC 6570) that stands for a piece of
 * a path: "{set}". */
static bool
is_variable(struct slice text)
{
    for (size_t i = 1; i + 1 < text.size; i++)
        if (!isalnum((unsigned char)text.data[i]) && text.data[i] != '_')
            return false;
    return text.size > 2 && text.data[0] == '{' &&
           text.data[text.size - 1] == '}';
}

/* Returns the pattern of the sets that a selector of topics means; empty: of
 * none. */
static struct slice
selected_sets(struct slice selector, struct slice public_url)
{
    static const char *const behind[] = {"", "/", "/stream", "/changes",
                                         "/notifications"};
    struct slice set;

    if (slice_is(selector, "*") || set_name_is_valid(selector))
        return selector;
    if (selector.size > public_url.size &&
        !memcmp(selector.data, public_url.data, public_url.size))
        slice_skip(&selector, public_url.size);
    if (!slice_skip_start(&selector, "/sets/"))
        return (struct slice){NULL, 0};
    set = slice_take_until(&selector, "/");
    for (size_t i = 0; i < N_ELEMENTS(behind); i++)
        if (slice_is(selector, behind[i]))
            return set_name_is_valid(set) ? set
                   : is_variable(set)     ? SLICE("*")
                                          : (struct slice){NULL, 0};
    return (struct slice){NULL, 0};
}

/* Adds a list of patterns; `is_mercure`: of selectors of topics. */
static enum status
add_list(struct rights *rights, enum right right, const json_t *claim,
         bool is_mercure, struct slice public_url, struct problem *why)
{
    const json_t *list = json_object_get(claim, rights_word(right)), *one;
    enum status rc = STATUS_OK;
    size_t i;

    if (list && !json_is_array(list))
        return problem(why, STATUS_INVALID, "\"%s\" is no array",
                       rights_word(right));
    json_array_foreach(list, i, one)
    {
        struct slice text = {json_string_value(one), json_string_length(one)};
        struct slice rest = text;

        if (!json_is_string(one))
            return problem(why, STATUS_INVALID,
                           "\"%s\" has a value that is no text",
                           rights_word(right));
        /* rights_add would read several patterns from "a,b". */
        if (!is_mercure &&
            (!text.size || slice_take_until(&rest, ", \t").size != text.size))
            return problem_quoting(why, STATUS_INVALID, "this is no pattern",
                                   text);
        if (is_mercure)
            text = selected_sets(text, public_url);
        if (text.size)
            rc = rights_add(rights, right, text, why);
        if (rc)
            break;
    }
    return rc;
}

/* Writes the rights of `claims`. `public_url` has no slash at its end.
 * STATUS_INVALID: `why` names the member. */
static enum status
read_rights(struct rights *rights, const json_t *claims,
            struct slice public_url, struct problem *why)
{
    const json_t *tidings = json_object_get(claims, "tidings");
    const json_t *mercure = json_object_get(claims, "mercure");
    const json_t *observe = json_object_get(tidings, "observe");
    enum status rc = STATUS_OK;

    memset(rights, 0, sizeof(*rights));
    if ((tidings && !json_is_object(tidings)) ||
        (mercure && !json_is_object(mercure)))
        return problem(why, STATUS_INVALID, "the claim \"%s\" is no object",
                       json_is_object(tidings) || !tidings ? "mercure"
                                                           : "tidings");
    for (enum right right = RIGHT_PUBLISH; !rc && right <= RIGHT_MANAGE;
         right <<= 1)
        rc = add_list(rights, right, tidings, false, public_url, why);
    if (!rc && observe && !json_is_boolean(observe))
        rc = problem(why, STATUS_INVALID,
                     "\"observe\" is neither true nor false");
    rights->observe = json_is_true(observe);
    if (rc)
        return problem_prefix(why, rc, "the claim \"tidings\": ");
    rc = add_list(rights, RIGHT_PUBLISH, mercure, true, public_url, why);
    if (!rc)
        rc = add_list(rights, RIGHT_SUBSCRIBE, mercure, true, public_url, why);
    return rc ? problem_prefix(why, rc, "the claim \"mercure\": ") : STATUS_OK;
}

/* All of it */

/* Reads one of the three texts that is JSON. */
static enum status
read_part(json_t **object, struct slice part, const char *what,
          struct problem *why)
{
    char bytes[JWT_BYTES_MAX];
    enum status rc;
    size_t size;

    if (!jose_base64url(bytes, sizeof(bytes), &size, part))
        return problem(why, STATUS_MALFORMED, "the %s is no base64url", what);
    rc = jose_object(object, (struct slice){bytes, size}, why);
    return rc ? problem_prefix(why, rc, "the %s: ", what) : STATUS_OK;
}

enum status
jwt_verify(struct jwt *jwt, struct slice text, const struct jwt_terms *terms,
           int64_t now_us, struct problem *why)
{
    unsigned char signature[SIGNATURE_MAX];
    struct slice rest = text, head, body;
    json_t *header = NULL, *claims = NULL;
    struct jwk_claimed claimed;
    size_t size;
    enum status rc;

    memset(jwt, 0, sizeof(*jwt));
    if (text.size > JWT_BYTES_MAX)
        return problem(why, STATUS_TOO_LARGE, "it has more than %zu bytes",
                       JWT_BYTES_MAX);
    if (!jwt_is_like(text))
        return problem(why, STATUS_MALFORMED, "it has no three parts");
    head = slice_take(&rest, '.');
    body = slice_take(&rest, '.');
    claimed.text =
        (struct slice){text.data, (size_t)(body.data + body.size - text.data)};
    if (!jose_base64url(signature, sizeof(signature), &size, rest))
        return problem(why, STATUS_MALFORMED,
                       "the signature is no base64url of at most %d bytes",
                       SIGNATURE_MAX);
    claimed.signature = (struct slice){(const char *)signature, size};
    rc = read_part(&header, head, "header", why);
    if (!rc)
        rc = read_header(&claimed, header, why);
    if (!rc)
        rc = jwk_set_verify(terms->keys, &claimed, &jwt->key, why);
    if (!rc)
        rc = read_part(&claims, body, "claims", why);
    if (!rc && !slice_is(jose_string(claims, "iss"), terms->issuer))
        rc = problem_quoting(why, STATUS_REFUSED,
                             "it is of another issuer (\"iss\")",
                             jose_string(claims, "iss"));
    if (!rc && !slice_is(jose_string(claims, "aud"), terms->audience) &&
        !jose_lists(json_object_get(claims, "aud"), terms->audience))
        rc = problem(why, STATUS_REFUSED,
                     "it is for another audience (\"aud\")");
    if (!rc)
        rc = check_times(jwt, claims, now_us, why);
    if (!rc)
        rc =
            read_rights(&jwt->rights, claims, slice_of(terms->public_url), why);
    if (!rc)
        rc = name_holder(jwt, claims, terms->issuer, why);
    json_decref(header);
    json_decref(claims);
    return rc;
}
