#include "broker/access/jwt.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/pem.h>
#include <openssl/x509.h>

#include "proto/buf.h"
#include "tests/test.h"
#include "tests/unit/access/jwt_maker.h"

#define NOW    1800000000
#define NOW_US ((int64_t)NOW * 1000000)

/* Claims of every good token. */
#define BASE "\"iss\":\"https://idp.example\",\"aud\":\"tidings\""
#define GOOD BASE ",\"exp\":1800003600"

#define PUBLIC_URL "https://push.example/base"

/* A key of each type. */
static struct jwk_set *
all_keys(void)
{
    static const char *const members[] = {"\"kid\":\"rsa\",", "\"kid\":\"ec\",",
                                          "\"kid\":\"secret\","};
    struct buf keys;
    struct jwk_set *set;

    buf_init(&keys, SIZE_MAX);
    for (unsigned i = 0; i < 3; i++) {
        char *jwk = maker_jwk((enum maker_key)i, members[i]);

        buf_add_format(&keys, "%s%s", i ? "," : "", jwk);
        free(jwk);
    }
    buf_add(&keys, "", 1);
    set = maker_set(keys.data);
    buf_fini(&keys);
    return set;
}

static struct jwt_terms terms = {.issuer = "https://idp.example",
                                 .audience = "tidings",
                                 .public_url = PUBLIC_URL};

static int
make_keys(void **state)
{
    (void)state;
    terms.keys = all_keys();
    return 0;
}

static int
free_keys(void **state)
{
    (void)state;
    jwk_set_unref((struct jwk_set *)terms.keys);
    terms.keys = NULL;
    return 0;
}

FIXTURE(make_keys, free_keys);

static enum status
verify(struct jwt *jwt, const char *token, struct problem *why)
{
    problem_clear(why);
    return jwt_verify(jwt, slice_of(token), &terms, NOW_US, why);
}

/* Asserts that the verifier refuses the token for that reason. */
static void
assert_refused(const char *token, const char *reason)
{
    struct problem why;
    struct jwt jwt;

    if (!verify(&jwt, token, &why))
        fail_msg("accepts %s", token);
    if (!strstr(why.text, reason))
        fail_msg("%s: \"%s\", not \"%s\"", token, why.text, reason);
}

static char *
good_token(const char *claims)
{
    return maker_token("ES256", maker_key(MAKER_EC),
                       "{\"alg\":\"ES256\",\"kid\":\"ec\"}", claims);
}

TEST(accepts_each_algorithm_of_its_key)
{
    static const struct {
        const char *alg, *header;
        enum maker_key key;
    } rows[] = {
        {"HS256", "{\"alg\":\"HS256\",\"kid\":\"secret\"}", MAKER_SECRET},
        {"RS256", "{\"alg\":\"RS256\",\"kid\":\"rsa\"}", MAKER_RSA},
        {"PS256", "{\"alg\":\"PS256\",\"kid\":\"rsa\"}", MAKER_RSA},
        {"ES256", "{\"alg\":\"ES256\",\"kid\":\"ec\"}", MAKER_EC},
        /* no name: the only key of the algorithm */
        {"HS256", "{\"alg\":\"HS256\"}", MAKER_SECRET},
        {"RS256", "{\"alg\":\"RS256\"}", MAKER_RSA},
        {"PS256", "{\"alg\":\"PS256\"}", MAKER_RSA},
        {"ES256", "{\"alg\":\"ES256\"}", MAKER_EC},
        {"ES256", "{\"typ\":\"JWT\",\"alg\":\"ES256\",\"x\":{\"y\":[1]}}",
         MAKER_EC},
        {"ES256", "{\"typ\":\"at+jwt\",\"alg\":\"ES256\"}", MAKER_EC},
        {"ES256", "{\"typ\":\"application/AT+JWT\",\"alg\":\"ES256\"}",
         MAKER_EC},
        /* where keys are said to be, nobody looks */
        {"ES256",
         "{\"alg\":\"ES256\",\"jku\":\"http://127.0.0.1:1/\",\"x5u\":\"/etc/"
         "passwd\",\"jwk\":{\"kty\":\"oct\",\"k\":\"\"},\"x5c\":[\"AA\"]}",
         MAKER_EC},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *token = maker_token(rows[i].alg, maker_key(rows[i].key),
                                  rows[i].header, "{" GOOD "}");
        struct problem why;
        struct jwt jwt;

        if (verify(&jwt, token, &why))
            fail_msg("%s: %s", rows[i].header, why.text);
        assert_int_equal(jwt.ends_us, NOW_US + INT64_C(3600000000));
        assert_true(jwk_set_has(terms.keys, &jwt.key));
        assert_int_equal(rights_include(&jwt.rights, RIGHTS_ALL, SLICE("news")),
                         false);
        free(token);
    }
}

