/*
 * digests.h - checks bytes against a source's digests and length.
 *
 * Checks all known digests of a `hash` (md5, sha-1, sha-256; R-017) and the
 * length while the bytes pass. One sentence names the first fault:
 *
 *     is longer than the 12 bytes that the source told
 *     has 7 bytes, the source told 12
 *     sha-256 is 9f86..., the source told 60303...
 */
#ifndef PROTO_DIGESTS_H
#define PROTO_DIGESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/change.h"
#include "proto/hash.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct digests;

/* `hash`: a normalised list (proto/hash.h), or empty; copied. Skips unknown
 * algorithms. `length`: LENGTH_NONE: any. NULL: no memory. */
struct digests *digests_new(struct slice hash, uint64_t length);
void digests_free(struct digests *digests); /* NULL is allowed */

/* From the first byte again. STATUS_MEMORY. */
MUST_CHECK enum status digests_reset(struct digests *digests);

/* STATUS_INVALID: it is too long already, and `why` says so. */
MUST_CHECK enum status digests_add(struct digests *digests, struct slice bytes,
                                   struct problem *why);

/* After the last byte. STATUS_INVALID: `why` says what is wrong. */
MUST_CHECK enum status digests_end(struct digests *digests,
                                   struct problem *why);

/* Is there a digest to look at? */
bool digests_has_any(const struct digests *digests);

/* Bytes since the reset. */
uint64_t digests_size(const struct digests *digests);

/* Computes SHA-256 in any case; call it before the first byte. STATUS_MEMORY.
 */
MUST_CHECK enum status digests_want_sha256(struct digests *digests);

/* It, after digests_end. */
void digests_sha256(const struct digests *digests, struct digest *sha256);

#endif
