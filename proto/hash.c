/* SHA256_Init and its like are deprecated in favour of EVP, which looks up the
 * algorithm, allocates a context and dispatches through a provider on every
 * call. There is one digest per entry and it is on the log thread's way: see
 * the figures above digest_add. */
#define OPENSSL_SUPPRESS_DEPRECATED

#include "proto/hash.h"

#include <openssl/sha.h>

#define DIGEST_PREFIX "sha-256:"

/* R-017, and how the standard's own examples spell it (I-04). */
static const struct algorithm {
    const char *spelling;
    const char *name;
    size_t digits;
} algorithms[] = {
    {"md5", "md5", 32},         {"sha-1", "sha-1", 40},
    {"sha-256", "sha-256", 64}, {"sha1", "sha-1", 40},
    {"sha256", "sha-256", 64},
};

#define N_ALGORITHMS (sizeof(algorithms) / sizeof(algorithms[0]))

void
digest_start(struct digest *d, struct slice epoch)
{
    SHA256((const unsigned char *)(epoch.data ? epoch.data : ""), epoch.size,
           d->bytes);
}

void
digest_add(struct digest *d, struct slice fragment)
{
    SHA256_CTX context;

    SHA256_Init(&context);
    SHA256_Update(&context, d->bytes, DIGEST_SIZE);
    SHA256_Update(&context, fragment.data, fragment.size);
    SHA256_Final(d->bytes, &context);
}

void
digest_write(char to[DIGEST_TEXT_SIZE], const struct digest *d)
{
    static const char digits[] = "0123456789abcdef";

    memcpy(to, DIGEST_PREFIX, sizeof(DIGEST_PREFIX) - 1);
    to += sizeof(DIGEST_PREFIX) - 1;
    for (size_t i = 0; i < DIGEST_SIZE; i++) {
        *to++ = digits[d->bytes[i] >> 4];
        *to++ = digits[d->bytes[i] & 15];
    }
}

static int
hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

enum status
digest_read(struct slice text, struct digest *d)
{
    const char *p = text.data + sizeof(DIGEST_PREFIX) - 1;
    struct digest result;

    if (text.size != DIGEST_TEXT_SIZE || !slice_starts(text, DIGEST_PREFIX))
        return STATUS_INVALID;
    for (size_t i = 0; i < DIGEST_SIZE; i++, p += 2) {
        int high = hex_value(p[0]);
        int low = hex_value(p[1]);

        if (high < 0 || low < 0)
            return STATUS_INVALID;
        result.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *d = result;
    return STATUS_OK;
}

static bool
is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const struct algorithm *
algorithm_of(struct slice spelling)
{
    for (size_t i = 0; i < N_ALGORITHMS; i++)
        if (slice_is(spelling, algorithms[i].spelling))
            return &algorithms[i];
    return NULL;
}

/* The text up to the next white space. */
static struct slice
take_word(struct slice *text)
{
    struct slice word;

    while (text->size > 0 && is_space(text->data[0])) {
        text->data++;
        text->size--;
    }
    word = (struct slice){text->data, 0};
    while (text->size > 0 && !is_space(text->data[0])) {
        text->data++;
        text->size--;
        word.size++;
    }
    return word;
}

enum status
hash_normalise(struct buf *to, struct slice text, struct problem *why)
{
    size_t start = to->size;
    unsigned seen = 0;
    enum status rc = STATUS_INVALID;

    for (;;) {
        struct slice word = take_word(&text);
        const char *colon;
        const struct algorithm *algorithm;
        struct slice digits;
        unsigned bit;

        if (word.size == 0)
            break;
        colon = memchr(word.data, ':', word.size);
        if (!colon) {
            problem_set(why, "hash: not \"algorithm:digest\": \"%s\"",
                        problem_quote(word).text);
            goto out;
        }
        digits.data = colon + 1;
        digits.size = (size_t)(word.data + word.size - digits.data);
        word.size = (size_t)(colon - word.data);
        algorithm = algorithm_of(word);
        if (!algorithm) {
            problem_set(why, "hash: unknown algorithm \"%s\"",
                        problem_quote(word).text);
            goto out;
        }
        /* All spellings of an algorithm have the same number of digits. */
        bit = 1u << algorithm->digits / 8;
        if (seen & bit) {
            problem_set(why, "hash: %s is given twice", algorithm->name);
            goto out;
        }
        seen |= bit;
        if (digits.size != algorithm->digits) {
            problem_set(why, "hash: %s has %zu digits, not %zu",
                        algorithm->name, algorithm->digits, digits.size);
            goto out;
        }
        for (size_t i = 0; i < digits.size; i++)
            if (hex_value(digits.data[i]) < 0) {
                problem_set(why, "hash: not hexadecimal: \"%s\"",
                            problem_quote(digits).text);
                goto out;
            }

        if (to->size > start)
            BUF_ADD(to, " ");
        buf_add_text(to, algorithm->name);
        BUF_ADD(to, ":");
        buf_add_slice(to, digits);
    }

    if (seen == 0) {
        problem_set(why, "hash: empty");
        goto out;
    }
    rc = to->failed ? STATUS_MEMORY : STATUS_OK;

out:
    if (rc)
        to->size = start;
    return rc;
}

bool
hash_next(struct slice *list, struct slice *algorithm, struct slice *digits)
{
    struct slice word = take_word(list);
    const char *colon;

    if (word.size == 0)
        return false;
    colon = memchr(word.data, ':', word.size);
    if (!colon)
        return false;
    *algorithm = (struct slice){word.data, (size_t)(colon - word.data)};
    *digits =
        (struct slice){colon + 1, (size_t)(word.data + word.size - colon - 1)};
    return true;
}