/* The signature is good, except where another algorithm than the header's was
 * signed with. */
TEST(refuses_headers)
{
    static const struct {
        const char *alg;
        enum maker_key key;
        const char *header, *why;
    } rows[] = {
        {"HS256", MAKER_SECRET, "{}", "names no algorithm"},
        {"HS256", MAKER_SECRET, "{\"alg\":null}", "names no algorithm"},
        {"HS256", MAKER_SECRET, "{\"alg\":[\"HS256\"]}", "names no algorithm"},
        {"HS256", MAKER_SECRET, "{\"alg\":\"none\"}", "not accepted: \"none\""},
        {"HS256", MAKER_SECRET, "{\"alg\":\"None\"}", "not accepted: \"None\""},
        {"HS256", MAKER_SECRET, "{\"alg\":\"NONE\"}", "not accepted: \"NONE\""},
        {"HS256", MAKER_SECRET, "{\"alg\":\"nOnE\"}", "not accepted: \"nOnE\""},
        {"HS256", MAKER_SECRET, "{\"alg\":\"\"}", "not accepted"},
        {"HS256", MAKER_SECRET, "{\"alg\":\"hs256\"}", "not accepted"},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS512\"}", "not accepted"},
        {"RS256", MAKER_RSA, "{\"alg\":\"RS384\"}", "not accepted"},
        /* one for another */
        {"RS256", MAKER_RSA, "{\"alg\":\"PS256\",\"kid\":\"rsa\"}",
         "the signature is wrong"},
        {"PS256", MAKER_RSA, "{\"alg\":\"RS256\",\"kid\":\"rsa\"}",
         "the signature is wrong"},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"kid\":\"rsa\"}",
         "does not verify this algorithm: \"HS256\""},
        {"RS256", MAKER_RSA, "{\"alg\":\"RS256\",\"kid\":\"secret\"}",
         "does not verify this algorithm: \"RS256\""},
        {"ES256", MAKER_EC, "{\"alg\":\"ES256\",\"kid\":\"rsa\"}",
         "does not verify this algorithm: \"ES256\""},
        {"ES256", MAKER_EC, "{\"alg\":\"RS256\",\"kid\":\"ec\"}",
         "does not verify this algorithm: \"RS256\""},
        {"ES256-DER", MAKER_EC, "{\"alg\":\"ES256\"}",
         "the signature is wrong"},
        {"RS256", MAKER_RSA_2, "{\"alg\":\"RS256\",\"kid\":\"rsa\"}",
         "the signature is wrong"},
        /* names are only compared */
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"kid\":\"../secret\"}",
         "no key has this name"},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"kid\":\"/dev/null\"}",
         "no key has this name"},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"kid\":\"SECRET\"}",
         "no key has this name"},
        {"HS256", MAKER_SECRET,
         "{\"alg\":\"HS256\",\"kid\":\"secret' OR '1'='1\"}",
         "no key has this name"},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"kid\":\"\"}",
         "no key has this name"},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"kid\":\"secret\\u0000\"}",
         "the header: the JSON is broken"},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"kid\":null}",
         "\"kid\" is no text"},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"kid\":[\"secret\"]}",
         "\"kid\" is no text"},
        /* another meaning */
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"crit\":[\"exp\"]}",
         "has \"crit\""},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"crit\":null}",
         "has \"crit\""},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"b64\":false}",
         "has \"b64\""},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"zip\":\"DEF\"}",
         "has \"zip\""},
        {"HS256", MAKER_SECRET, "{\"alg\":\"dir\",\"enc\":\"A128GCM\"}",
         "has \"enc\""},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"cty\":\"JWT\"}",
         "has \"cty\""},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"typ\":\"dpop+jwt\"}",
         "a token of another type: \"dpop+jwt\""},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"typ\":7}",
         "a token of another type"},
        /* one text, two meanings */
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"alg\":\"none\"}",
         "duplicate object key"},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"\\u0061lg\":\"none\"}",
         "duplicate object key"},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\"}{}", "the JSON is broken"},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\"} x", "the JSON is broken"},
        {"HS256", MAKER_SECRET, "\xef\xbb\xbf{\"alg\":\"HS256\"}",
         "the JSON is broken"},
        {"HS256", MAKER_SECRET, "{\"alg\":\"HS256\",\"x\":\"\xff\"}",
         "the JSON is broken"},
        {"HS256", MAKER_SECRET, "[\"HS256\"]", "no object"},
        {"HS256", MAKER_SECRET, "", "the JSON is broken"},
        {"HS256", MAKER_SECRET,
         "{\"alg\":\"HS256\",\"x\":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]}",
         "inside of each other"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *token = maker_token(rows[i].alg, maker_key(rows[i].key),
                                  rows[i].header, "{" GOOD "}");

        assert_refused(token, rows[i].why);
        free(token);
    }
}

