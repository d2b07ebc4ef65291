/*
 * tree_fuzz.c - trees of any size: the numbers of the input, eight bytes each,
 * are the size, the number of a leaf and an earlier size; the rest is the
 * address of a tile.
 *
 * All leaves are equal, and so are all full subtrees of a height: the tiles of
 * a tree of 2^64 - 1 leaves need no room.
 */
#include "proto/tlog/tree.h"

#include "tests/fuzz/fuzz.h"

static struct digest full[64]; /* of each height */

static enum status
read_tile(const struct tree_tiles *tiles, unsigned level, uint64_t number,
          unsigned width, struct digest *hashes, struct problem *why)
{
    const uint64_t *size = tiles->user;

    (void)why;
    FUZZ_ASSERT(width > 0 && width <= tree_tile_width(*size, level, number));
    for (unsigned i = 0; i < width; i++)
        hashes[i] = full[8 * level];
    return STATUS_OK;
}

static uint64_t
take_number(struct slice *rest)
{
    uint64_t number = 0;

    if (!slice_take_big_endian(rest, &number, 8))
        *rest = (struct slice){rest->data, 0};
    return number;
}

static void
check_address(struct slice text)
{
    char written[TILE_PATH_SIZE];
    unsigned level, width;
    uint64_t number;

    if (!tree_tile_read(text, &level, &number, &width))
        return;
    FUZZ_ASSERT(level < TILE_LEVELS && width > 0 && width <= TILE_WIDTH);
    tree_tile_write(written, level, number, width);
    FUZZ_ASSERT(slice_is(text, written));
}

static void
root_of(uint64_t size, struct digest *root)
{
    const struct tree_tiles tiles = {read_tile, &size};
    struct tree_edge edge;

    FUZZ_ASSERT(!tree_read_edge(&tiles, size, &edge, NULL));
    tree_edge_root(&edge, root);
}

/* A tree grows by a leaf as its tiles do, and each way leads to its root. */
FUZZ_TARGET(tree, bytes)
{
    uint64_t size = take_number(&bytes), index = take_number(&bytes);
    uint64_t from = take_number(&bytes);
    const struct tree_tiles tiles = {read_tile, &size};
    struct digest root, other, grown;
    struct tree_edge edge;
    struct tree_path path;

    check_address(bytes);
    for (unsigned i = 1; full[63].bytes[0] == 0 && i < 64; i++)
        tree_node(&full[i], &full[i - 1], &full[i - 1]);
    if (size == 0)
        return;
    root_of(size, &root);
    size--;
    FUZZ_ASSERT(!tree_read_edge(&tiles, size, &edge, NULL));
    tree_edge_add(&edge, &full[0]);
    size++;
    tree_edge_root(&edge, &grown);
    FUZZ_ASSERT(edge.size == size && digest_is_equal(&grown, &root));
    tree_edge_add(&edge, &full[0]); /* also behind the largest size */

    index %= size;
    FUZZ_ASSERT(!tree_inclusion(&tiles, index, size, &path, NULL));
    FUZZ_ASSERT(tree_includes(index, size, &full[0], &path, &root));
    FUZZ_ASSERT(path.n == 0 ||
                !tree_includes(index, size, &full[1], &path, &root));
    from = from % size + 1;
    root_of(from, &other);
    FUZZ_ASSERT(!tree_consistency(&tiles, from, size, &path, NULL));
    FUZZ_ASSERT(tree_continues(from, &other, size, &root, &path));
    FUZZ_ASSERT(!tree_continues(from, &full[1], size, &root, &path) ||
                digest_is_equal(&full[1], &other));
}
