/* SHA256_Init and its like are deprecated in favour of EVP, which dispatches
 * through a provider on every call. There is one digest per entry, on the way
 * of the log thread; measured for one of 290 bytes: 0.24 us, with EVP 0.28
 * (context kept, which digest_add has no place for) or 0.48 (context made
 * anew); in whole blocks, as digest_add does it, 0.20. */
#define OPENSSL_SUPPRESS_DEPRECATED

#include "proto/resourcesync/digest.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "proto/number.h"
#include "proto/swar.h"

#define DIGEST_PREFIX "sha-256:"

/* R-017, and how the standard's own examples spell it (I-04). */
static const struct hash_algorithm {
    struct slice spelling;
    struct slice name;
    size_t digits;
} algorithms[] = {
    {SLICE("sha-256"), SLICE("sha-256"), 64},
    {SLICE("sha256"), SLICE("sha-256"), 64},
    {SLICE("md5"), SLICE("md5"), 32},
    {SLICE("sha-1"), SLICE("sha-1"), 40},
    {SLICE("sha1"), SLICE("sha-1"), 40},
};

void
digest_sha256(struct digest *d, struct slice text)
{
    SHA256((const unsigned char *)(text.data ? text.data : ""), text.size,
           d->bytes);
}

/* Most bytes that digest_add hashes in one piece: entries are shorter, but for
 * odd ones. */
#define PIECE_SIZE 1024

void
digest_add(struct digest *d, struct slice fragment)
{
    size_t size = DIGEST_SIZE + fragment.size;
    size_t padded = (size + 1 + 8 + 63) / 64 * 64;
    unsigned char piece[PIECE_SIZE];
    SHA256_CTX context;

    SHA256_Init(&context);
    if (fragment.size <= PIECE_SIZE - DIGEST_SIZE - 64) {
        /* Padded (FIPS 180-4 section 5.1.1) to whole blocks: the library
         * hashes these without copying parts of blocks to its context. */
        memcpy(piece, d->bytes, DIGEST_SIZE);
        if (fragment.size > 0)
            memcpy(piece + DIGEST_SIZE, fragment.data, fragment.size);
        piece[size] = 0x80;
        memset(piece + size + 1, 0, padded - size - 1);
        for (size_t i = 0; i < 3;
             i++) /* the bits' number, highest byte first */
            piece[padded - 1 - i] = (unsigned char)(size * 8 >> 8 * i);
        SHA256_Update(&context, piece, padded);
        for (size_t i = 0; i < DIGEST_SIZE; i++)
            d->bytes[i] = (uint8_t)(context.h[i / 4] >> (24 - i % 4 * 8));
        return;
    }
    SHA256_Update(&context, d->bytes, DIGEST_SIZE);
    SHA256_Update(&context, fragment.data, fragment.size);
    SHA256_Final(d->bytes, &context);
}

void
digest_write(char to[DIGEST_TEXT_SIZE], const struct digest *d)
{
    memcpy(to, DIGEST_PREFIX, sizeof(DIGEST_PREFIX) - 1);
    hex_write(to + sizeof(DIGEST_PREFIX) - 1, d->bytes, DIGEST_SIZE);
}

struct digest_text
digest_text(const struct digest *d)
{
    struct digest_text text = {""};

    digest_write(text.text, d);
    return text;
}

/* Not 0 if a byte is no hexadecimal digit. Bytes below 128 plus 128 - c have
 * their high bit set exactly if they are c or more. */
static inline uint64_t
is_no_hex(uint64_t v)
{
    uint64_t low = v & ~SWAR_HIGHS;
    uint64_t letter = low | SWAR_ONES * 0x20;
    uint64_t digits =
        (low + SWAR_ONES * (128 - '0')) & ~(low + SWAR_ONES * (128 - '9' - 1));
    uint64_t letters = (letter + SWAR_ONES * (128 - 'a')) &
                       ~(letter + SWAR_ONES * (128 - 'f' - 1));

    return (~(digits | letters) | v) & SWAR_HIGHS;
}

enum status
digest_read(struct slice text, struct digest *d)
{
    struct digest result;

    if (!slice_skip_start(&text, DIGEST_PREFIX) ||
        !hex_read(text, result.bytes, DIGEST_SIZE))
        return STATUS_INVALID;
    *d = result;
    return STATUS_OK;
}