/* What anybody can read of an RSA key, in each of its forms, is the secret of
 * nothing. */
TEST(refuses_a_public_key_as_a_secret)
{
    unsigned char *der = NULL, n[256];
    BIGNUM *number = NULL;
    BIO *pem = BIO_new(BIO_s_mem());
    char *pem_text, *jwk = maker_jwk(MAKER_RSA, "");
    struct slice forms[4];

    assert_int_equal(PEM_write_bio_PUBKEY(pem, maker_key(MAKER_RSA)), 1);
    forms[0].size = (size_t)BIO_get_mem_data(pem, &pem_text);
    forms[0].data = pem_text;
    forms[1].size = (size_t)i2d_PUBKEY(maker_key(MAKER_RSA), &der);
    forms[1].data = (char *)der;
    assert_int_equal(EVP_PKEY_get_bn_param(maker_key(MAKER_RSA), "n", &number),
                     1);
    forms[2] = (struct slice){(char *)n, (size_t)BN_bn2bin(number, n)};
    forms[3] = slice_of(jwk);
    for (size_t i = 0; i < 4; i++) {
        EVP_PKEY *secret = EVP_PKEY_new_raw_private_key(
            EVP_PKEY_HMAC, NULL, (const unsigned char *)forms[i].data,
            forms[i].size);
        char *named =
            maker_token("HS256", secret, "{\"alg\":\"HS256\",\"kid\":\"rsa\"}",
                        "{" GOOD "}");
        char *unnamed =
            maker_token("HS256", secret, "{\"alg\":\"HS256\"}", "{" GOOD "}");

        assert_refused(named, "does not verify this algorithm");
        assert_refused(unnamed, "the signature is wrong");
        free(named);
        free(unnamed);
        EVP_PKEY_free(secret);
    }
    BN_free(number);
    BIO_free(pem);
    OPENSSL_free(der);
    free(jwk);
}

