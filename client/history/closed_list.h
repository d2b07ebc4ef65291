/*
 * closed_list.h - one closed Change List of a broker, proven as a whole
 * (proto/input/list_proof.h) and cut into pieces.
 *
 * Nothing of a list counts before all of it is proven: so an altered, short or
 * reordered list hands over nothing. Memory: the whole list, at most
 * CLOSED_LIST_MAX bytes.
 *
 * Pure computing, for a worker thread; one thread at a time.
 */
#pragma once

#include <stdatomic.h>

#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/position.h"

/* Most bytes of a list, packed and unpacked. A broker's list has 50 MiB and one
 * entry at most. */
#define CLOSED_LIST_MAX (64u * 1024 * 1024)

/* Where a piece ends. */
#define CLOSED_LIST_PIECE_ENTRIES 2000
#define CLOSED_LIST_PIECE_BYTES   (512 * 1024)

/* Some fragments of a list, one after the other. */
struct closed_piece {
    size_t at, size;      /* bytes of the text */
    uint64_t after, last; /* seqs */
    struct digest digest; /* d(last) */
};

/* At first zero, with room for CLOSED_LIST_MAX in `text`; its owner frees
 * `text` and `pieces`. When *is_dropped becomes true the work ends soon. */
struct closed_list {
    const atomic_bool *is_dropped;
    struct buf text;
    struct coverage covers; /* epoch, after, last, digest */
    struct closed_piece *pieces;
    size_t n_pieces, capacity;
};

/* Unpacks and proves the list that came from `url` as `body`, gzip or plain;
 * replaces what `list` held, and uses its memory again. `known`: the digest at
 * an entry of the log, `last`, if known (has_digest); compared if the list has
 * that entry or begins after it.
 *
 * STATUS_MALFORMED: it contradicts itself; STATUS_DIFFERENT: it is of another
 * history than `known`; STATUS_UNSUPPORTED: not written by a broker, or longer
 * than CLOSED_LIST_MAX; STATUS_MEMORY; STATUS_STOPPED. `why` says more. */
MUST_CHECK enum status closed_list_read(struct closed_list *list,
                                        const char *url, struct slice body,
                                        const struct coverage *known,
                                        struct problem *why);