const struct hash_algorithm *
hash_algorithm_of(struct slice spelling)
{
    for (size_t i = 0; i < N_ELEMENTS(algorithms); i++)
        if (slice_equal(spelling, algorithms[i].spelling))
            return &algorithms[i];
    return NULL;
}

/* The text up to the next white space. */
static struct slice
take_word(struct slice *text)
{
    const char *p = text->data;
    size_t left = text->size;
    struct slice word;

    while (left > 0 && slice_is_space(*p)) {
        p++;
        left--;
    }
    word = (struct slice){p, left};
    while (left >= 8 && !swar_below(swar_load(p), ' ' + 1)) {
        p += 8;
        left -= 8;
    }
    while (left > 0 && !slice_is_space(*p)) {
        p++;
        left--;
    }
    word.size -= left;
    *text = (struct slice){p, left};
    return word;
}

enum status
hash_refuse_algorithm(struct slice name, struct problem *why)
{
    return problem(why, STATUS_INVALID,
                   "hash: unknown algorithm \"%s\"; md5, sha-1 and sha-256 are "
                   "known, such as " HASH_EXAMPLE,
                   problem_quote(name).text);
}

enum status
hash_add(struct buf *to, const struct hash_algorithm *algorithm,
         struct slice digits, unsigned *seen, struct problem *why)
{
    /* All spellings of an algorithm have the same number of digits. */
    unsigned bit = 1u << algorithm->digits / 8;

    if (*seen & bit)
        return problem(why, STATUS_INVALID, "hash: %s is given twice",
                       algorithm->name.data);
    if (digits.size != algorithm->digits)
        return problem(why, STATUS_INVALID, "hash: %s has %zu digits, not %zu",
                       algorithm->name.data, algorithm->digits, digits.size);
    if (!swar_none(digits, is_no_hex, '0'))
        return problem_quoting(why, STATUS_INVALID, "hash: not hexadecimal",
                               digits);
    if (*seen)
        BUF_ADD(to, " ");
    *seen |= bit;
    buf_add_slice(to, algorithm->name);
    BUF_ADD(to, ":");
    buf_add_slice(to, digits);
    return problem_buf(why, to, "hash: it");
}

enum status
hash_normalise(struct buf *to, struct slice text, struct problem *why)
{
    size_t start = to->size;
    unsigned seen = 0;
    struct slice word = take_word(&text);
    enum status rc = word.size > 0
                         ? STATUS_OK
                         : problem(why, STATUS_INVALID,
                                   "hash: empty; such as " HASH_EXAMPLE);

    for (; !rc && word.size > 0; word = take_word(&text)) {
        struct slice digits = word, name = slice_take(&digits, ':');
        const struct hash_algorithm *algorithm = hash_algorithm_of(name);

        if (name.size == word.size)
            rc = problem_quoting(
                why, STATUS_INVALID,
                "hash: not \"algorithm:digest\", such as " HASH_EXAMPLE, word);
        else if (algorithm)
            rc = hash_add(to, algorithm, digits, &seen, why);
        else
            rc = hash_refuse_algorithm(name, why);
    }
    if (rc)
        to->size = start;
    return rc;
}

bool
hash_next(struct slice *list, struct slice *algorithm, struct slice *digits)
{
    struct slice word = take_word(list);

    *digits = word;
    *algorithm = slice_take(digits, ':');
    return algorithm->size < word.size;
}

bool
hash_find_sha256(struct slice list, struct digest *d)
{
    struct slice algorithm, digits;

    while (hash_next(&list, &algorithm, &digits))
        if (slice_is(algorithm, "sha-256"))
            return !digest_read(
                (struct slice){algorithm.data,
                               algorithm.size + 1 + digits.size},
                d);
    return false;
}

bool
hashes_agree(struct slice a, struct slice b, bool *has_common)
{
    struct slice of_a;
    struct slice digits_a;

    *has_common = false;
    while (hash_next(&a, &of_a, &digits_a)) {
        struct slice rest = b;
        struct slice of_b;
        struct slice digits_b;

        while (hash_next(&rest, &of_b, &digits_b)) {
            if (!slice_equal(of_a, of_b))
                continue;
            *has_common = true;
            if (digits_a.size != digits_b.size ||
                strncasecmp(digits_a.data, digits_b.data, digits_a.size))
                return false;
        }
    }
    return true;
}

/* Checks of bytes */