/* Each `claims` is signed well. */
TEST(refuses_claims)
{
    static const struct {
        const char *claims, *why;
    } rows[] = {
        {"", "the claims: the JSON is broken"},
        {"[]", "no object"},
        {"{" GOOD "} {}", "the JSON is broken"},
        {"{" GOOD ",\"exp\":1800003601}", "duplicate object key"},
        {"{" GOOD ",\"tidings\":{\"publish\":[],\"publish\":[\"*\"]}}",
         "duplicate object key"},
        /* times */
        {"{" BASE "}", "it has no end"},
        {"{" BASE ",\"exp\":null}", "\"exp\" is no number"},
        {"{" BASE ",\"exp\":\"1800003600\"}", "\"exp\" is no number"},
        {"{" BASE ",\"exp\":true}", "\"exp\" is no number"},
        {"{" BASE ",\"exp\":[1800003600]}", "\"exp\" is no number"},
        {"{" BASE ",\"exp\":-1}", "\"exp\" is no number"},
        {"{" BASE ",\"exp\":1e13}", "\"exp\" is no number"},
        {"{" BASE ",\"exp\":1e999}", "the JSON is broken"},
        {"{" BASE ",\"exp\":99999999999999999999}", "the JSON is broken"},
        {"{" BASE ",\"exp\":NaN}", "the JSON is broken"},
        {"{" BASE ",\"exp\":Infinity}", "the JSON is broken"},
        {"{" BASE ",\"exp\":0}", "it has expired"},
        {"{" BASE ",\"exp\":1799999999}", "it has expired"},
        {"{" BASE ",\"exp\":1800000000}", "it has expired"},
        {"{" BASE ",\"exp\":1800003600000}", "\"exp\" is no number"},
        {"{" BASE ",\"exp\":2200000000}", "more than ten years"},
        {"{" GOOD ",\"nbf\":1800000061}", "\"nbf\" is in the future"},
        {"{" GOOD ",\"nbf\":\"1800000000\"}", "\"nbf\" is no number"},
        {"{" GOOD ",\"iat\":1800000061}", "\"iat\" is in the future"},
        {"{" GOOD ",\"iat\":{}}", "\"iat\" is no number"},
        /* for whom, and by whom */
        {"{\"aud\":\"tidings\",\"exp\":1800003600}", "another issuer"},
        {"{\"iss\":\"https://idp.example/\",\"aud\":\"tidings\",\"exp\":"
         "1800003600}",
         "another issuer (\"iss\"): \"https://idp.example/\""},
        {"{\"iss\":[\"https://idp.example\"],\"aud\":\"tidings\",\"exp\":"
         "1800003600}",
         "another issuer"},
        {"{\"iss\":\"https://idp.example\",\"exp\":1800003600}",
         "another audience"},
        {"{\"iss\":\"https://idp.example\",\"exp\":1800003600,\"aud\":\"\"}",
         "another audience"},
        {"{\"iss\":\"https://idp.example\",\"exp\":1800003600,\"aud\":"
         "\"Tidings\"}",
         "another audience"},
        {"{\"iss\":\"https://idp.example\",\"exp\":1800003600,\"aud\":[]}",
         "another audience"},
        {"{\"iss\":\"https://idp.example\",\"exp\":1800003600,\"aud\":[7,"
         "[\"tidings\"],{\"tidings\":1},\"tidings2\"]}",
         "another audience"},
        {"{" GOOD ",\"sub\":7}", "\"sub\" is no text"},
        /* rights */
        {"{" GOOD ",\"tidings\":[]}", "\"tidings\" is no object"},
        {"{" GOOD ",\"mercure\":\"*\"}", "\"mercure\" is no object"},
        {"{" GOOD ",\"tidings\":{\"publish\":\"*\"}}",
         "\"tidings\": \"publish\" is no array"},
        {"{" GOOD ",\"tidings\":{\"manage\":[7]}}",
         "\"manage\" has a value that is no text"},
        {"{" GOOD ",\"tidings\":{\"publish\":[\"*\",\"!a,b\"]}}", "no pattern"},
        {"{" GOOD ",\"tidings\":{\"publish\":[\"*\",\"! a\"]}}", "no pattern"},
        {"{" GOOD ",\"tidings\":{\"publish\":[\"*\",\"\"]}}", "no pattern"},
        {"{" GOOD ",\"tidings\":{\"publish\":[\"*\",\"!Ä\"]}}", "no pattern"},
        {"{" GOOD ",\"tidings\":{\"observe\":\"yes\"}}", "\"observe\""},
        {"{" GOOD ",\"mercure\":{\"subscribe\":[null]}}",
         "\"mercure\": \"subscribe\" has a value"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *token = good_token(rows[i].claims);

        assert_refused(token, rows[i].why);
        free(token);
    }
}

TEST(accepts_claims)
{
    static const struct {
        const char *claims;
        int64_t lasts_us;
    } rows[] = {
        {"{" BASE ",\"exp\":1800000001}", 1000000},
        {"{" BASE ",\"exp\":1800000000.5}", 500000},
        {"{" BASE ",\"exp\":1.8000036e9}", INT64_C(3600000000)},
        {"{" GOOD ",\"nbf\":1800000060,\"iat\":1800000060}",
         INT64_C(3600000000)},
        {"{" GOOD ",\"iat\":0}", INT64_C(3600000000)},
        {"{\"iss\":\"https://idp.example\",\"exp\":1800003600,\"aud\":[7,"
         "\"other\",\"tidings\"],\"admin\":true,\"scope\":\"admin\"}",
         INT64_C(3600000000)},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *token = good_token(rows[i].claims);
        struct problem why;
        struct jwt jwt;

        if (verify(&jwt, token, &why))
            fail_msg("%s: %s", rows[i].claims, why.text);
        assert_int_equal(jwt.ends_us, NOW_US + rows[i].lasts_us);
        free(token);
    }
}

/* No text but the one that was signed is the token. */
TEST(refuses_other_texts_of_the_same_token)
{
    char *token = good_token("{" GOOD ",\"sub\":\"a\"}"), *other;
    size_t size = strlen(token);
    struct problem why;
    struct jwt jwt;

    assert_int_equal(verify(&jwt, token, &why), STATUS_OK);
    for (size_t i = 0; i < size; i++) {
        static const char signs[] = "Aa_-9=+/.\n \xff";

        for (size_t j = 0; j < sizeof(signs) - 1; j++) {
            char was = token[i];

            if (was == signs[j])
                continue;
            token[i] = signs[j];
            if (!verify(&jwt, token, &why))
                fail_msg("accepts byte %zu as '%c'", i, signs[j]);
            token[i] = was;
        }
    }
    for (size_t i = 0; i < size; i++)
        assert_int_not_equal(
            jwt_verify(&jwt, (struct slice){token, i}, &terms, NOW_US, &why),
            STATUS_OK);
    for (const char *end = "A=.\n \t"; *end; end++) {
        assert_true(asprintf(&other, "%s%c", token, *end) > 0);
        assert_refused(other, "");
        free(other);
        assert_true(asprintf(&other, "%c%s", *end, token) > 0);
        assert_refused(other, "");
        free(other);
    }
    assert_int_not_equal(
        jwt_verify(&jwt, (struct slice){token, size + 1}, &terms, NOW_US, &why),
        STATUS_OK);
    free(token);
}

/* The last character of 64 bytes has four bits that mean nothing. */
TEST(refuses_stray_bits)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop"
                                   "qrstuvwxyz0123456789-_";
    char *token = good_token("{" GOOD "}");
    char *last = token + strlen(token) - 1;
    struct problem why;
    struct jwt jwt;

    assert_int_equal(verify(&jwt, token, &why), STATUS_OK);
    for (int i = 1; i < 16; i++) {
        *last = alphabet[(strchr(alphabet, *last) - alphabet) / 16 * 16 + i];
        assert_refused(token, "the signature is no base64url");
    }
    free(token);
}

