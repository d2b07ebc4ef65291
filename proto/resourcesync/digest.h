/*
 * digest.h - SHA-256 digests of the log, the `hash` attribute's lists, and the
 * check of bytes against such a list.
 */
#pragma once

#include "proto/buf.h"
#include "proto/problem.h"

#define DIGEST_SIZE 32

/* No length given. */
#define LENGTH_NONE UINT64_MAX

struct digest {
    uint8_t bytes[DIGEST_SIZE];
};

static inline bool
digest_is_equal(const struct digest *a, const struct digest *b)
{
    return !memcmp(a->bytes, b->bytes, DIGEST_SIZE);
}

/* SHA-256 of the bytes of `text`. The digest of a log that has no entries is
 * that of its epoch's text. Any thread. */
void digest_sha256(struct digest *d, struct slice text);

/* d(n) = SHA-256(d(n-1) || fragment n), in place. Any thread. */
void digest_add(struct digest *d, struct slice fragment);

/* "sha-256:" and 64 lower-case hexadecimal digits. */
#define DIGEST_TEXT_SIZE 72
void digest_write(char to[DIGEST_TEXT_SIZE], const struct digest *d);

/* The same as a text, terminated. */
struct digest_text {
    char text[DIGEST_TEXT_SIZE + 1];
};
struct digest_text digest_text(const struct digest *d);

MUST_CHECK enum status digest_read(struct slice text, struct digest *d);

/* Of the empty text, for problems. */
#define HASH_EXAMPLE "md5:d41d8cd98f00b204e9800998ecf8427e"

/* the algorithm of that name, or spelling (I-04); NULL: unknown. */
const struct hash_algorithm *hash_algorithm_of(struct slice spelling);

/* Says that there is none; returns STATUS_INVALID. */
enum status hash_refuse_algorithm(struct slice name, struct problem *why);

/* Appends "algorithm:digits" to a list of such words, with a space before it
 * unless it is the first. `*seen`: which algorithms the list has, 0 at first.
 * STATUS_INVALID: it has this one, or the digits are bad. STATUS_MEMORY. */
MUST_CHECK enum status hash_add(struct buf *to,
                                const struct hash_algorithm *algorithm,
                                struct slice digits, unsigned *seen,
                                struct problem *why);

/* checks a list such as "md5:... sha-256:..." and appends it to `to`
 * with single spaces between; the digits stay as posted. "sha256:" becomes
 * "sha-256:", "sha1:" becomes "sha-1:" (I-04). STATUS_INVALID: an unknown
 * algorithm, one named twice, a digest of the wrong length, an empty list. */
MUST_CHECK enum status hash_normalise(struct buf *to, struct slice text,
                                      struct problem *why);

/* The SHA-256 that a normalised list has; false: it has none. */
bool hash_find_sha256(struct slice list, struct digest *d);

/* The next "algorithm:digest" of a normalised list: fills both and returns
 * true, and moves `list` past it; false at the end. */
bool hash_next(struct slice *list, struct slice *algorithm,
               struct slice *digits);

/* True if two normalised lists agree in all algorithms that both have;
 * *has_common false: there is none. */
bool hashes_agree(struct slice a, struct slice b, bool *has_common);

/*
 * Checks all known digests of a `hash` (md5, sha-1, sha-256; R-017) and the
 * length while the bytes pass. One sentence names the first fault:
 *
 *     is longer than the 12 bytes that the source announced
 *     has 7 bytes, the source announced 12
 *     sha-256 is 9f86..., the source announced 60303...
 */
struct digest_check;

/* `hash`: a normalised list, or empty; copied. Skips unknown
 * algorithms. `length`: LENGTH_NONE: any. `wants_sha256`: computes it also if
 * `hash` does not have it. NULL: no memory. */
struct digest_check *digest_check_new(struct slice hash, uint64_t length,
                                      bool wants_sha256);
void digest_check_free(struct digest_check *digests); /* NULL is allowed */

/* From the first byte again. STATUS_MEMORY. */
MUST_CHECK enum status digest_check_reset(struct digest_check *digests);

/* STATUS_INVALID: it is too long already, and `why` says so. */
MUST_CHECK enum status digest_check_add(struct digest_check *digests,
                                        struct slice bytes,
                                        struct problem *why);

/* After the last byte. STATUS_INVALID: `why` says what is wrong. */
MUST_CHECK enum status digest_check_end(struct digest_check *digests,
                                        struct problem *why);

/* Is there a digest to look at? */
bool digest_check_has_any(const struct digest_check *digests);

/* Bytes since the reset. */
uint64_t digest_check_size(const struct digest_check *digests);

/* The SHA-256, after digest_check_end. */
void digest_check_sha256(const struct digest_check *digests,
                         struct digest *sha256);
