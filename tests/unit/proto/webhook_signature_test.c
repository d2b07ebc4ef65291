#include "proto/http/webhook_signature.h"

#include <stdio.h>

#include "tests/test.h"

/* Bytes 00 to 1f, as Standard Webhooks writes a key. */
#define WEBHOOK_SECRET "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

static const struct {
    const char *key; /* as often as `times` */
    size_t times;
    const char *data;
    const char *right[SIGNATURE_METHODS];
} vectors[] = {
    /* RFC 4231 section 4.2; RFC 2202, test case 1 of SHA-1. */
    {"\x0b",
     20,
     "Hi There",
     {"sha1=b617318655057264e28bc0b6fb378c8ef146be00",
      "sha256="
      "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
      "sha384="
      "afd03944d84895626b0825f4ab46907f15f9dadbe4101ec682aa034c7cebc59c"
      "faea9ea9076ede7f4af152e8b2fa9cb6",
      "sha512="
      "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde"
      "daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854"}},
    /* RFC 4231 section 4.3; RFC 2202, test case 2 of SHA-1. */
    {"Jefe",
     1,
     "what do ya want for nothing?",
     {"sha1=effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
      "sha256="
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
      "sha384="
      "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e"
      "8e2240ca5e69e2c78b3239ecfab21649",
      "sha512="
      "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
      "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"}},
    /* RFC 4231 section 4.7: a key longer than a block. */
    {"\xaa",
     131,
     "Test Using Larger Than Block-Size Key - Hash Key First",
     {NULL,
      "sha256="
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
      "sha384="
      "4ece084485813e9088d2c63a041bc5b44f9ef1012a2b588f3cd11f05033ac4c6"
      "0c2ef6ab4030fe8296248df163f44952",
      "sha512="
      "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352"
      "6b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598"}},
    /* RFC 2202, test case 6 of SHA-1: the same with a key of 80 bytes. */
    {"\xaa",
     80,
     "Test Using Larger Than Block-Size Key - Hash Key First",
     {"sha1=aa4ae5e15272d00e95705637ce8a3b55ed402112", NULL, NULL, NULL}},
};

#define N_VECTORS (sizeof(vectors) / sizeof(vectors[0]))

static struct slice
key_of(size_t vector, char key[200])
{
    size_t size = strlen(vectors[vector].key), n = 0;

    for (; n < vectors[vector].times; n++)
        memcpy(key + n * size, vectors[vector].key, size);
    return (struct slice){key, n * size};
}

/* The signature of a new signer. */
static void
assert_signs(enum signature_method method, struct slice secret,
             struct slice body, const char *right)
{
    struct signer *signer = signer_new(method, secret);
    char signature[SIGNATURE_SIZE];

    assert_non_null(signer);
    assert_int_equal(signer_sign(signer, body, signature), 0);
    assert_string_equal(signature, right);
    signer_free(signer);
}

/* W-100 */
TEST(signs_as_the_published_vectors_do)
{
    for (size_t i = 0; i < N_VECTORS; i++)
        for (size_t m = 0; m < SIGNATURE_METHODS; m++) {
            const char *right = vectors[i].right[m];
            char key[200];

            if (right)
                assert_signs((enum signature_method)m, key_of(i, key),
                             slice_of(vectors[i].data), right);
        }
}

/* W-103: signing does not change the signer. */
TEST(signs_one_body_after_the_other_with_the_same_key)
{
    struct signer *signer = signer_new(SIGNATURE_SHA256, SLICE("Jefe"));
    char first[SIGNATURE_SIZE], signature[SIGNATURE_SIZE];

    assert_non_null(signer);
    assert_int_equal(signer_sign(signer, SLICE("Hi There"), first), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(signer_sign(signer,
                                     SLICE("what do ya want for nothing?"),
                                     signature),
                         0);
        assert_string_equal(signature, vectors[1].right[SIGNATURE_SHA256]);
    }
    assert_int_equal(signer_sign(signer, SLICE("Hi There"), signature), 0);
    assert_string_equal(signature, first);
    signer_free(signer);
}

/* W-100: an empty body has a signature, too; by Python's hmac. */
TEST(signs_an_empty_body)
{
    assert_signs(
        SIGNATURE_SHA256, SLICE("secret"), (struct slice){NULL, 0},
        "sha256="
        "f9e66e179b6747ae54108f82f8ade8b3c25d76fd30afde6c395822c530196169");
    signer_free(NULL);
}