static void
assert_signature_refused(const char *alg, const char *bytes, size_t size)
{
    char *head, *body = maker_base64url(slice_of("{" GOOD "}"));
    char *signature = maker_base64url((struct slice){bytes, size});
    char *header, *token;

    assert_true(asprintf(&header, "{\"alg\":\"%s\"}", alg) > 0);
    head = maker_base64url(slice_of(header));
    assert_true(asprintf(&token, "%s.%s.%s", head, body, signature) > 0);
    assert_refused(token, "the signature is");
    free(header);
    free(head);
    free(body);
    free(signature);
    free(token);
}

TEST(refuses_signatures_that_are_none)
{
    static const char *const algs[] = {"HS256", "RS256", "PS256", "ES256"};
    static const size_t sizes[] = {0,   1,   31,  32,  33,   63,   64,  65,
                                   255, 256, 257, 512, 1024, 1025, 2000};
    static const int bytes[] = {0, 1, 0xff};
    char signature[2000];

    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++)
            for (size_t k = 0; k < 3; k++) {
                memset(signature, bytes[k], sizeof(signature));
                assert_signature_refused(algs[i], signature, sizes[j]);
            }
    /* r or s alone is zero, or the order of the curve */
    memset(signature, 0, sizeof(signature));
    signature[31] = 1;
    assert_signature_refused("ES256", signature, 64);
    memset(signature, 0, sizeof(signature));
    signature[63] = 1;
    assert_signature_refused("ES256", signature, 64);
}

