#include "broker/log/verified_batches.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/rand.h>

#include "proto/memory.h"

/* 27 million entries in blocks of a list's file. */
#define TABLE_SIZE 65536

/* A shorter batch has its digests added up sooner than the key is set. */
#define BYTES_MIN 16384

/* Each code stands for itself, so their order does not matter. */
static _Atomic uint64_t table[TABLE_SIZE];

/* As many batches as a backlog of 1 GB has. */
#define KEPT_SIZE 4096

struct kept {
    uint64_t value; /* of a code */
    struct digest *digests;
    size_t n;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the next */
static struct kept all_kept[KEPT_SIZE];

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned char key[16];
static bool has_key;

static void
make_key(void)
{
    has_key = RAND_bytes(key, sizeof(key)) == 1;
}

struct batch_code
batch_code_of(const struct digest *before, const struct digest *digest,
              struct slice bytes)
{
    /* A nonce hides the key from those who see codes; nobody does. */
    static const unsigned char nonce[12] = {0};
    struct batch_code code = {0, 0};
    unsigned char tag[sizeof(code)];
    EVP_CIPHER_CTX *ctx;
    int n;

    pthread_once(&once, make_key);
    if (!has_key || bytes.size < BYTES_MIN || bytes.size > INT32_MAX)
        return code;
    ctx = EVP_CIPHER_CTX_new();
    if (ctx && EVP_EncryptInit_ex(ctx, EVP_aes_128_gcm(), NULL, key, nonce) &&
        EVP_EncryptUpdate(ctx, NULL, &n, before->bytes, DIGEST_SIZE) &&
        EVP_EncryptUpdate(ctx, NULL, &n, digest->bytes, DIGEST_SIZE) &&
        EVP_EncryptUpdate(ctx, NULL, &n, (const unsigned char *)bytes.data,
                          (int)bytes.size) &&
        EVP_EncryptFinal_ex(ctx, tag, &n) &&
        EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, sizeof(tag), tag))
        memcpy(&code, tag, sizeof(code));
    EVP_CIPHER_CTX_free(ctx);
    return code;
}

static _Atomic uint64_t *
place_of(struct batch_code code)
{
    return &table[code.place % TABLE_SIZE];
}

bool
verified_batches_have(struct batch_code code)
{
    return code.value &&
           atomic_load_explicit(place_of(code), memory_order_relaxed) ==
               code.value;
}

void
verified_batches_add(struct batch_code code, const struct digest *digests,
                     size_t n)
{
    struct kept *kept = &all_kept[code.place % KEPT_SIZE];
    struct digest *copy;

    if (!code.value)
        return;
    atomic_store_explicit(place_of(code), code.value, memory_order_relaxed);
    if (n == 0)
        return;
    copy = memory_room(n * sizeof(*copy));
    memcpy(copy, digests, n * sizeof(*copy));
    pthread_mutex_lock(&mutex);
    free(kept->digests);
    *kept = (struct kept){code.value, copy, n};
    pthread_mutex_unlock(&mutex);
}

size_t
verified_batches_digests(struct batch_code code, struct digest *to, size_t max)
{
    const struct kept *kept = &all_kept[code.place % KEPT_SIZE];
    size_t n = 0;

    pthread_mutex_lock(&mutex);
    if (code.value && kept->value == code.value) {
        n = kept->n < max ? kept->n : max;
        memcpy(to, kept->digests, n * sizeof(*to));
    }
    pthread_mutex_unlock(&mutex);
    return n;
}
