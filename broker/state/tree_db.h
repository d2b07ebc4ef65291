/*
 * tree_db.h - the Merkle tree of a set (proto/tlog/tree.h): its log, folded.
 *
 *     sets/NAME/tree.db    one row a tile
 *
 *     log --fold, when a checkpoint is due--> rows: the leaves up to `folded`
 *     log ----------------------------------> the leaves behind these, hashed
 *                                             by each reader
 *                                             (TREE_UNFOLDED_MAX)
 *
 * Rows only grow at their ends, and a tile of some width never changes. So a
 * reader needs no transaction. A set with few entries has no file: its readers
 * hash all of its log.
 *
 * The leaves of entries that the log has no more are here alone: retention
 * waits for them, and each commit is on the disk. A tree that begins when the
 * log has lost its first entries can have no root: it is not whole, for ever.
 */
#pragma once

#include "broker/log/log.h"
#include "broker/state/fold_db.h"
#include "proto/tlog/tree.h"

/* The name of its file, in the directory of its set. */
#define TREE_FILE "tree.db"

/* Entries that a reader hashes at most: some 10 ms. */
#define TREE_UNFOLDED_MAX 20000

extern const struct db_kind tree_kind;
extern const struct fold_kind tree_folding;

/* True if the tree has every leaf up to f->at.seq. */
bool tree_db_is_whole(const struct fold_db *f);

/* The tree of a set, for one reader. */
struct tree_view {
    struct tree_tiles tiles; /* of the tree of `size`, and all before it */
    uint64_t size;           /* the head's last entry, or the last folded one:
                                if so many more are not folded */
    int64_t us;              /* T(size) */
    struct digest root;

    uint64_t folded;       /* the rows have so many leaves */
    struct digest *leaves; /* the hashes of those behind them */
    struct db db;          /* not open: there are no rows */
};

/* Opens the tree of a set in the directory `dir`, with that head. `upto`: its
 * size at most, 0: as large as it can be. The caller closes it, also after a
 * failure. STATUS_NOT_FOUND: the tree is not whole, or the set was removed.
 * STATUS_BUSY: `upto` is not folded yet. May block. */
MUST_CHECK enum status tree_view_open(struct tree_view *view, const char *dir,
                                      struct log *log, struct log_set *set,
                                      const struct head *head, uint64_t upto,
                                      struct problem *why);
void tree_view_close(struct tree_view *view);

/* Reads a tile of 256 hashes from its row alone: no entry is hashed, and no
 * root made. STATUS_NOT_FOUND: it is not folded so far, or the tree is not
 * whole. May block. */
MUST_CHECK enum status tree_read_row(const char *dir, const struct head *head,
                                     unsigned level, uint64_t number,
                                     struct digest hashes[TILE_WIDTH],
                                     struct problem *why);
