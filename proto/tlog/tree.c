#include "proto/tlog/tree.h"

/* Hashing */

static void
hash_bytes(struct digest *hash, uint8_t kind, const struct digest *one,
           const struct digest *other)
{
    char bytes[1 + 2 * DIGEST_SIZE];
    size_t size = 1 + DIGEST_SIZE;

    bytes[0] = (char)kind;
    memcpy(bytes + 1, one->bytes, DIGEST_SIZE);
    if (other) {
        memcpy(bytes + size, other->bytes, DIGEST_SIZE);
        size += DIGEST_SIZE;
    }
    digest_sha256(hash, (struct slice){bytes, size});
}

void
tree_leaf(struct digest *hash, const struct digest *leaf)
{
    hash_bytes(hash, 0, leaf, NULL);
}

void
tree_node(struct digest *hash, const struct digest *left,
          const struct digest *right)
{
    hash_bytes(hash, 1, left, right);
}

/* Edges */

void
tree_edge_add(struct tree_edge *edge, const struct digest *leaf_hash)
{
    unsigned n = (unsigned)__builtin_popcountll(edge->size);
    struct digest hash = *leaf_hash;

    for (uint64_t rest = edge->size; rest & 1; rest >>= 1)
        tree_node(&hash, &edge->roots[--n], &hash);
    edge->roots[n] = hash;
    edge->size++;
}

void
tree_edge_root(const struct tree_edge *edge, struct digest *root)
{
    unsigned n = (unsigned)__builtin_popcountll(edge->size);

    if (n == 0) {
        digest_sha256(root, SLICE(""));
        return;
    }
    *root = edge->roots[--n];
    while (n > 0)
        tree_node(root, &edge->roots[--n], root);
}

/* Tiles */

unsigned
tree_tile_width(uint64_t size, unsigned level, uint64_t number)
{
    uint64_t hashes = level < TILE_LEVELS ? size >> (8 * level) : 0;

    if (number > hashes / TILE_WIDTH)
        return 0;
    hashes -= number * TILE_WIDTH;
    return hashes < TILE_WIDTH ? (unsigned)hashes : TILE_WIDTH;
}

/* The root of `n` hashes, a power of two; overwrites them. */
static void
fold(struct digest *hashes, uint64_t n)
{
    for (; n > 1; n /= 2)
        for (uint64_t i = 0; i < n / 2; i++)
            tree_node(&hashes[i], &hashes[2 * i], &hashes[2 * i + 1]);
}

void
tree_tile_root(const struct digest hashes[TILE_WIDTH], struct digest *root)
{
    struct digest copy[TILE_WIDTH];

    memcpy(copy, hashes, TILE_BYTES);
    fold(copy, TILE_WIDTH);
    *root = copy[0];
}

void
tree_tile_write(char to[TILE_PATH_SIZE], unsigned level, uint64_t number,
                unsigned width)
{
    unsigned groups[7], n = 0;
    char *end = to + TILE_PATH_SIZE;

    do {
        groups[n++] = (unsigned)(number % 1000);
        number /= 1000;
    } while (number > 0 && n < N_ELEMENTS(groups));
    to += snprintf(to, (size_t)(end - to), "%u", level);
    while (n-- > 0)
        to += snprintf(to, (size_t)(end - to), n > 0 ? "/x%03u" : "/%03u",
                       groups[n]);
    if (width < TILE_WIDTH)
        snprintf(to, (size_t)(end - to), ".p/%u", width);
}

/* Adds the digits before `end` to *number, and skips all other characters. */
static size_t
read_digits(struct slice text, size_t at, char end, uint64_t *number)
{
    for (; at < text.size && text.data[at] != end; at++)
        if (text.data[at] >= '0' && text.data[at] <= '9')
            *number = *number * 10 + (uint64_t)(text.data[at] - '0');
    return at;
}

bool
tree_tile_read(struct slice path, unsigned *level, uint64_t *number,
               unsigned *width)
{
    char text[TILE_PATH_SIZE];
    uint64_t wide = 0;
    size_t at;

    if (path.size == 0 || path.data[0] < '0' ||
        path.data[0] >= '0' + TILE_LEVELS)
        return false;
    *level = (unsigned)(path.data[0] - '0');
    *number = 0;
    at = read_digits(path, 1, '.', number);
    (void)read_digits(path, at, 0, &wide);
    *width = at == path.size     ? TILE_WIDTH
             : wide < TILE_WIDTH ? (unsigned)wide
                                 : 0;
    /* A tile has one address: all else that stands there is a mistake. */
    tree_tile_write(text, *level, *number, *width);
    return *width > 0 && slice_is(path, text);
}

/* Ways */

/* The hash of the full subtree with `n` leaves, a power of two, that begins at
 * leaf `begin`, a multiple of n. */
static enum status
subtree_hash(const struct tree_tiles *tiles, uint64_t begin, uint64_t n,
             struct digest *hash, struct problem *why)
{
    struct digest hashes[TILE_WIDTH];
    unsigned height = (unsigned)__builtin_ctzll(n), level = height / 8;
    uint64_t at = begin >> (8 * level), some = UINT64_C(1) << (height % 8);
    unsigned first = (unsigned)(at % TILE_WIDTH);
    enum status rc = tiles->read(tiles, level, at / TILE_WIDTH,
                                 first + (unsigned)some, hashes, why);