/* W-100 */
TEST(knows_the_names_of_the_methods)
{
    static const char *const names[] = {"sha1", "sha256", "sha384", "sha512"};
    static const char *const others[] = {"",    "sha",  "sha224", "SHA256",
                                         "md5", "sha2", "sha-256"};
    enum signature_method method;

    for (size_t i = 0; i < SIGNATURE_METHODS; i++) {
        assert_int_equal(signature_method_of(slice_of(names[i]), &method), 0);
        assert_int_equal(method, i);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(signature_method_of(slice_of(others[i]), &method),
                         STATUS_INVALID);
}

/* W-106; the right ones are from openssl dgst -sha256 -mac HMAC | base64 and
 * from Python's hmac. Keys of each length of padding, and one that is longer
 * than a block, where the padding would count. */
TEST(signs_as_standard_webhooks_asks)
{
    static const char *const rows[][2] = {
        {WEBHOOK_SECRET, "v1,m7o2Huc8wvDJBQq9JocCX9UxYDPmcFOoInfRgt9TDjo="},
        {"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
         "v1,M9RwWztrK7H9h3bJYJIlXDy02JfqK04CnRlzEUWMUAY="},
        {"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGA==",
         "v1,/o4lkrPZ7Mjo30cZsVx1I3j25QecvDg5ZBPuMInaytE="},
        {"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBk=",
         "v1,pJ1+bbXhRFyr18xtu/M/t7441G0ppFg7U3FVFofezl0="},
        {"whsec_"
         "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v"
         "MDEyMzQ1Njc4OTo7PD0+P0A=",
         "v1,5vTUwiMh5auHgJb297eCivpIUcNuVircr8/qT2BS/18="},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        /* The method is that of the other header only. */
        struct signer *signer =
            signer_new((enum signature_method)(i % SIGNATURE_METHODS),
                       slice_of(rows[i][0]));
        char signature[WEBHOOK_SIGNATURE_SIZE];

        assert_non_null(signer);
        assert_true(signer_is_webhook(signer));
        assert_int_equal(signer_sign_webhook(signer, SLICE("msg_5f0c"),
                                             1700000000, SLICE("<urlset/>"),
                                             signature),
                         0);
        assert_string_equal(signature, rows[i][1]);
        signer_free(signer);
    }
}

/* W-106: the other header uses the whole secret as its key. */
TEST(the_key_of_the_hub_signature_keeps_its_prefix)
{
    assert_signs(
        SIGNATURE_SHA256, SLICE(WEBHOOK_SECRET), SLICE("<urlset/>"),
        "sha256="
        "2f2c1e3d8ef4709101dedd7d287888e9b4b37d8c5e8e634a5c7c1fbdf357b87d");
}

/* W-106 */
TEST(a_secret_of_another_format_is_a_secret_alone)
{
    static const char *const secrets[] = {
        "",
        "secret",
        "whsec_",
        "whsec",
        "WHSEC_AAEC",
        "xwhsec_AAEC",
        "whsec_AAE",    /* no padding */
        "whsec_AA=C",   /* padding within */
        "whsec_A===",   /* more than there can be */
        "whsec_====",   /* nothing else */
        "whsec_AAEC\n", /* blanks, which OpenSSL would skip */
        "whsec_ AAEC\n\n\n",
        "whsec_AA-_", /* the other alphabet */
    };

    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
        struct signer *signer =
            signer_new(SIGNATURE_SHA256, slice_of(secrets[i]));
        char signature[SIGNATURE_SIZE], webhook[WEBHOOK_SIGNATURE_SIZE];

        assert_non_null(signer);
        if (signer_is_webhook(signer))
            fail_msg("\"%s\"", secrets[i]);
        assert_int_equal(
            signer_sign_webhook(signer, SLICE("a"), 1, SLICE("b"), webhook),
            STATUS_INVALID);
        assert_int_equal(signer_sign(signer, SLICE("b"), signature), 0);
        signer_free(signer);
    }
}

/* W-104 */
TEST(accepts_every_method_that_the_header_names)
{
    for (size_t i = 0; i < N_VECTORS; i++)
        for (size_t m = 0; m < SIGNATURE_METHODS; m++) {
            const char *right = vectors[i].right[m];
            char key[200];

            if (right)
                assert_int_equal(signature_check(slice_of(right),
                                                 key_of(i, key),
                                                 slice_of(vectors[i].data)),
                                 0);
        }
    assert_int_equal(
        signature_check(SLICE(" sha1=EFFCDF6AE5EB2FA2D27416D5F184DF9C259A7C79"),
                        SLICE("Jefe"), SLICE("what do ya want for nothing?")),
        0);
}

/* W-104 */
TEST(refuses_what_is_no_signature)
{
    static const char *const rows[] = {
        "",
        " \t",
        "md5=00",
        "SHA1=effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
        "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
        "=effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
        "sha1",
        "sha1=",
        "sha1=effcdf6ae5eb2fa2d27416d5f184df9c259a7c7",
        "sha1=effcdf6ae5eb2fa2d27416d5f184df9c259a7c7900",
        "sha1=gffcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
        "sha256=effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(signature_check(slice_of(rows[i]), SLICE("Jefe"),
                                         SLICE("what do ya want for nothing?")),
                         STATUS_MALFORMED);
    assert_int_equal(
        signature_check((struct slice){NULL, 0}, SLICE("Jefe"), SLICE("a")),
        STATUS_MALFORMED);
}

/* W-104: each of its digits counts, and the secret, and the body. */
TEST(refuses_a_wrong_signature)
{
    struct slice secret = SLICE("Jefe");
    struct slice body = SLICE("what do ya want for nothing?");

    for (size_t m = 0; m < SIGNATURE_METHODS; m++) {
        char text[SIGNATURE_SIZE];
        struct slice header;

        strcpy(text, vectors[1].right[m]);
        header = slice_of(text);
        assert_int_equal(signature_check(header, SLICE("Jeff"), body),
                         STATUS_INVALID);
        body.size--;
        assert_int_equal(signature_check(header, secret, body), STATUS_INVALID);
        body.size++;
        for (char *p = strchr(text, '=') + 1; *p; p++) {
            char old = *p;

            *p = old == '0' ? '1' : '0';
            assert_int_equal(signature_check(header, secret, body),
                             STATUS_INVALID);
            *p = old;
        }
        assert_int_equal(signature_check(header, secret, body), 0);
    }
}
