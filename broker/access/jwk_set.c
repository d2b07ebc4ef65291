#include "broker/access/jwk_set.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

#include "base/relaxed.h"
#include "broker/access/jose_text.h"

#define SECRET_MIN   32
#define SECRET_MAX   1024
#define RSA_BITS_MIN 2048
#define RSA_BITS_MAX 8192
#define EC_SIZE      32 /* of a coordinate, and of each half of a signature */

enum algorithm { HS256 = 1, RS256 = 2, PS256 = 4, ES256 = 8 };

static const struct {
    enum algorithm alg;
    const char *name;
    const char *kty;
} algorithms[] = {
    {HS256, "HS256", "oct"},
    {RS256, "RS256", "RSA"},
    {PS256, "PS256", "RSA"},
    {ES256, "ES256", "EC"},
};

#define N_ALGORITHMS N_ELEMENTS(algorithms)

struct jwk {
    char *kid;     /* NULL: it has no name */
    unsigned algs; /* enum algorithm */
    EVP_PKEY *key;
    struct digest mark;
};

struct jwk_set {
    atomic_uint refs;
    size_t n;
    struct jwk keys[JWK_SET_KEYS_MAX];
};

/* Reading */

/* Returns the bits of the algorithms of that name (without data: any) that a
 * key of this type (likewise) may have. */
static unsigned
algorithms_of(struct slice kty, struct slice name)
{
    unsigned found = 0;

    for (size_t i = 0; i < N_ALGORITHMS; i++)
        if ((!kty.data || slice_is(kty, algorithms[i].kty)) &&
            (!name.data || slice_is(name, algorithms[i].name)))
            found |= algorithms[i].alg;
    return found;
}

/* Each reads the members of its type. STATUS_OK with *key NULL: OpenSSL does
 * not take them. */

static enum status
read_secret(const json_t *jwk, EVP_PKEY **key, struct problem *why)
{
    struct slice k = jose_string(jwk, "k");
    unsigned char bytes[SECRET_MAX];
    enum status rc = STATUS_OK;
    size_t size;

    if (!k.data || !jose_base64url(bytes, sizeof(bytes), &size, k))
        rc = problem(why, STATUS_INVALID,
                     "\"k\" is no base64url of at most %d bytes", SECRET_MAX);
    else if (size < SECRET_MIN)
        rc = problem(why, STATUS_INVALID,
                     "a secret of %zu bytes can be guessed: it needs %d", size,
                     SECRET_MIN);
    else
        *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, bytes, size);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return rc;
}

/* NULL: OpenSSL does not take it. */
static EVP_PKEY *
public_key(const char *type, OSSL_PARAM_BLD *members)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(members);
    EVP_PKEY *key = NULL;

    if (ctx && params && EVP_PKEY_fromdata_init(ctx) == 1)
        (void)EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(members);
    EVP_PKEY_CTX_free(ctx);
    return key;
}

static enum status
read_rsa(const json_t *jwk, EVP_PKEY **key, struct problem *why)
{
    unsigned char bytes[RSA_BITS_MAX / 8 + 8], e_bytes[sizeof(uint64_t)];
    struct slice n = jose_string(jwk, "n");
    OSSL_PARAM_BLD *members;
    BIGNUM *modulus, *exponent;
    uint64_t e = 0; /* also of more than 64 bits */
    size_t size, e_size;

    if (!n.data || !jose_base64url(bytes, sizeof(bytes), &size, n))
        return problem(why, STATUS_INVALID,
                       "\"n\" is no base64url of at most %d bits",
                       RSA_BITS_MAX);
    if (jose_base64url(e_bytes, sizeof(e_bytes), &e_size,
                       jose_string(jwk, "e")))
        for (size_t i = 0; i < e_size; i++)
            e = e << 8 | e_bytes[i];
    if (e < 3 || e % 2 == 0)
        return problem(why, STATUS_INVALID,
                       "\"e\" is no odd number from 3 to 2^64");
    members = OSSL_PARAM_BLD_new();
    modulus = BN_bin2bn(bytes, (int)size, NULL);
    exponent = BN_bin2bn(e_bytes, (int)e_size, NULL);
    OSSL_PARAM_BLD_push_BN(members, OSSL_PKEY_PARAM_RSA_N, modulus);
    OSSL_PARAM_BLD_push_BN(members, OSSL_PKEY_PARAM_RSA_E, exponent);
    *key = public_key("RSA", members);
    BN_free(modulus);
    BN_free(exponent);
    return STATUS_OK;
}