    if (rc)
        return rc;
    fold(hashes + first, some);
    *hash = hashes[first];
    return STATUS_OK;
}

/* Reads the edge of the tree of `size` leaves from leaf `begin` on, which is a
 * part of a tree as RFC 6962 divides it. */
static enum status
read_edge(const struct tree_tiles *tiles, uint64_t begin, uint64_t size,
          struct tree_edge *edge, struct problem *why)
{
    uint64_t end = begin + size;
    enum status rc = STATUS_OK;

    edge->size = size;
    for (unsigned n = 0; !rc && begin < end; n++) {
        uint64_t some = UINT64_C(1) << (63 - __builtin_clzll(end - begin));

        rc = subtree_hash(tiles, begin, some, &edge->roots[n], why);
        begin += some;
    }
    return rc;
}

enum status
tree_read_edge(const struct tree_tiles *tiles, uint64_t size,
               struct tree_edge *edge, struct problem *why)
{
    return read_edge(tiles, 0, size, edge, why);
}

/* The way from the root of [target, stop), a full subtree, up to that of the
 * leaves [begin, end). */
static enum status
find_path(const struct tree_tiles *tiles, uint64_t begin, uint64_t end,
          uint64_t target, uint64_t stop, struct tree_path *path,
          struct problem *why)
{
    struct tree_edge other;
    uint64_t left; /* the end of the left part: the largest full subtree */
    enum status rc;
    bool is_left;

    if (begin == target && end == stop)
        return STATUS_OK;
    left = begin + (UINT64_C(1) << (63 - __builtin_clzll(end - begin - 1)));
    is_left = stop <= left;
    rc = find_path(tiles, is_left ? begin : left, is_left ? left : end, target,
                   stop, path, why);
    if (!rc)
        rc = read_edge(tiles, is_left ? left : begin,
                       is_left ? end - left : left - begin, &other, why);
    if (!rc)
        tree_edge_root(&other, &path->hashes[path->n++]);
    return rc;
}

enum status
tree_inclusion(const struct tree_tiles *tiles, uint64_t index, uint64_t size,
               struct tree_path *path, struct problem *why)
{
    path->n = 0;
    return find_path(tiles, 0, size, index, index + 1, path, why);
}

enum status
tree_consistency(const struct tree_tiles *tiles, uint64_t from, uint64_t size,
                 struct tree_path *path, struct problem *why)
{
    /* The last full subtree of the earlier tree is where the way begins; its
     * hash is the first one, unless it is the whole earlier tree. */
    uint64_t last = from & -from;
    enum status rc = STATUS_OK;

    path->n = 0;
    if (from == size)
        return STATUS_OK;
    if (last != from)
        rc = subtree_hash(tiles, from - last, last, &path->hashes[path->n++],
                          why);
    return rc ? rc : find_path(tiles, 0, size, from - last, from, path, why);
}

/* Checking: RFC 9162 sections 2.1.3.2 and 2.1.4.2 say how the ways of RFC 6962
 * are followed. */

/* Follows a way from its hash `i` on. *earlier gets the hashes on its left,
 * *later all. */
static bool
follow_path(uint64_t at, uint64_t last, const struct tree_path *path,
            unsigned i, struct digest *earlier, struct digest *later)
{
    for (; i < path->n; i++) {
        if (last == 0)
            return false;
        if (at & 1 || at == last) {
            tree_node(earlier, &path->hashes[i], earlier);
            tree_node(later, &path->hashes[i], later);
            for (; !(at & 1) && at != 0; at >>= 1)
                last >>= 1;
        } else {
            tree_node(later, later, &path->hashes[i]);
        }
        at >>= 1;
        last >>= 1;
    }
    return last == 0;
}

bool
tree_includes(uint64_t index, uint64_t size, const struct digest *leaf_hash,
              const struct tree_path *path, const struct digest *root)
{
    struct digest hash = *leaf_hash, unused = hash;

    return index < size &&
           follow_path(index, size - 1, path, 0, &unused, &hash) &&
           digest_is_equal(&hash, root);
}

bool
tree_continues(uint64_t from, const struct digest *from_root, uint64_t size,
               const struct digest *root, const struct tree_path *path)
{
    uint64_t at = from - 1, last = size - 1;
    struct digest earlier, later;
    unsigned i = 0;

    if (from == 0 || from > size)
        return false;
    if (from == size)
        return path->n == 0 && digest_is_equal(from_root, root);
    if ((from & (from - 1)) == 0)
        earlier = later = *from_root;
    else if (path->n > 0)
        earlier = later = path->hashes[i++];
    else
        return false;
    for (; at & 1; at >>= 1)
        last >>= 1;
    return follow_path(at, last, path, i, &earlier, &later) &&
           digest_is_equal(&earlier, from_root) &&
           digest_is_equal(&later, root);
}
