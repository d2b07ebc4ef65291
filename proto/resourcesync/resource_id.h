/*
 * resource_id.h - 32 bytes that stand for a resource and its present
 * description, and sums of them: what two parties compare to find where their
 * copies of a set differ (negentropy.h).
 *
 * The id of a resource is
 *
 *     the first 16 bytes of SHA-256(LOC)
 *     the first 16 bytes of SHA-256(LOC LF DESCRIPTION)
 *
 * LOC is the loc as XML has it, in UTF-8: "&", "<", ">" and the quote are
 * written "&amp;", "&lt;", "&gt;" and "&quot;", all other characters as they
 * are. LF is the byte 10. DESCRIPTION is the first of these that the entry
 * allows:
 *
 *     sha-256:HEX                 `hash` has a SHA-256; HEX in lower case
 *     HASH SP LENGTH SP LASTMOD   else
 *
 * HASH is the list of md5 and sha-1 words as the entry has it, LENGTH a decimal
 * number, LASTMOD a time in UTC with six decimals (2026-04-01T18:10:00.000000Z;
 * a date is the midnight that it begins with). A missing one is "-". SP is a
 * space.
 *
 * So the first half names the resource, and sorts as the keys of
 * broker/state/resources.h; the second half changes with the content. It
 * repeats the loc: otherwise two resources that exchange their content would
 * leave the sum as it was.
 *
 * Any thread.
 */
#pragma once

#include "proto/resourcesync/digest.h"

/* Where the second half begins. */
#define RESOURCE_ID_HALF (DIGEST_SIZE / 2)

/* `loc`: escaped; `hash`: a normalised list; empty, LENGTH_NONE, DATETIME_NONE:
 * none. */
void resource_id(struct digest *id, struct slice loc, struct slice hash,
                 uint64_t length, int64_t lastmod_us);

/* The same of a loc that is not escaped. */
void resource_id_plain(struct digest *id, struct slice loc, struct slice hash,
                       uint64_t length, int64_t lastmod_us);

/* The sum of ids mod 2^256, each a number whose lowest byte comes first, and
 * their count. All zero: of none. */
struct id_sum {
    uint64_t words[4]; /* the lowest first */
    uint64_t n;
};

void id_sum_add(struct id_sum *sum, const struct digest *id);
void id_sum_remove(struct id_sum *sum, const struct digest *id);
void id_sum_merge(struct id_sum *sum, const struct id_sum *other);

/* The 32 bytes of the sum, the lowest first. */
void id_sum_bytes(const struct id_sum *sum, struct digest *bytes);

/* "COUNT-SUM", terminated: a decimal number, and those 32 bytes in hexadecimal
 * digits. */
#define ID_SUM_TEXT_SIZE 86

struct id_sum_text {
    char text[ID_SUM_TEXT_SIZE];
};
struct id_sum_text id_sum_text(const struct id_sum *sum);
