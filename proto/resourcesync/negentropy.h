/*
 * negentropy.h - Negentropy v1: two parties find out which ids each of them
 * lacks, by messages whose size follows the number of differences
 * (range-based set reconciliation).
 *
 *     client                                  server
 *     negentropy_begin    --- message --->    negentropy_answer
 *     negentropy_compare  <-- answer -----
 *            +--- next message, until the answer leaves nothing to ask --->
 *
 * Message := 0x61 Range*, Range := upper bound, mode, payload:
 *
 *     skip         nothing more to say about the range
 *     fingerprint  16 bytes of SHA-256(sum of its ids, their count)
 *     list         its ids
 *
 * A range begins where the one before it ends. Whoever gets a fingerprint that
 * is not its own splits the range, or sends its ids if they are few.
 *
 * Our ids have the timestamp 0. Messages may have bounds with others: the range
 * behind such a bound is empty here, and the answer has the bound as it came.
 *
 * A message never has a longer answer than `max_bytes`, nor costs more than
 * some 2 `max_work` ids: an answer that stops early ends with the fingerprint
 * of all that is behind, so that the client goes on from there.
 *
 * Pure: the caller brings the ids.
 */
#pragma once

#include "proto/resourcesync/resource_id.h"

/* The first byte of a message: the protocol version 1. */
#define NEGENTROPY_VERSION 0x61

/* The least `max_bytes`: one range that is split, and the end. */
#define NEGENTROPY_BYTES_LEAST 4096

/* Where a range begins or ends: before all ids from `id` on. */
struct negentropy_bound {
    uint64_t timestamp; /* UINT64_MAX: behind all ids */
    struct digest id;   /* zero behind its prefix */
};

/* Gets the ids of a walk, in order. False: ends the walk. */
typedef bool negentropy_fn(const struct digest *id, void *user);

/* The ids of one party. */
struct negentropy_ids {
    /* Calls `fn` with each id from `from` to before `to` (NULL: to the end), in
     * order. */
    enum status (*walk)(struct negentropy_ids *ids, const struct digest *from,
                        const struct digest *to, negentropy_fn *fn, void *user,
                        struct problem *why);

    struct id_sum *parts; /* 256: of the ids with each first byte */
    uint64_t work;        /* ids walked by the present call */
};

struct negentropy {
    struct negentropy_ids *ids;
    size_t max_bytes;    /* of an answer, from NEGENTROPY_BYTES_LEAST on */
    uint64_t max_ranges; /* of a message */
    uint64_t max_work;   /* ids of a walk; 0: any */

    /* Set by a client. `have` gets each id that the server lacks, `need` each
     * id that the client lacks. An id may come again in a later answer. If one
     * is full, the comparison ends with STATUS_STOPPED. NULL: of a server. */
    struct buf *have, *need;
};

/* Appends a client's first message: a fingerprint for each of 256 parts. */
MUST_CHECK enum status negentropy_begin(struct negentropy *n, struct buf *to,
                                        struct problem *why);

/* Appends a server's answer. A message of another version is answered with the
 * version alone. STATUS_MALFORMED; or a failure of a walk. */
MUST_CHECK enum status negentropy_answer(struct negentropy *n,
                                         struct slice message, struct buf *to,
                                         struct problem *why);

/* Reads a server's answer, and appends the next message to `to`, which stays
 * empty when there is nothing more to ask. STATUS_MALFORMED, also of another
 * version; STATUS_STOPPED: `have` or `need` is full; or a failure of a walk. */
MUST_CHECK enum status negentropy_compare(struct negentropy *n,
                                          struct slice message, struct buf *to,
                                          struct problem *why);

/* Ids in memory, in order, each once. */
struct negentropy_array {
    struct negentropy_ids ids;
    const struct digest *all;
    size_t n;
    struct id_sum parts[256];
};

/* Sorts `all`, drops repeated ids, and makes the sums. `all` is lent. */
void negentropy_array_init(struct negentropy_array *array, struct digest *all,
                           size_t n);
