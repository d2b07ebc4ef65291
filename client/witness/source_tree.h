/*
 * source_tree.h - the Merkle tree of a set (proto/tlog/tree.h), as a reader of
 * its Change Lists builds it: from every entry, proven (list_proof.h).
 *
 *     list 1 --> list 2 --> ... --next--> list n, closed --> open list
 *     [ chain, edge: what is kept              ]  [ read each time ]
 *
 * So its root depends on nothing that the broker says of its tree. Anybody who
 * keeps the two can go on later: a witness (witness.h) does.
 */
#pragma once

#include "client/lib/client.h"
#include "proto/input/list_proof.h"
#include "proto/tlog/tree.h"

/* The end of the closed lists that were read. All zero: none were. */
struct source_tree {
    struct list_chain chain;
    struct tree_edge edge; /* of chain.last leaves */
};

/* Reads the lists of the set at `set_url` from there on, and sets *at to the
 * tree of its first `size` entries; the program has named the source
 * (client_add_source). Each closed list moves `tree` on, also if a later one
 * fails. Gives up at `until_ms` of the steady clock: STATUS_BUSY.
 * STATUS_CONFLICT: the set has another epoch. STATUS_NOT_FOUND: the lists end
 * before `size`. STATUS_GONE: the first list is no longer there. Else as
 * list_proof.h, and fetch.h. The problem of the client says why. */
MUST_CHECK enum status source_tree_read(struct td_client *client,
                                        const char *set_url, const char *epoch,
                                        struct source_tree *tree, uint64_t size,
                                        struct tree_edge *at, int64_t until_ms);
