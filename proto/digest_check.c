/*
 * digest_check.c - checks bytes against a source's digests and length.
 */
#include "proto/digest_check.h"

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

struct digest_check {
    struct told told[N_ALGORITHMS];
    uint64_t length; /* or LENGTH_NONE */
    uint64_t size;
    struct digest sha256; /* at the end, if it was computed */
};

static bool
report_difference(struct digest_check *d, struct slice name,
                  struct slice digits)
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

struct digest_check *
digest_check_new(struct slice hash, uint64_t length)
{
    struct digest_check *d = calloc(1, sizeof(*d));
    struct slice name, digits;

    if (!d)
        return NULL;
    d->length = length;
    while (hash_next(&hash, &name, &digits))
        if (!report_difference(d, name, digits))
            goto failed;
    if (digest_check_reset(d))
        goto failed;
    return d;

failed:
    digest_check_free(d);
    return NULL;
}

void
digest_check_free(struct digest_check *digests)
{
    if (!digests)
        return;
    for (size_t i = 0; i < N_ALGORITHMS; i++)
        EVP_MD_CTX_free(digests->told[i].ctx);
    free(digests);
}

enum status
digest_check_reset(struct digest_check *digests)
{
    digests->size = 0;
    for (size_t i = 0; i < N_ALGORITHMS; i++)
        if (digests->told[i].ctx &&
            !EVP_DigestInit_ex(digests->told[i].ctx, algorithms[i].md(), NULL))
            return STATUS_MEMORY;
    return STATUS_OK;
}

enum status
digest_check_add(struct digest_check *digests, struct slice bytes,
                 struct problem *why)
{
    if (digests->length != LENGTH_NONE &&
        bytes.size > digests->length - digests->size)
        return problem(
            why, STATUS_INVALID,
            "is longer than the %llu bytes that the source announced",
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
digest_check_end(struct digest_check *digests, struct problem *why)
{
    if (digests->length != LENGTH_NONE && digests->size != digests->length)
        return problem(why, STATUS_INVALID,
                       "has %llu bytes, the source announced %llu",
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
            return problem(why, STATUS_INVALID,
                           "%s is %s, the source announced %s",
                           algorithms[i].name, is, told->digits);
    }
    return STATUS_OK;
}

enum status
digest_check_want_sha256(struct digest_check *digests)
{
    struct told *told = &digests->told[N_ALGORITHMS - 1];

    if (!told->ctx)
        told->ctx = EVP_MD_CTX_new();
    return told->ctx ? digest_check_reset(digests) : STATUS_MEMORY;
}

void
digest_check_sha256(const struct digest_check *digests, struct digest *sha256)
{
    *sha256 = digests->sha256;
}

bool
digest_check_has_any(const struct digest_check *digests)
{
    for (size_t i = 0; i < N_ALGORITHMS; i++)
        if (digests->told[i].digits[0])
            return true;
    return false;
}

uint64_t
digest_check_size(const struct digest_check *digests)
{
    return digests->size;
}
