/*
 * digest_check.h - checks bytes against a source's digests and length.
 *
 * Checks all known digests of a `hash` (md5, sha-1, sha-256; R-017) and the
 * length while the bytes pass. One sentence names the first fault:
 *
 *     is longer than the 12 bytes that the source told
 *     has 7 bytes, the source told 12
 *     sha-256 is 9f86..., the source told 60303...
 */
#ifndef PROTO_DIGEST_CHECK_H
#define PROTO_DIGEST_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/change.h"
#include "proto/digest.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct digest_check;

/* `hash`: a normalised list (proto/digest.h), or empty; copied. Skips unknown
 * algorithms. `length`: LENGTH_NONE: any. NULL: no memory. */
struct digest_check *digest_check_new(struct slice hash, uint64_t length);
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

/* Computes SHA-256 in any case; call it before the first byte. STATUS_MEMORY.
 */
MUST_CHECK enum status digest_check_want_sha256(struct digest_check *digests);

/* It, after digest_check_end. */
void digest_check_sha256(const struct digest_check *digests,
                         struct digest *sha256);

#endif
