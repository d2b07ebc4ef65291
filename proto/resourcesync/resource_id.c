#include "proto/resourcesync/resource_id.h"

#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/fragment.h"

/* Longest list of md5 and sha-1 words, which a normalised one has once each. */
#define HASH_MAX 160

void
resource_id(struct digest *id, struct slice loc, struct slice hash,
            uint64_t length, int64_t lastmod_us)
{
    struct buf text = {.max = FRAGMENT_MAX + HASH_MAX};
    struct digest half;

    digest_sha256(id, loc);
    buf_add_slice(&text, loc);
    BUF_ADD(&text, "\n");
    if (hash_find_sha256(hash, &half)) {
        buf_add_text(&text, digest_text(&half).text);
    } else {
        buf_add_slice(&text, hash.size > 0 ? hash : SLICE("-"));
        BUF_ADD(&text, " ");
        if (length == LENGTH_NONE)
            BUF_ADD(&text, "-");
        else
            buf_add_number(&text, length);
        BUF_ADD(&text, " ");
        buf_add_text(&text, lastmod_us == DATETIME_NONE
                                ? "-"
                                : datetime_text(lastmod_us).text);
    }
    digest_sha256(&half, buf_slice(&text));
    memcpy(id->bytes + RESOURCE_ID_HALF, half.bytes, RESOURCE_ID_HALF);
    buf_fini(&text);
}

void
resource_id_plain(struct digest *id, struct slice loc, struct slice hash,
                  uint64_t length, int64_t lastmod_us)
{
    struct buf escaped = {.max = FRAGMENT_MAX};

    xml_escape(&escaped, loc);
    resource_id(id, buf_slice(&escaped), hash, length, lastmod_us);
    buf_fini(&escaped);
}

/* Sums */

/* Adds a number and a carry. */
static void
add_words(struct id_sum *sum, const uint64_t words[4], uint64_t carry)
{
    for (int i = 0; i < 4; i++) {
        bool over =
            __builtin_add_overflow(sum->words[i], carry, &sum->words[i]);

        carry = over |
                __builtin_add_overflow(sum->words[i], words[i], &sum->words[i]);
    }
}

/* Adds an id if `flip` is 0, and takes it away if all its bits are set. */
static void
count_id(struct id_sum *sum, const struct digest *id, uint64_t flip)
{
    uint64_t words[4];

    memcpy(words, id->bytes, DIGEST_SIZE);
    for (int i = 0; i < 4; i++)
        words[i] = le64toh(words[i]) ^ flip;
    add_words(sum, words, flip & 1);
    sum->n += flip | 1; /* 1, or -1 */
}

void
id_sum_add(struct id_sum *sum, const struct digest *id)
{
    count_id(sum, id, 0);
}

void
id_sum_remove(struct id_sum *sum, const struct digest *id)
{
    count_id(sum, id, UINT64_MAX);
}

void
id_sum_merge(struct id_sum *sum, const struct id_sum *other)
{
    add_words(sum, other->words, 0);
    sum->n += other->n;
}

void
id_sum_bytes(const struct id_sum *sum, struct digest *bytes)
{
    for (int i = 0; i < 4; i++) {
        uint64_t word = htole64(sum->words[i]);

        memcpy(bytes->bytes + 8 * i, &word, sizeof(word));
    }
}

struct id_sum_text
id_sum_text(const struct id_sum *sum)
{
    struct id_sum_text text;
    struct digest bytes;

    id_sum_bytes(sum, &bytes);
    snprintf(text.text, sizeof(text.text), "%" PRIu64 "-%s", sum->n,
             strchr(digest_text(&bytes).text, ':') + 1);
    return text;
}
