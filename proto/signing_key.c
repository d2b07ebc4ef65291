#include "proto/signing_key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "proto/base64.h"

struct signing_key {
    EVP_PKEY *pair; /* OpenSSL wipes its secret */
    unsigned char public[SIGNING_KEY_SIZE];
};

bool
signing_key_make(unsigned char secret[SIGNING_KEY_SIZE])
{
    EVP_PKEY *pair = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    size_t size = SIGNING_KEY_SIZE;
    bool is_made =
        pair && EVP_PKEY_get_raw_private_key(pair, secret, &size) == 1;

    EVP_PKEY_free(pair);
    return is_made;
}

bool
signing_key_make_text(char text[SIGNING_KEY_TEXT])
{
    unsigned char secret[SIGNING_KEY_SIZE];
    bool is_made = signing_key_make(secret);

    if (is_made)
        EVP_EncodeBlock((unsigned char *)text, secret, sizeof(secret));
    OPENSSL_cleanse(secret, sizeof(secret));
    return is_made;
}

enum status
signing_key_read(struct signing_key **key, struct slice text,
                 struct problem *why)
{
    unsigned char secret[SIGNING_KEY_SIZE + 4];
    bool is_secret = BASE64_ROOM(text) <= sizeof(secret) &&
                     base64_decode(text, secret) == SIGNING_KEY_SIZE;

    *key = is_secret ? signing_key_new(secret) : NULL;
    OPENSSL_cleanse(secret, sizeof(secret));
    return !is_secret ? STATUS_INVALID : *key ? STATUS_OK : problem_memory(why);
}

struct signing_key *
signing_key_new(const unsigned char secret[SIGNING_KEY_SIZE])
{
    struct signing_key *key = memory_new(1, sizeof(*key));
    size_t size = SIGNING_KEY_SIZE;

    if (!key)
        return NULL;
    key->pair = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, secret,
                                             SIGNING_KEY_SIZE);
    if (key->pair &&
        EVP_PKEY_get_raw_public_key(key->pair, key->public, &size) == 1)
        return key;
    signing_key_free(key);
    return NULL;
}

void
signing_key_free(struct signing_key *key)
{
    if (!key)
        return;
    EVP_PKEY_free(key->pair);
    free(key);
}

const unsigned char *
signing_key_public(const struct signing_key *key)
{
    return key->public;
}

bool
signing_key_sign(const struct signing_key *key, struct slice message,
                 unsigned char signature[SIGNATURE_BYTES])
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t size = SIGNATURE_BYTES;
    bool is_signed =
        context &&
        EVP_DigestSignInit(context, NULL, NULL, NULL, key->pair) == 1 &&
        EVP_DigestSign(context, signature, &size,
                       (const unsigned char *)message.data, message.size) == 1;

    EVP_MD_CTX_free(context);
    return is_signed;
}

bool
signature_is_of(const unsigned char public[SIGNING_KEY_SIZE],
                struct slice message,
                const unsigned char signature[SIGNATURE_BYTES])
{
    EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public,
                                                SIGNING_KEY_SIZE);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool is_right = key && context &&
                    EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1 &&
                    EVP_DigestVerify(context, signature, SIGNATURE_BYTES,
                                     (const unsigned char *)message.data,
                                     message.size) == 1;

    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    return is_right;
}