TEST(refuses_forms)
{
    static const struct {
        const char *token, *why;
    } rows[] = {
        {"", "no three parts"},
        {"a", "no three parts"},
        {"a.b", "no three parts"},
        {"a.b.c.d", "no three parts"},
        {"a.b.c.d.e", "no three parts"}, /* a JWE */
        {"..", "the header: the JSON is broken"},
        {"e30..", "names no algorithm"},
        {"e30=.e30.", "the header is no base64url"},
        {"e.e30.", "the header is no base64url"},
        {"e30.e30.a", "the signature is no base64url"},
        {"td_0123456789ab_0123", "no three parts"},
        /* alg none, without a signature */
        {"eyJhbGciOiJub25lIn0.e30.", "not accepted: \"none\""},
    };
    struct buf huge;
    struct problem why;
    struct jwt jwt;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_refused(rows[i].token, rows[i].why);
    buf_init(&huge, SIZE_MAX);
    while (huge.size < JWT_BYTES_MAX)
        BUF_ADD(&huge, "W1tb");
    BUF_ADD(&huge, ".e30.");
    assert_int_equal(jwt_verify(&jwt, buf_slice(&huge), &terms, NOW_US, &why),
                     STATUS_TOO_LARGE);
    huge.size = JWT_BYTES_MAX - 8;
    BUF_ADD(&huge, ".e30.");
    assert_int_equal(jwt_verify(&jwt, buf_slice(&huge), &terms, NOW_US, &why),
                     STATUS_MALFORMED);
    assert_non_null(strstr(why.text, "inside of each other"));
    buf_fini(&huge);
}

/* Only then may a later set have it. */
TEST(tells_an_unknown_key)
{
    char *token =
        maker_token("HS256", maker_key(MAKER_SECRET),
                    "{\"alg\":\"HS256\",\"kid\":\"new\"}", "{" GOOD "}");
    struct problem why;
    struct jwt jwt;

    assert_int_equal(verify(&jwt, token, &why), STATUS_NOT_FOUND);
    free(token);
    token = maker_token("HS256", maker_key(MAKER_SECRET),
                        "{\"alg\":\"HS256\",\"kid\":\"rsa\"}", "{" GOOD "}");
    assert_int_equal(verify(&jwt, token, &why), STATUS_REFUSED);
    free(token);
}

/* No subject can take the name of another, of a token, or of somebody at
 * another provider; and each can be printed. */
TEST(names_holders)
{
#define X64 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

    static const struct {
        const char *sub;
        const char *name; /* behind the hash of the issuer; NULL: a hash */
    } rows[] = {
        {"", ":"},
        {",\"sub\":\"\"", ":"},
        {",\"sub\":\"alice\"", ":alice"},
        {",\"sub\":\"auth0|abc:def\"", ":auth0|abc:def"},
        {",\"sub\":\"" X64 X64 "\"", ":" X64 X64},
        {",\"sub\":\"" X64 X64 "x\"", NULL},
        {",\"sub\":\"" X64 X64 "y\"", NULL},
        {",\"sub\":\"=d45f\"", NULL},
        {",\"sub\":\"a b\"", NULL},
        {",\"sub\":\"a\\nb\"", NULL},
        {",\"sub\":\"\xc3\xa4\"", NULL},
        {",\"sub\":\"\\u007f\"", NULL},
    };

    enum { N = sizeof(rows) / sizeof(rows[0]) };
    static struct jwt jwts[N];
    size_t of_issuer = strlen("jwt:0123456789abcdef");

    for (size_t i = 0; i < N; i++) {
        struct problem why;
        char claims[512];
        char *token;

        snprintf(claims, sizeof(claims), "{" GOOD "%s}", rows[i].sub);
        token = good_token(claims);
        if (verify(&jwts[i], token, &why))
            fail_msg("%s: %s", claims, why.text);
        free(token);
        assert_memory_equal(jwts[i].name, jwts[0].name, of_issuer + 1);
        if (rows[i].name)
            assert_string_equal(jwts[i].name + of_issuer, rows[i].name);
        else
            assert_int_equal(strlen(jwts[i].name + of_issuer), 66);
        for (size_t j = i < 2 ? i : 0; j < i; j++)
            assert_string_not_equal(jwts[i].name, jwts[j].name);
    }
}