static enum status
read_ec(const json_t *jwk, EVP_PKEY **key, struct problem *why)
{
    static const char *const names[] = {"x", "y"};
    unsigned char point[1 + 2 * EC_SIZE] = {POINT_CONVERSION_UNCOMPRESSED};
    OSSL_PARAM_BLD *members;
    size_t size;

    for (size_t i = 0; i < 2; i++) {
        struct slice text = jose_string(jwk, names[i]);

        if (!text.data ||
            !jose_base64url(point + 1 + i * EC_SIZE, EC_SIZE, &size, text) ||
            size != EC_SIZE)
            return problem(why, STATUS_INVALID,
                           "\"%s\" is no base64url of %d bytes", names[i],
                           EC_SIZE);
    }
    members = OSSL_PARAM_BLD_new();
    OSSL_PARAM_BLD_push_utf8_string(members, OSSL_PKEY_PARAM_GROUP_NAME,
                                    "P-256", 0);
    OSSL_PARAM_BLD_push_octet_string(members, OSSL_PKEY_PARAM_PUB_KEY, point,
                                     sizeof(point));
    *key = public_key("EC", members); /* which must be on the curve */
    return STATUS_OK;
}

/* Fills in a key that verifies `algs`. The caller frees `to`, also after a
 * failure. */
static enum status
make_key(struct jwk *to, const json_t *jwk, unsigned algs, struct problem *why)
{
    static const char *const marked[] = {"kty", "kid", "k", "n", "e", "x", "y"};
    struct digest hashes[N_ELEMENTS(marked) + 1];
    struct slice kid = jose_string(jwk, "kid");
    enum status rc = algs & HS256   ? read_secret(jwk, &to->key, why)
                     : algs & ES256 ? read_ec(jwk, &to->key, why)
                                    : read_rsa(jwk, &to->key, why);

    ERR_clear_error();
    if (rc)
        return rc;
    to->algs = algs;
    to->kid = kid.data ? slice_dup(kid) : NULL;
    if (!to->key)
        return problem(why, STATUS_INVALID, "OpenSSL does not take it");
    if (algs & (RS256 | PS256)) {
        int bits = EVP_PKEY_bits(to->key);

        rc = bits < RSA_BITS_MIN || bits > RSA_BITS_MAX
                 ? problem(why, STATUS_INVALID,
                           "an RSA key of %d bits: it needs %d to %d", bits,
                           RSA_BITS_MIN, RSA_BITS_MAX)
                 : STATUS_OK;
    }
    /* The hash of the hashes of its algorithms and members. */
    for (size_t i = 0; i < N_ELEMENTS(marked); i++)
        digest_sha256(&hashes[i], jose_string(jwk, marked[i]));
    digest_sha256(&hashes[N_ELEMENTS(marked)],
                  (struct slice){(char *)&to->algs, sizeof(to->algs)});
    digest_sha256(&to->mark, (struct slice){(char *)hashes, sizeof(hashes)});
    return rc;
}

static enum status
read_key(struct jwk_set *set, const json_t *jwk, bool is_public,
         struct problem *why)
{
    struct slice kty = jose_string(jwk, "kty"), alg = jose_string(jwk, "alg");
    static const char *const secrets[] = {"d",  "p",  "q",  "dp",
                                          "dq", "qi", "oth"};
    const json_t *ops = json_object_get(jwk, "key_ops");
    unsigned algs;

