/*
 * verified_batches.h - which batches have had the right digest before.
 *
 * The digests of a batch from a disk are checked each time it is read. Adding
 * them up takes half of the time of reading old entries: SHA-256 goes from
 * entry to entry, at 0.24 us for one of 310 bytes. A batch that has passed is
 * therefore remembered by a code: GMAC of its bytes and its two digests, with a
 * key of this process, at an eighth of the time. The next read that has the
 * same code has the same bytes.
 *
 * The table has a fixed size (512 KiB), and a new code takes the place of
 * another: a batch that was forgotten has its digests added up. It is one for
 * the process, because it changes no answer, only the time of it. Any thread.
 */
#ifndef BROKER_LOG_VERIFIED_BATCHES_H
#define BROKER_LOG_VERIFIED_BATCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/resourcesync/digest.h"
#include "proto/slice.h"

struct batch_code {
    uint64_t place, value; /* value 0: there is none */
};

/* The code of `bytes`, which lead from digest `before` to `digest`. */
struct batch_code batch_code_of(const struct digest *before,
                                const struct digest *digest,
                                struct slice bytes);

bool verified_batches_have(struct batch_code code);
void verified_batches_add(struct batch_code code);

#endif
