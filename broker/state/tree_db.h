/*
 * tree_db.h - the Merkle tree of a set (proto/tlog/tree.h): its log, folded.
 *
 *     sets/NAME/tile/...   a file each full tile (tile_files.h)
 *     sets/NAME/tree.db    a row for the last tile of a level, if it is not
 *                          full, and how far the tree is
 *
 *     log --fold, when a checkpoint is due--> files and rows: the leaves up to
 *                                             `folded`
 *     log ----------------------------------> the leaves behind these, hashed
 *                                             by each reader
 *                                             (TREE_UNFOLDED_MAX)
 *
 * Files are on the disk before the commit that counts on them. A crash before
 * that leaves files that nobody reads, and the next fold writes the same ones.
 * A tile of some width never changes, and a row goes when its file is there. So
 * a reader needs no transaction: it looks for the row first. A set with few
 * entries has neither: its readers hash all of its log.
 *
 * The leaves of entries that the log has no more are here alone: retention
 * waits for them, and each commit is on the disk. A tree that begins when the
 * log has lost its first entries can have no root: it is not whole, for ever.
 */
#pragma once

#include "base/file.h"
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
    struct file_path dir;    /* of the set */
    uint64_t size;           /* the head's last entry, or the last folded one:
                                if so many more are not folded */
    int64_t us;              /* T(size) */
    struct digest root;

    uint64_t folded;       /* files and rows have so many leaves */
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
