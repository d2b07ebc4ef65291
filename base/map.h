/*
 * map.h - a hash table whose nodes live inside the structs that it finds.
 *
 *     struct host {
 *         struct map_node node;
 *         char name[64];
 *     };
 *
 *     static struct host *
 *     find_host(struct map *hosts, struct slice name)
 *     {
 *         struct map_node *node = map_find(hosts, map_hash(hosts, name));
 *
 *         for (; node; node = map_same(node)) {
 *             struct host *host = map_entry(node, struct host, node);
 *
 *             if (slice_is(name, host->name))
 *                 return host;
 *         }
 *         return NULL;
 *     }
 *
 * The map compares hashes, its owner compares keys. Equal keys are allowed: all
 * their nodes are found, in any order. The owner makes and frees the structs;
 * the map owns only its buckets. There are more buckets than nodes, except that
 * the map stays slow, and correct, without memory for more. So adding a node
 * cannot fail, and a look-up allocates nothing. Buckets are kept until
 * map_fini.
 *
 * Not locked.
 */
#pragma once

#include "proto/slice.h"
#include "proto/status.h"

struct map_node {
    struct map_node *next; /* in its bucket */
    uint64_t hash;
};

/* All zero: empty. */
struct map {
    size_t n; /* nodes; readable */

    struct map_node **buckets; /* NULL: `only` is the one bucket */
    struct map_node *only;
    size_t mask; /* the number of buckets, a power of two, less one */
    uint64_t seed[2];
    bool is_seeded;
};

/* The struct of type `type` whose member `member` is `node`. */
#define map_entry(node, type, member) \
    ((type *)(void *)((char *)(node)-offsetof(type, member)))

/* Returns the hash of `key`: SipHash-1-3 with a secret of the map, so nobody
 * outside can choose keys that meet in a bucket. A number that no outsider
 * chooses needs none: it may be the hash itself, if its low bits differ. */
uint64_t map_hash(struct map *map, struct slice key);

/* Adds a node that is in no map. */
void map_add(struct map *map, struct map_node *node, uint64_t hash);

/* Removes a node that is in the map. */
void map_remove(struct map *map, struct map_node *node);

/* Return a node with that hash, and the next one with the same hash; or NULL.
 */
struct map_node *map_find(const struct map *map, uint64_t hash);
struct map_node *map_same(const struct map_node *node);

/* Returns the node behind `node`, of all; NULL: the first. In any order. */
struct map_node *map_next(const struct map *map, const struct map_node *node);

/* The struct that has `node` at `offset`, or NULL. */
static inline void *
map_struct(struct map_node *node, size_t offset)
{
    return node ? (char *)node - offset : NULL;
}

/* Walks the structs whose member `member` is a node; the present one may be
 * removed or freed, others may not, and none may be added. `item` is a name. */
#define map_walk(item, map, member)                                     \
    for (struct map_node *item##_next = map_next((map), NULL);          \
         item##_next &&                                                 \
         ((item) = map_entry(item##_next, __typeof__(*(item)), member), \
         item##_next = map_next((map), item##_next), true);)

/* Walks those with that hash, of which none may be removed before the walk
 * ends. */
#define map_each_same(item, map, hash, member)                       \
    for ((item) = map_struct(map_find((map), (hash)),                \
                             offsetof(__typeof__(*(item)), member)); \
         (item); (item) = map_struct(map_same(&(item)->member),      \
                                     offsetof(__typeof__(*(item)), member)))

/* Frees the buckets. The map is empty again; nodes are the owner's. */
void map_fini(struct map *map);

/* Texts, each once: the URLs that were seen. The set keeps copies. */

/* All zero: empty. */
struct text_set {
    struct map map;
};

/* Adds a copy of `text`, and sets *is_new to true unless the set has it.
 * STATUS_MEMORY. */
MUST_CHECK enum status text_set_add(struct text_set *set, struct slice text,
                                    bool *is_new);

bool text_set_has(const struct text_set *set, struct slice text);
void text_set_remove(struct text_set *set, struct slice text); /* if it is in */
void text_set_fini(struct text_set *set);