    if (!kty.data)
        return problem(why, STATUS_MALFORMED, "it has no \"kty\"");
    if (json_object_get(jwk, "kid") && !jose_string(jwk, "kid").data)
        return problem(why, STATUS_MALFORMED, "its \"kid\" is no text");
    if (json_object_get(jwk, "alg") && !alg.data)
        return problem(why, STATUS_MALFORMED, "its \"alg\" is no text");
    for (size_t i = 0; i < N_ELEMENTS(secrets); i++)
        if (json_object_get(jwk, secrets[i]))
            return problem(why, STATUS_INVALID,
                           "it is a private key (\"%s\"): the broker needs the "
                           "public one only",
                           secrets[i]);
    if (is_public && slice_is(kty, "oct"))
        return problem(why, STATUS_INVALID,
                       "a secret (\"oct\") that is published is none: give "
                       "such a key in a file");
    algs = algorithms_of(kty, alg);
    if (slice_is(kty, "EC") && !slice_is(jose_string(jwk, "crv"), "P-256"))
        algs = 0;
    /* The key is made for verifying, as far as it says. */
    if (!algs || (ops && !jose_lists(ops, "verify")) ||
        (json_object_get(jwk, "use") &&
         !slice_is(jose_string(jwk, "use"), "sig")))
        return STATUS_OK;
    return make_key(&set->keys[set->n++], jwk, algs, why);
}

static enum status
read_keys(struct jwk_set *set, const json_t *keys, bool is_public,
          struct problem *why)
{
    const json_t *jwk;
    size_t i;

    if (!json_is_array(keys))
        return problem(why, STATUS_MALFORMED,
                       "no JWK set: it has no array \"keys\"");
    if (json_array_size(keys) > JWK_SET_KEYS_MAX)
        return problem(why, STATUS_TOO_LARGE,
                       "the JWK set has %zu keys, more than %d",
                       json_array_size(keys), JWK_SET_KEYS_MAX);
    json_array_foreach(keys, i, jwk)
    {
        enum status rc = read_key(set, jwk, is_public, why);
        struct slice kid = jose_string(jwk, "kid");

        if (rc && kid.data)
            return problem_prefix(why, rc, "key %zu (\"%s\"): ", i + 1,
                                  problem_quote(kid).text);
        if (rc)
            return problem_prefix(why, rc, "key %zu: ", i + 1);
    }
    return set->n ? STATUS_OK
                  : problem(why, STATUS_INVALID,
                            "the JWK set has no key for HS256, RS256, PS256 "
                            "or ES256");
}

enum status
jwk_set_read(struct jwk_set **set, struct slice text, bool is_public,
             struct problem *why)
{
    json_t *object = NULL;
    enum status rc;

    *set = NULL;
    if (text.size > JWK_SET_BYTES_MAX)
        return problem(why, STATUS_TOO_LARGE,
                       "the JWK set has more than %zu bytes",
                       JWK_SET_BYTES_MAX);
    rc = jose_object(&object, text, why);
    if (rc)
        return rc;
    *set = memory_new(1, sizeof(**set));
    atomic_init(&(*set)->refs, 1);
    rc = read_keys(*set, json_object_get(object, "keys"), is_public, why);
    json_decref(object);
    if (rc) {
        jwk_set_unref(*set);
        *set = NULL;
    }
    return rc;
}

struct jwk_set *
jwk_set_ref(struct jwk_set *set)
{
    if (set)
        add_relaxed(&set->refs, 1);
    return set;
}

void
jwk_set_unref(struct jwk_set *set)
{
    if (!set ||
        atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < set->n; i++) {
        free(set->keys[i].kid);
        EVP_PKEY_free(set->keys[i].key);
    }
    free(set);
}

/* Verifying */

