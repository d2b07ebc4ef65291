/*
 * tree.h - the Merkle tree over the entries of a log (RFC 6962 section 2), in
 * tiles (C2SP tlog-tiles).
 *
 *     leaf i = d(i + 1), the digest of the log behind entry i + 1
 *     hash of a leaf SHA-256(0x00 || leaf), of a node
 *     SHA-256(0x01 || left || right)
 *
 *     tile/1/000    [h h h h ...]              up to 256 hashes of full tiles
 *                    | \
 *     tile/0/000    [h h h ... h]  tile/0/001 [h h h]    256 leaves, 3 leaves
 *
 * A tree of `size` leaves has one root. From the tiles comes the way from a
 * leaf to the root (inclusion), and the one from the root of an earlier size to
 * a later root (consistency): who has two roots and that way knows that the
 * later log continues the earlier one.
 *
 * Pure; any thread.
 */
#pragma once

#include "proto/resourcesync/digest.h"

#define TILE_WIDTH 256 /* hashes of a full tile */
#define TILE_BYTES (TILE_WIDTH * DIGEST_SIZE)

/* Levels of tiles: a size has 63 bits at most. */
#define TILE_LEVELS 8

/* The largest size that is read of a log: others may count further, and here a
 * size is also a place in a file and a number of SQLite. */
#define TREE_SIZE_MAX INT64_MAX

/* Longest address of a tile, behind "tile/", and a NUL. */
#define TILE_PATH_SIZE 48

void tree_leaf(struct digest *hash, const struct digest *leaf);
void tree_node(struct digest *hash, const struct digest *left,
               const struct digest *right);

/* A tree that grows at its end, without its tiles: the roots of its largest
 * full subtrees, from the left, one for each bit of any size. All zero: empty.
 */
struct tree_edge {
    uint64_t size;
    struct digest roots[64];
};

void tree_edge_add(struct tree_edge *edge, const struct digest *leaf_hash);

/* The root; of the empty tree SHA-256 of nothing. */
void tree_edge_root(const struct tree_edge *edge, struct digest *root);

/* Where the tiles are. Fills `hashes` with the first `width` hashes (1 to 256)
 * of a tile. A status ends the call that needs the tile. */
struct tree_tiles {
    enum status (*read)(const struct tree_tiles *tiles, unsigned level,
                        uint64_t number, unsigned width, struct digest *hashes,
                        struct problem *why);
    void *user;
};

/* The width of a tile of a tree of that size; 0: the tree has no such tile. */
unsigned tree_tile_width(uint64_t size, unsigned level, uint64_t number);

/* The root of a full tile, for the level above. */
void tree_tile_root(const struct digest hashes[TILE_WIDTH],
                    struct digest *root);

/* Writes "0/x001/234" or, if width < 256, "0/x001/234.p/17". */
void tree_tile_write(char to[TILE_PATH_SIZE], unsigned level, uint64_t number,
                     unsigned width);

/* Reads that. False: another form, or a level that no tree has. */
bool tree_tile_read(struct slice path, unsigned *level, uint64_t *number,
                    unsigned *width);

/* Reads the edge of the tree of that size from its tiles. */
MUST_CHECK enum status tree_read_edge(const struct tree_tiles *tiles,
                                      uint64_t size, struct tree_edge *edge,
                                      struct problem *why);

/* The hashes of a way, from the leaves to the root. */
struct tree_path {
    unsigned n;
    struct digest hashes[126];
};

/* The way from leaf `index` to the root of the tree of that size, index < size
 * (RFC 6962 section 2.1.1). */
MUST_CHECK enum status tree_inclusion(const struct tree_tiles *tiles,
                                      uint64_t index, uint64_t size,
                                      struct tree_path *path,
                                      struct problem *why);

/* The way from the root of the size `from` to that of `size`, 0 < from <= size
 * (RFC 6962 section 2.1.2). */
MUST_CHECK enum status tree_consistency(const struct tree_tiles *tiles,
                                        uint64_t from, uint64_t size,
                                        struct tree_path *path,
                                        struct problem *why);

/* Does the way lead there? */
bool tree_includes(uint64_t index, uint64_t size,
                   const struct digest *leaf_hash, const struct tree_path *path,
                   const struct digest *root);
bool tree_continues(uint64_t from, const struct digest *from_root,
                    uint64_t size, const struct digest *root,
                    const struct tree_path *path);
