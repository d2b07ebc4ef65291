#include "broker/access/jwk_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/rsa.h>

#include "broker/access/jose_text.h"
#include "proto/buf.h"
#include "tests/test.h"
#include "tests/unit/access/jwt_maker.h"

/* Numbers of 32 bytes, without a meaning. */
#define X32 "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE"

static enum status
read_set(struct jwk_set **set, const char *text, struct problem *why)
{
    problem_clear(why);
    return jwk_set_read(set, slice_of(text), false, why);
}

/* Fails with that sentence, and makes nothing. */
TEST(refuses_sets_that_are_mistakes)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "the JSON is broken"},
        {"[]", "the JSON is no object"},
        {"{\"keys\":[]} x", "the JSON is broken"},
        {"{\"keys\":[],\"keys\":[]}", "duplicate object key"},
        {"[[[[[[[[[[[[[[[[[[[[[[[", "inside of each other"},
        {"{}", "no array \"keys\""},
        {"{\"keys\":{}}", "no array \"keys\""},
        {"{\"kty\":\"oct\",\"k\":\"" X32 "\"}", "no array \"keys\""},
        {"{\"keys\":[]}", "no key for HS256"},
        {"{\"keys\":[7]}", "key 1: it has no \"kty\""},
        {"{\"keys\":[{\"kid\":\"a\"}]}", "key 1 (\"a\"): it has no \"kty\""},
        {"{\"keys\":[{\"kty\":\"oct\",\"kid\":7}]}",
         "key 1: its \"kid\" is no text"},
        {"{\"keys\":[{\"kty\":\"oct\",\"alg\":7}]}",
         "key 1: its \"alg\" is no text"},
        /* secrets */
        {"{\"keys\":[{\"kty\":\"oct\",\"kid\":\"weak\",\"k\":\"c2VjcmV0\"}]}",
         "key 1 (\"weak\"): a secret of 6 bytes can be guessed"},
        {"{\"keys\":[{\"kty\":\"oct\",\"kid\":\"e\",\"k\":\"\"}]}",
         "key 1 (\"e\"): a secret of 0 bytes"},
        {"{\"keys\":[{\"kty\":\"oct\"}]}", "\"k\" is no base64url"},
        {"{\"keys\":[{\"kty\":\"oct\",\"k\":\"" X32 "=\"}]}",
         "\"k\" is no base64url"},
        {"{\"keys\":[{\"kty\":\"oct\",\"k\":\"a+/" X32 "\"}]}",
         "\"k\" is no base64url"},
        /* private keys, of whatever use */
        {"{\"keys\":[{\"kty\":\"RSA\",\"kid\":\"p\",\"d\":\"AQ\"}]}",
         "key 1 (\"p\"): it is a private key (\"d\")"},
        {"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"d\":\"AQ\"}]}",
         "private key"},
        {"{\"keys\":[{\"kty\":\"RSA\",\"use\":\"enc\",\"dp\":\"AQ\"}]}",
         "private key (\"dp\")"},
        /* RSA */
        {"{\"keys\":[{\"kty\":\"RSA\",\"n\":\"" X32 "\",\"e\":\"AQAB\"}]}",
         "an RSA key of 1 bits"},
        {"{\"keys\":[{\"kty\":\"RSA\",\"n\":\"" X32 "\",\"e\":\"AQ\"}]}",
         "\"e\" is no odd number"},
        {"{\"keys\":[{\"kty\":\"RSA\",\"n\":\"" X32 "\",\"e\":\"AQAA\"}]}",
         "\"e\" is no odd number"},
        {"{\"keys\":[{\"kty\":\"RSA\",\"n\":\"" X32 "\"}]}", "\"e\" is no"},
        {"{\"keys\":[{\"kty\":\"RSA\",\"e\":\"AQAB\"}]}", "\"n\" is no"},
        /* elliptic curves */
        {"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"off\","
         "\"x\":\"" X32 "\",\"y\":\"" X32 "\"}]}",
         "key 1 (\"off\"): OpenSSL does not take it"},
        {"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AQ\",\"y\":"
         "\"" X32 "\"}]}",
         "\"x\" is no base64url of 32 bytes"},
        {"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" X32 "\"}]}",
         "\"y\" is no base64url of 32 bytes"},
        /* nothing that verifies */
        {"{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"" X32
         "\"},{\"kty\":\"RSA\",\"alg\":\"RSA-OAEP\"},{\"kty\":\"EC\","
         "\"crv\":\"P-384\"},{\"kty\":\"oct\",\"alg\":\"HS512\"},"
         "{\"kty\":\"RSA\",\"alg\":\"HS256\"},{\"kty\":\"oct\",\"alg\":"
         "\"none\"},{\"kty\":\"EC\",\"crv\":\"P-256\",\"alg\":\"RS256\"}]}",
         "no key for HS256"},
    };
    struct problem why;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct jwk_set *set = (struct jwk_set *)&why;

        if (!read_set(&set, rows[i].text, &why))
            fail_msg("accepts %s", rows[i].text);
        assert_null(set);
        if (!strstr(why.text, rows[i].why))
            fail_msg("%s: \"%s\", not \"%s\"", rows[i].text, why.text,
                     rows[i].why);
    }
}