static bool
verify_ecdsa(EVP_MD_CTX *ctx, EVP_PKEY *key, const struct jwk_claimed *claimed)
{
    const unsigned char *halves = (const void *)claimed->signature.data;
    unsigned char der[2 * EC_SIZE + 16], *end = der;
    ECDSA_SIG *sig;
    int size;

    if (claimed->signature.size != 2 * EC_SIZE)
        return false;
    /* r and s, 32 bytes each, in the form that OpenSSL reads (DER) */
    sig = ECDSA_SIG_new();
    ECDSA_SIG_set0(sig, BN_bin2bn(halves, EC_SIZE, NULL),
                   BN_bin2bn(halves + EC_SIZE, EC_SIZE, NULL));
    size = i2d_ECDSA_SIG(sig, &end);
    ECDSA_SIG_free(sig);
    return size > 0 &&
           EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
           EVP_DigestVerify(ctx, der, (size_t)size,
                            (const unsigned char *)claimed->text.data,
                            claimed->text.size) == 1;
}

static bool
verify_with(const struct jwk *jwk, unsigned alg,
            const struct jwk_claimed *claimed)
{
    const unsigned char *text = (const void *)claimed->text.data;
    size_t size = claimed->text.size, own_size = EVP_MAX_MD_SIZE;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char own[EVP_MAX_MD_SIZE];
    EVP_PKEY_CTX *terms; /* of ctx */
    bool is_good;

    if (alg == ES256)
        is_good = verify_ecdsa(ctx, jwk->key, claimed);
    else if (alg == HS256)
        is_good =
            EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, jwk->key) == 1 &&
            EVP_DigestSign(ctx, own, &own_size, text, size) == 1 &&
            own_size == claimed->signature.size &&
            CRYPTO_memcmp(own, claimed->signature.data, own_size) == 0;
    else
        is_good =
            EVP_DigestVerifyInit(ctx, &terms, EVP_sha256(), NULL, jwk->key) ==
                1 &&
            EVP_PKEY_CTX_set_rsa_padding(terms, alg == PS256
                                                    ? RSA_PKCS1_PSS_PADDING
                                                    : RSA_PKCS1_PADDING) > 0 &&
            (alg != PS256 || EVP_PKEY_CTX_set_rsa_pss_saltlen(
                                 terms, RSA_PSS_SALTLEN_DIGEST) > 0) &&
            EVP_DigestVerify(ctx, (const void *)claimed->signature.data,
                             claimed->signature.size, text, size) == 1;
    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    return is_good;
}

enum status
jwk_set_verify(const struct jwk_set *set, const struct jwk_claimed *claimed,
               struct digest *mark, struct problem *why)
{
    unsigned alg = algorithms_of((struct slice){NULL, 0}, claimed->alg);
    unsigned n_tried = 0;
    bool has_name = false;

    if (!alg)
        return problem_quoting(why, STATUS_REFUSED,
                               "this algorithm is not accepted", claimed->alg);
    for (size_t i = 0; i < set->n && n_tried < JWK_TRIED_MAX; i++) {
        const struct jwk *jwk = &set->keys[i];

        if (claimed->kid.data &&
            !(jwk->kid && slice_is(claimed->kid, jwk->kid)))
            continue;
        has_name = true;
        if (!(jwk->algs & alg))
            continue;
        n_tried++;
        if (!verify_with(jwk, alg, claimed))
            continue;
        *mark = jwk->mark;
        return STATUS_OK;
    }
    return !has_name ? problem_quoting(why, STATUS_NOT_FOUND,
                                       "no key has this name", claimed->kid)
           : n_tried ? problem(why, STATUS_REFUSED, "the signature is wrong")
                     : problem_quoting(why, STATUS_REFUSED,
                                       "the key does not verify this algorithm",
                                       claimed->alg);
}

bool
jwk_set_has(const struct jwk_set *set, const struct digest *mark)
{
    for (size_t i = 0; i < set->n; i++)
        if (digest_is_equal(&set->keys[i].mark, mark))
            return true;
    return false;
}

size_t
jwk_set_size(const struct jwk_set *set)
{
    return set->n;
}

bool
jwk_set_has_secret(const struct jwk_set *set)
{
    for (size_t i = 0; i < set->n; i++)
        if (set->keys[i].algs & HS256)
            return true;
    return false;
}
