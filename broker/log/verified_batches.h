/*
 * verified_batches.h - which batches have had the right digest before.
 *
 * The digests of a batch from a disk are checked each time it is read. Adding
 * them up takes half of the time of reading old entries: SHA-256 goes from
 * entry to entry, at 0.24 us for one of 310 bytes. A batch that has passed is
 * therefore remembered by a code: GMAC of its bytes and its two digests, with a
 * key of this process, at an eighth of the time. The next read that has the
 * same code has the same bytes. The same for a batch that the log made, when it
 * leaves the memory (tail.h) before its list has a file.
 *
 * The digests within a batch are kept with its code, so that the file of a list
 * gets the digests of its marks (list_file.c).
 *
 * The tables have a fixed size (512 KiB of codes; digests of 4,096 batches,
 * which are 1.7 MB with entries of 310 bytes), and a new code takes the place
 * of another: a batch that was forgotten has its digests added up. They are one
 * for the process, because they change no answer, only the time of it. Any
 * thread.
 */
#ifndef BROKER_LOG_VERIFIED_BATCHES_H
#define BROKER_LOG_VERIFIED_BATCHES_H

#include <stdbool.h>
#include <stddef.h>
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

/* Remembers the code of a batch, and a copy of the digests within it, if there
 * is memory for that. */
void verified_batches_add(struct batch_code code, const struct digest *digests,
                          size_t n);

/* Copies the digests that were remembered with the code, at most `max`, and
 * returns their number; 0: they were forgotten. */
size_t verified_batches_digests(struct batch_code code, struct digest *to,
                                size_t max);

#endif