TEST(passes_over_keys_for_something_else)
{
    static const char *const others[] = {"\"use\":\"enc\",",
                                         "\"use\":7,",
                                         "\"key_ops\":[\"encrypt\",7],",
                                         "\"key_ops\":\"verify\",",
                                         "\"alg\":\"RSA-OAEP\",",
                                         "\"alg\":\"RS512\",",
                                         "\"alg\":\"HS256\","};
    char *good = maker_jwk(MAKER_EC, "\"use\":\"sig\",\"key_ops\":[\"sign\","
                                     "\"verify\"],\"alg\":\"ES256\",\"x5c\":"
                                     "[\"AA\"],\"more\":{\"d\":1},");

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        char *other = maker_jwk(MAKER_RSA, others[i]), *keys;
        struct jwk_set *set;

        assert_true(asprintf(&keys, "%s,%s", other, good) > 0);
        set = maker_set(keys);
        assert_int_equal(jwk_set_size(set), 1);
        jwk_set_unref(set);
        free(keys);
        free(other);
    }
    free(good);
}

TEST(refuses_weak_rsa)
{
    EVP_PKEY *weak = EVP_RSA_gen(1024);
    struct problem why = {""};
    struct jwk_set *set;
    unsigned char n[128];
    BIGNUM *number = NULL;
    char *n64, *text;

    assert_int_equal(EVP_PKEY_get_bn_param(weak, "n", &number), 1);
    assert_int_equal(BN_bn2bin(number, n), 128);
    n64 = maker_base64url((struct slice){(const char *)n, sizeof(n)});
    assert_true(asprintf(&text,
                         "{\"keys\":[{\"kty\":\"RSA\",\"kid\":\"old\","
                         "\"n\":\"%s\",\"e\":\"AQAB\"}]}",
                         n64) > 0);
    assert_int_equal(read_set(&set, text, &why), STATUS_INVALID);
    assert_string_equal(why.text, "key 1 (\"old\"): an RSA key of 1024 bits: "
                                  "it needs 2048 to 8192");
    free(text);
    free(n64);
    BN_free(number);
    EVP_PKEY_free(weak);
}

/* Every reader of the URL has the secret. */
TEST(refuses_published_secrets)
{
    char *jwk = maker_jwk(MAKER_SECRET, "\"kid\":\"s\","), *text;
    struct problem why = {""};
    struct jwk_set *set;

    assert_true(asprintf(&text, "{\"keys\":[%s]}", jwk) > 0);
    assert_int_equal(jwk_set_read(&set, slice_of(text), true, &why),
                     STATUS_INVALID);
    assert_non_null(strstr(why.text, "key 1 (\"s\"): a secret (\"oct\") that "
                                     "is published"));
    assert_int_equal(jwk_set_read(&set, slice_of(text), false, &why),
                     STATUS_OK);
    jwk_set_unref(set);
    free(text);
    free(jwk);
}

