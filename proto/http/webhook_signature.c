#include "proto/http/webhook_signature.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "proto/base64.h"
#include "proto/number.h"

#define WEBHOOK_PREFIX "whsec_"

/* More than the longest accepted secret (WEBSUB_SECRET_MAX) has. */
#define WEBHOOK_KEY_MAX 768

#define SHA256_SIZE 32

static const struct method {
    const char *name;
    const char *digest; /* OpenSSL's name */
    size_t size;
} methods[SIGNATURE_METHODS] = {
    [SIGNATURE_SHA1] = {"sha1", "SHA1", 20},
    [SIGNATURE_SHA256] = {"sha256", "SHA256", SHA256_SIZE},
    [SIGNATURE_SHA384] = {"sha384", "SHA384", 48},
    [SIGNATURE_SHA512] = {"sha512", "SHA512", 64},
};

struct signer {
    enum signature_method method;
    EVP_MAC_CTX *keyed;
    EVP_MAC_CTX *keyed_webhook; /* NULL: not in that format */
};

enum status
signature_method_of(struct slice name, enum signature_method *method)
{
    for (size_t i = 0; i < SIGNATURE_METHODS; i++)
        if (slice_is(name, methods[i].name)) {
            *method = (enum signature_method)i;
            return STATUS_OK;
        }
    return STATUS_INVALID;
}

/* A context keyed for that method. OpenSSL wipes its copy of the key when the
 * context is freed. */
static EVP_MAC_CTX *
keyed_with(enum signature_method method, const void *key, size_t size)
{
    char digest[8];
    OSSL_PARAM parameters[2];
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = mac ? EVP_MAC_CTX_new(mac) : NULL;

    strcpy(digest, methods[method].digest);
    parameters[0] =
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0);
    parameters[1] = OSSL_PARAM_construct_end();
    EVP_MAC_free(mac); /* the context has a reference */
    if (context && !EVP_MAC_init(context, key, size, parameters)) {
        EVP_MAC_CTX_free(context);
        context = NULL;
    }
    return context;
}

struct signer *
signer_new(enum signature_method method, struct slice secret)
{
    struct signer *signer = memory_new(1, sizeof(*signer));
    struct slice text = secret;
    unsigned char key[WEBHOOK_KEY_MAX];
    long size = -1;

    if (!signer)
        return NULL;
    signer->method = method;
    signer->keyed =
        keyed_with(method, secret.data ? secret.data : "", secret.size);
    /* The key in a secret of the form "whsec_" + base64. */
    if (slice_skip_start(&text, WEBHOOK_PREFIX) &&
        BASE64_ROOM(text) <= WEBHOOK_KEY_MAX)
        size = base64_decode(text, key);
    if (size > 0)
        signer->keyed_webhook = keyed_with(SIGNATURE_SHA256, key, (size_t)size);
    OPENSSL_cleanse(key, sizeof(key));
    if (!signer->keyed || (size > 0 && !signer->keyed_webhook)) {
        signer_free(signer);
        signer = NULL;
    }
    return signer;
}

void
signer_free(struct signer *signer)
{
    if (!signer)
        return;
    EVP_MAC_CTX_free(signer->keyed);
    EVP_MAC_CTX_free(signer->keyed_webhook);
    free(signer);
}

bool
signer_is_webhook(const struct signer *signer)
{
    return signer->keyed_webhook != NULL;
}

/* The HMAC of the parts, one behind the other. The context begins anew with the
 * key it has: that takes a third of the memory and time of a duplicate. */
static enum status
compute_mac(EVP_MAC_CTX *keyed, const struct slice *parts, size_t n_parts,
            unsigned char *to, size_t size)
{
    bool is_fine = EVP_MAC_init(keyed, NULL, 0, NULL);

    for (size_t i = 0; is_fine && i < n_parts; i++)
        is_fine = parts[i].size == 0 ||
                  EVP_MAC_update(keyed, (const unsigned char *)parts[i].data,
                                 parts[i].size);
    is_fine = is_fine && EVP_MAC_final(keyed, to, &size, size);
    return is_fine ? STATUS_OK : STATUS_MEMORY;
}

enum status
signer_sign(const struct signer *signer, struct slice body,
            char to[SIGNATURE_SIZE])
{
    const struct method *method = &methods[signer->method];
    unsigned char bytes[EVP_MAX_MD_SIZE];

    if (compute_mac(signer->keyed, &body, 1, bytes, method->size))
        return STATUS_MEMORY;
    to = stpcpy(to, method->name);
    *to++ = '=';
    *hex_write(to, bytes, method->size) = '\0';
    return STATUS_OK;
}

enum status
signer_sign_webhook(const struct signer *signer, struct slice id,
                    int64_t timestamp_s, struct slice body,
                    char to[WEBHOOK_SIGNATURE_SIZE])
{
    char timestamp[NUMBER_SIZE_MAX];
    const struct slice parts[] = {
        id,
        SLICE("."),
        {timestamp, number_write(timestamp, (uint64_t)timestamp_s)},
        SLICE("."),
        body,
    };
    unsigned char bytes[SHA256_SIZE];

    if (!signer->keyed_webhook)
        return STATUS_INVALID;
    if (compute_mac(signer->keyed_webhook, parts, N_ELEMENTS(parts), bytes,
                    sizeof(bytes)))
        return STATUS_MEMORY;
    to = stpcpy(to, "v1,");
    EVP_EncodeBlock((unsigned char *)to, bytes, sizeof(bytes));
    return STATUS_OK;
}

enum status
signature_check(struct slice header, struct slice secret, struct slice body)
{
    struct slice digits = slice_trimmed(header);
    struct slice name = slice_take(&digits, '=');
    unsigned char given[EVP_MAX_MD_SIZE];
    unsigned char right[EVP_MAX_MD_SIZE];
    enum signature_method method;
    EVP_MAC_CTX *keyed = NULL;
    enum status rc;
    size_t size;

    if (signature_method_of(name, &method))
        return STATUS_MALFORMED;
    size = methods[method].size;
    if (!hex_read(digits, given, size))
        return STATUS_MALFORMED;
    keyed = keyed_with(method, secret.data ? secret.data : "", secret.size);
    rc = keyed ? compute_mac(keyed, &body, 1, right, size) : STATUS_MEMORY;
    if (!rc && CRYPTO_memcmp(given, right, size) != 0)
        rc = STATUS_INVALID;
    EVP_MAC_CTX_free(keyed);
    OPENSSL_cleanse(right, sizeof(right));
    return rc;
}

enum status
webhook_sign(const struct signing_key *key, struct slice message,
             char to[WEBHOOK_KEY_SIGNATURE_SIZE])
{
    unsigned char bytes[SIGNATURE_BYTES];

    if (!signing_key_sign(key, message, bytes))
        return STATUS_MEMORY;
    to = stpcpy(to, "v1a,");
    EVP_EncodeBlock((unsigned char *)to, bytes, sizeof(bytes));
    return STATUS_OK;
}
