/*
 * digests.c - checks bytes against a source's digests and length.
 */
#include "proto/digests.h"

#include <stdlib.h>
#include <strings.h>

#include <openssl/evp.h>

/* R-017's, by EVP's names; SHA-256 comes last. */
static const struct algorithm {
    const char *name;
    const EVP_MD *(*md)(void);
} algorithms[] = {
    {"md5", EVP_md5},
    {"sha-1", EVP_sha1},
    {"sha-256", EVP_sha256},
};

#define N_ALGORITHMS (sizeof(algorithms) / sizeof(algorithms[0]))

struct told {
    EVP_MD_CTX *ctx;                      /* NULL: not computed */
    char digits[2 * EVP_MAX_MD_SIZE + 1]; /* "": the source sent none */
};

struct digests {
    struct told told[N_ALGORITHMS];
    uint64_t length; /* or LENGTH_NONE */
    uint64_t size;
    struct digest sha256; /* at the end, if it was computed */
};

static bool
tell(struct digests *d, struct slice name, struct slice digits)
{
    for (size_t i = 0; i < N_ALGORITHMS; i++) {
        struct told *told = &d->told[i];

        if (!slice_is(name, algorithms[i].name) || told->ctx ||
            digits.size != 2 * (size_t)EVP_MD_size(algorithms[i].md()))
            continue;
        told->ctx = EVP_MD_CTX_new();
        if (!told->ctx)
            return false;
        memcpy(told->digits, digits.data, digits.size);
    }
    return true;
}

struct digests *
digests_new(struct slice hash, uint64_t length)
{
    struct digests *d = calloc(1, sizeof(*d));
    struct slice name, digits;

    if (!d)
        return NULL;
    d->length = length;
    while (hash_next(&hash, &name, &digits))
        if (!tell(d, name, digits))
            goto failed;
    if (digests_reset(d))
        goto failed;
    return d;

failed:
    digests_free(d);
    return NULL;
}

void
digests_free(struct digests *digests)
{
    if (!digests)
        return;
    for (size_t i = 0; i < N_ALGORITHMS; i++)
        EVP_MD_CTX_free(digests->told[i].ctx);
    free(digests);
}

enum status
digests_reset(struct digests *digests)
{
    digests->size = 0;
    for (size_t i = 0; i < N_ALGORITHMS; i++)
        if (digests->told[i].ctx &&
            !EVP_DigestInit_ex(digests->told[i].ctx, algorithms[i].md(), NULL))
            return STATUS_MEMORY;
    return STATUS_OK;
}

enum status
digests_add(struct digests *digests, struct slice bytes, struct problem *why)
{
    if (digests->length != LENGTH_NONE &&
        bytes.size > digests->length - digests->size)
        return problem(why, STATUS_INVALID,
                       "is longer than the %llu bytes that the source told",
                       (unsigned long long)digests->length);
    digests->size += bytes.size;
    for (size_t i = 0; i < N_ALGORITHMS; i++)
        if (digests->told[i].ctx &&
            !EVP_DigestUpdate(digests->told[i].ctx, bytes.data, bytes.size))
            return problem_memory(why);
    return STATUS_OK;
}

static void
write_hex(char *to, const unsigned char *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < size; i++) {
        *to++ = digits[bytes[i] >> 4];
        *to++ = digits[bytes[i] & 15];
    }
    *to = '\0';
}

enum status
digests_end(struct digests *digests, struct problem *why)
{
    if (digests->length != LENGTH_NONE && digests->size != digests->length)
        return problem(why, STATUS_INVALID,
                       "has %llu bytes, the source told %llu",
                       (unsigned long long)digests->size,
                       (unsigned long long)digests->length);
    for (size_t i = 0; i < N_ALGORITHMS; i++) {
        const struct told *told = &digests->told[i];
        unsigned char bytes[EVP_MAX_MD_SIZE];
        char is[2 * EVP_MAX_MD_SIZE + 1];
        unsigned size = 0;

        if (!told->ctx)
            continue;
        if (!EVP_DigestFinal_ex(told->ctx, bytes, &size))
            return problem_memory(why);
        if (size == DIGEST_SIZE)
            memcpy(digests->sha256.bytes, bytes, size);
        if (!told->digits[0])
            continue;
        write_hex(is, bytes, size);
        if (strcasecmp(is, told->digits) != 0)
            return problem(why, STATUS_INVALID, "%s is %s, the source told %s",
                           algorithms[i].name, is, told->digits);
    }
    return STATUS_OK;
}

enum status
digests_want_sha256(struct digests *digests)
{
    struct told *told = &digests->told[N_ALGORITHMS - 1];

    if (!told->ctx)
        told->ctx = EVP_MD_CTX_new();
    return told->ctx ? digests_reset(digests) : STATUS_MEMORY;
}

void
digests_sha256(const struct digests *digests, struct digest *sha256)
{
    *sha256 = digests->sha256;
}

bool
digests_has_any(const struct digests *digests)
{
    for (size_t i = 0; i < N_ALGORITHMS; i++)
        if (digests->told[i].digits[0])
            return true;
    return false;
}

uint64_t
digests_size(const struct digests *digests)
{
    return digests->size;
}