TEST(has_limits)
{
    char *jwk = maker_jwk(MAKER_EC, "");
    struct buf text;
    struct problem why = {""};
    struct jwk_set *set;

    buf_init(&text, SIZE_MAX);
    BUF_ADD(&text, "{\"keys\":[");
    for (int i = 0; i <= JWK_SET_KEYS_MAX; i++)
        buf_add_format(&text, "%s%s", i ? "," : "", jwk);
    BUF_ADD(&text, "]}");
    assert_int_equal(jwk_set_read(&set, buf_slice(&text), false, &why),
                     STATUS_TOO_LARGE);
    assert_non_null(strstr(why.text, "101 keys"));
    while (text.size <= JWK_SET_BYTES_MAX)
        BUF_ADD(&text, "                                ");
    assert_int_equal(jwk_set_read(&set, buf_slice(&text), false, &why),
                     STATUS_TOO_LARGE);
    assert_non_null(strstr(why.text, "262144 bytes"));
    buf_fini(&text);
    free(jwk);
}

/* The examples of RFC 7515, appendices A.1, A.2 and A.3: other hands have
 * signed them. */
TEST(verifies_the_examples_of_the_rfc)
{
    static const struct {
        const char *alg, *key, *head, *signature;
    } rows[] = {
        {"HS256",
         "{\"kty\":\"oct\",\"k\":\"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_"
         "T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow\"}",
         "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9",
         "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"},
        {"RS256",
         "{\"kty\":\"RSA\",\"n\":\"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbj"
         "i9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-"
         "pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXnd"
         "S5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3"
         "qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs"
         "91kzk2PAcDTW9gb54h4FRWyuXpoQ\",\"e\":\"AQAB\"}",
         "eyJhbGciOiJSUzI1NiJ9",
         "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuH"
         "Im4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdi"
         "uB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN"
         "9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2"
         "w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77"
         "Rw"},
        {"ES256",
         "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV"
         "76e8Tus9uPHvRVEU\",\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5"
         "a0\"}",
         "eyJhbGciOiJFUzI1NiJ9",
         "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQ"
         "xfKTUJqPP3-Kg6NU1Q"},
    };

    static const char payload[] =
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxl"
        "LmNvbS9pc19yb290Ijp0cnVlfQ";

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct jwk_set *set = maker_set(rows[i].key);
        unsigned char signature[512];
        struct digest mark;
        struct jwk_claimed claimed = {slice_of(rows[i].alg)};
        struct problem why = {""};
        size_t size;
        char *text;

        assert_true(asprintf(&text, "%s.%s", rows[i].head, payload) > 0);
        assert_true(jose_base64url(signature, sizeof(signature), &size,
                                   slice_of(rows[i].signature)));
        claimed.text = slice_of(text);
        claimed.signature = (struct slice){(const char *)signature, size};
        if (jwk_set_verify(set, &claimed, &mark, &why))
            fail_msg("%s: %s", rows[i].alg, why.text);
        assert_true(jwk_set_has(set, &mark));
        text[0]++;
        assert_int_equal(jwk_set_verify(set, &claimed, &mark, &why),
                         STATUS_REFUSED);
        free(text);
        jwk_set_unref(set);
    }
}

/* Whoever keeps a mark learns from it whether a later set still has the key,
 * for the same use. */
TEST(marks_keys)
{
    char *jwk = maker_jwk(MAKER_RSA, "\"kid\":\"a\",");
    char *renamed = maker_jwk(MAKER_RSA, "\"kid\":\"b\",");
    char *narrow = maker_jwk(MAKER_RSA, "\"kid\":\"a\",\"alg\":\"PS256\",");
    char *other = maker_jwk(MAKER_RSA_2, "\"kid\":\"a\",");
    struct jwk_set *set = maker_set(jwk);
    const char *const rows[] = {jwk, renamed, narrow, other};
    char *signature =
        maker_signature("RS256", maker_key(MAKER_RSA), SLICE("text"));
    unsigned char bytes[512];
    struct digest mark;
    struct jwk_claimed claimed = {SLICE("RS256"), SLICE("a"), SLICE("text")};
    size_t size;

    assert_true(
        jose_base64url(bytes, sizeof(bytes), &size, slice_of(signature)));
    claimed.signature = (struct slice){(const char *)bytes, size};
    assert_int_equal(jwk_set_verify(set, &claimed, &mark, NULL), STATUS_OK);
    for (size_t i = 0; i < 4; i++) {
        struct jwk_set *later = maker_set(rows[i]);

        assert_int_equal(jwk_set_has(later, &mark), i == 0);
        jwk_set_unref(later);
    }
    jwk_set_unref(set);
    free(signature);
    free(jwk);
    free(renamed);
    free(narrow);
    free(other);
}