/* Rights, as the sets "news" and "blog" see them: p, s and m, in capitals for
 * "blog". */
static void
list_rights(char *to, const struct rights *rights)
{
    static const char letters[] = "psm";

    for (unsigned i = 0; i < 3; i++) {
        if (rights_include(rights, 1U << i, SLICE("news")))
            *to++ = letters[i];
        if (rights_include(rights, 1U << i, SLICE("blog")))
            *to++ = (char)(letters[i] - 32);
    }
    if (rights->observe)
        *to++ = 'o';
    if (rights->admin)
        *to++ = 'A';
    *to = '\0';
}

TEST(gives_rights)
{
    static const struct {
        const char *claims, *rights;
    } rows[] = {
        {"\"x\":1", ""},
        {"\"tidings\":{}", ""},
        {"\"tidings\":{\"publish\":[],\"subscribe\":[],\"manage\":[]}", ""},
        {"\"tidings\":{\"publish\":[\"news\"]}", "p"},
        {"\"tidings\":{\"publish\":[\"ne*\"],\"subscribe\":[\"*\"]}", "psS"},
        {"\"tidings\":{\"subscribe\":[\"*\",\"!news\"]}", "S"},
        {"\"tidings\":{\"manage\":[\"news\",\"blog\"]}", "mM"},
        {"\"tidings\":{\"observe\":true}", "o"},
        {"\"tidings\":{\"observe\":false}", ""},
        /* nobody becomes an administrator, nor by another name */
        {"\"tidings\":{\"admin\":true,\"rights\":[\"*\"],\"Publish\":[\"*\"]}",
         ""},
        {"\"publish\":[\"*\"],\"admin\":true,\"roles\":[\"admin\"]", ""},
        {"\"mercure\":{}", ""},
        {"\"mercure\":{\"publish\":[\"*\"]}", "pP"},
        {"\"mercure\":{\"subscribe\":[\"*\"]}", "sS"},
        {"\"mercure\":{\"publish\":[\"news\"],\"subscribe\":[\"blog\"]}", "pS"},
        {"\"mercure\":{\"manage\":[\"*\"],\"observe\":true,\"payload\":{}}",
         ""},
        {"\"mercure\":{\"subscribe\":[\"" PUBLIC_URL "/sets/news\"]}", "s"},
        {"\"mercure\":{\"subscribe\":[\"" PUBLIC_URL "/sets/news/\"]}", "s"},
        {"\"mercure\":{\"subscribe\":[\"/sets/news\"]}", "s"},
        {"\"mercure\":{\"subscribe\":[\"/sets/news/stream\"]}", "s"},
        {"\"mercure\":{\"subscribe\":[\"/sets/news/changes\"]}", "s"},
        {"\"mercure\":{\"subscribe\":[\"/sets/news/notifications\"]}", "s"},
        {"\"mercure\":{\"subscribe\":[\"/sets/{name}\"]}", "sS"},
        {"\"mercure\":{\"subscribe\":[\"" PUBLIC_URL "/sets/{set}/stream\"]}",
         "sS"},
        /* of another hub, another form, or of a part of a set */
        {"\"mercure\":{\"subscribe\":[\"https://push.example/sets/news\"]}",
         ""},
        {"\"mercure\":{\"subscribe\":[\"https://other.example/sets/news\","
         "\"" PUBLIC_URL ".evil/sets/news\",\"x" PUBLIC_URL "/sets/news\"]}",
         ""},
        {"\"mercure\":{\"subscribe\":[\"ne*\",\"**\",\"!news\",\"\",\"{x}\"]}",
         ""},
        {"\"mercure\":{\"subscribe\":[\"/sets/ne*\",\"/sets/\",\"/sets/*\","
         "\"/sets\",\"sets/news\",\"//sets/news\"]}",
         ""},
        {"\"mercure\":{\"subscribe\":[\"/sets/{+x}\",\"/sets/{x*}\",\"/sets/"
         "{x,y}\",\"/sets/{}\",\"/sets/{\",\"/sets/n{x}\",\"/sets/{x}s\"]}",
         ""},
        {"\"mercure\":{\"subscribe\":[\"/sets/news/changes/1.xml\",\"/sets/"
         "news/streams\",\"/sets/news?x\",\"/sets/news/../blog\"]}",
         ""},
        /* both */
        {"\"tidings\":{\"publish\":[\"news\"]},\"mercure\":{\"publish\":["
         "\"blog\"]}",
         "pP"},
        {"\"tidings\":{\"publish\":[\"!blog\"]},\"mercure\":{\"publish\":["
         "\"*\"]}",
         "p"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char claims[512], rights[16];
        struct problem why;
        struct jwt jwt;
        char *token;

        snprintf(claims, sizeof(claims), "{" GOOD ",%s}", rows[i].claims);
        token = good_token(claims);
        if (verify(&jwt, token, &why))
            fail_msg("%s: %s", claims, why.text);
        list_rights(rights, &jwt.rights);
        if (strcmp(rights, rows[i].rights))
            fail_msg("%s: \"%s\", not \"%s\"", claims, rights, rows[i].rights);
        free(token);
    }
}

/* A list that is cut might lose a denial. */
TEST(refuses_more_patterns_than_fit)
{
    struct buf claims;
    char *token;

    buf_init(&claims, SIZE_MAX);
    BUF_ADD(&claims, "{" GOOD ",\"tidings\":{\"publish\":[\"*\"");
    for (int i = 0; i < 200; i++)
        buf_add_format(&claims, ",\"!secret%d\"", i);
    BUF_ADD(&claims, "]}}");
    buf_add(&claims, "", 1);
    token = good_token(claims.data);
    assert_refused(token, "more than");
    free(token);
    buf_fini(&claims);
}

/* Several keys without names, as while a provider changes its key: a few are
 * tried. */
TEST(tries_few_keys)
{
    char *ec = maker_jwk(MAKER_EC, ""), *secret = maker_jwk(MAKER_SECRET, "");
    char *rsa = maker_jwk(MAKER_RSA, ""), *rsa_2 = maker_jwk(MAKER_RSA_2, "");
    char *token = maker_token("RS256", maker_key(MAKER_RSA),
                              "{\"alg\":\"RS256\"}", "{" GOOD "}");
    const struct jwk_set *all = terms.keys;
    struct problem why;
    struct jwt jwt;
    char *keys;

    for (int i = 0; i < 2; i++) {
        assert_true(asprintf(&keys, "%s,%s,%s,%s,%s,%s%s%s", ec, secret, rsa_2,
                             rsa_2, rsa_2, i ? rsa_2 : rsa, ",", rsa) > 0);
        terms.keys = maker_set(keys);
        assert_int_equal(verify(&jwt, token, &why),
                         i ? STATUS_REFUSED : STATUS_OK);
        jwk_set_unref((struct jwk_set *)terms.keys);
        free(keys);
    }
    terms.keys = all;
    free(ec);
    free(secret);
    free(rsa);
    free(rsa_2);
    free(token);
}

/* libjose would take the first row: "RS256" is behind "PS256". */
TEST(keeps_to_the_algorithm_of_the_key)
{
    static const char *const algs[] = {"RS256", "PS256"};
    const struct jwk_set *all = terms.keys;

    for (int i = 0; i < 4; i++) {
        const char *of_key = algs[1 - i / 2], *of_token = algs[i % 2];
        char members[64], header[64], *jwk, *token;
        struct problem why;
        struct jwt jwt;

        snprintf(members, sizeof(members), "\"alg\":\"%s\",", of_key);
        snprintf(header, sizeof(header), "{\"alg\":\"%s\"}", of_token);
        jwk = maker_jwk(MAKER_RSA, members);
        token =
            maker_token(of_token, maker_key(MAKER_RSA), header, "{" GOOD "}");
        terms.keys = maker_set(jwk);
        assert_int_equal(verify(&jwt, token, &why),
                         of_key == of_token ? STATUS_OK : STATUS_REFUSED);
        jwk_set_unref((struct jwk_set *)terms.keys);
        free(jwk);
        free(token);
    }
    terms.keys = all;
}