/* R-017's; SHA-256 comes last. */
static const struct {
    const char *name;
    const EVP_MD *(*md)(void);
} checked[] = {
    {"md5", EVP_md5},
    {"sha-1", EVP_sha1},
    {"sha-256", EVP_sha256},
};

struct computed {
    EVP_MD_CTX *ctx;                      /* NULL: it is not */
    char digits[2 * EVP_MAX_MD_SIZE + 1]; /* "": the source sent none */
};

struct digest_check {
    struct computed all[N_ELEMENTS(checked)];
    uint64_t length; /* or LENGTH_NONE */
    uint64_t size;
    struct digest sha256; /* at the end, if it was computed */
};

/* False: no memory for a small block. */
static bool
compute(struct computed *one)
{
    if (!one->ctx)
        one->ctx = memory_got(EVP_MD_CTX_new(), 1);
    return one->ctx;
}

struct digest_check *
digest_check_new(struct slice hash, uint64_t length, bool wants_sha256)
{
    struct digest_check *d = memory_new(1, sizeof(*d));
    struct slice name, digits;

    if (!d)
        return NULL;
    d->length = length;
    while (hash_next(&hash, &name, &digits))
        for (size_t i = 0; i < N_ELEMENTS(checked); i++) {
            struct computed *one = &d->all[i];

            if (!slice_is(name, checked[i].name) || one->ctx ||
                digits.size != 2 * (size_t)EVP_MD_size(checked[i].md()))
                continue;
            if (!compute(one))
                goto failed;
            memcpy(one->digits, digits.data, digits.size);
        }
    if ((wants_sha256 && !compute(&d->all[N_ELEMENTS(checked) - 1])) ||
        digest_check_reset(d))
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
    for (size_t i = 0; i < N_ELEMENTS(checked); i++)
        EVP_MD_CTX_free(digests->all[i].ctx);
    free(digests);
}

enum status
digest_check_reset(struct digest_check *digests)
{
    digests->size = 0;
    for (size_t i = 0; i < N_ELEMENTS(checked); i++)
        if (digests->all[i].ctx &&
            !EVP_DigestInit_ex(digests->all[i].ctx, checked[i].md(), NULL))
            return STATUS_MEMORY;
    return STATUS_OK;
}

enum status
digest_check_add(struct digest_check *digests, struct slice bytes,
                 struct problem *why)
{
    if (digests->length != LENGTH_NONE &&
        bytes.size > digests->length - digests->size)
        return problem(why, STATUS_INVALID,
                       "is longer than the %" PRIu64
                       " bytes that the source announced",
                       digests->length);
    digests->size += bytes.size;
    for (size_t i = 0; i < N_ELEMENTS(checked); i++)
        if (digests->all[i].ctx &&
            !EVP_DigestUpdate(digests->all[i].ctx, bytes.data, bytes.size))
            return problem_memory(why);
    return STATUS_OK;
}

enum status
digest_check_end(struct digest_check *digests, struct problem *why)
{
    if (digests->length != LENGTH_NONE && digests->size != digests->length)
        return problem(why, STATUS_INVALID,
                       "has %" PRIu64 " bytes, the source announced %" PRIu64,
                       digests->size, digests->length);
    for (size_t i = 0; i < N_ELEMENTS(checked); i++) {
        const struct computed *one = &digests->all[i];
        unsigned char bytes[EVP_MAX_MD_SIZE];
        char is[2 * EVP_MAX_MD_SIZE + 1] = "";
        unsigned size = 0;

        if (!one->ctx)
            continue;
        if (!EVP_DigestFinal_ex(one->ctx, bytes, &size))
            return problem_memory(why);
        if (size == DIGEST_SIZE)
            memcpy(digests->sha256.bytes, bytes, size);
        if (!one->digits[0])
            continue;
        hex_write(is, bytes, size);
        if (strcasecmp(is, one->digits) != 0)
            return problem(why, STATUS_INVALID,
                           "%s is %s, the source announced %s", checked[i].name,
                           is, one->digits);
    }
    return STATUS_OK;
}

void
digest_check_sha256(const struct digest_check *digests, struct digest *sha256)
{
    *sha256 = digests->sha256;
}

bool
digest_check_has_any(const struct digest_check *digests)
{
    for (size_t i = 0; i < N_ELEMENTS(checked); i++)
        if (digests->all[i].digits[0])
            return true;
    return false;
}

uint64_t
digest_check_size(const struct digest_check *digests)
{
    return digests->size;
}
