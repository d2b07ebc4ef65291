#include "base/map.h"

#include <endian.h>
#include <sys/random.h>

#define BUCKETS_MIN 16

/* SipHash (Aumasson and Bernstein) with one round a word and three at the end,
 * as the tables of Python and Rust have it. */

static uint64_t
rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static void
mix_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static void
mix_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix_round(v);
    v[0] ^= word;
}

/* Reads up to eight bytes as a little-endian number. */
static uint64_t
word_of(const char *at, size_t size)
{
    uint64_t word = 0;

    memcpy(&word, at, size);
    return le64toh(word);
}

uint64_t
map_hash(struct map *map, struct slice key)
{
    uint64_t v[4] = {0x736f6d6570736575, 0x646f72616e646f6d, 0x6c7967656e657261,
                     0x7465646279746573};
    uint64_t size = (uint64_t)key.size << 56;

    if (!map->is_seeded) {
        /* Early in the life of a machine the kernel may have no random bytes.
         * An address is the better secret than none. */
        if (getrandom(map->seed, sizeof(map->seed), GRND_NONBLOCK) !=
            sizeof(map->seed))
            map->seed[0] = (uintptr_t)map;
        map->is_seeded = true;
    }
    for (int i = 0; i < 4; i++)
        v[i] ^= map->seed[i % 2];
    for (; key.size >= 8; slice_skip(&key, 8))
        mix_word(v, word_of(key.data, 8));
    mix_word(v, size | (key.size > 0 ? word_of(key.data, key.size) : 0));
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        mix_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The table */

static struct map_node **
bucket_of(const struct map *map, uint64_t hash)
{
    return map->buckets ? &map->buckets[hash & map->mask]
                        : (struct map_node **)&map->only;
}

static void
put_node(struct map *map, struct map_node *node)
{
    struct map_node **bucket = bucket_of(map, node->hash);

    node->next = *bucket;
    *bucket = node;
}

/* Doubles the buckets, if there is memory. */
static void
grow_buckets(struct map *map)
{
    struct map more = *map;
    size_t n = map->buckets ? 2 * (map->mask + 1) : BUCKETS_MIN;
    struct map_node *node, *after;

    more.buckets = memory_new(n, sizeof(*more.buckets));
    if (!more.buckets)
        return;
    more.mask = n - 1;
    more.only = NULL;
    for (node = map_next(map, NULL); node; node = after) {
        after = map_next(map, node);
        put_node(&more, node);
    }
    free(map->buckets);
    *map = more;
}

void
map_add(struct map *map, struct map_node *node, uint64_t hash)
{
    if (map->n > map->mask)
        grow_buckets(map);
    node->hash = hash;
    put_node(map, node);
    map->n++;
}

void
map_remove(struct map *map, struct map_node *node)
{
    struct map_node **at = bucket_of(map, node->hash);

    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    node->next = NULL;
    map->n--;
}

static struct map_node *
first_of(struct map_node *node, uint64_t hash)
{
    while (node && node->hash != hash)
        node = node->next;
    return node;
}

struct map_node *
map_find(const struct map *map, uint64_t hash)
{
    return first_of(*bucket_of(map, hash), hash);
}

struct map_node *
map_same(const struct map_node *node)
{
    return first_of(node->next, node->hash);
}

struct map_node *
map_next(const struct map *map, const struct map_node *node)
{
    size_t i = 0;

    if (node && node->next)
        return node->next;
    if (!map->buckets)
        return node ? NULL : map->only;
    if (node)
        i = (node->hash & map->mask) + 1;
    while (i <= map->mask && !map->buckets[i])
        i++;
    return i <= map->mask ? map->buckets[i] : NULL;
}

void
map_fini(struct map *map)
{
    free(map->buckets);
    *map = (struct map){.n = 0};
}

/* Sets of texts */

struct text {
    struct map_node node;
    size_t size;
    char bytes[];
};

static struct text *
find_text(const struct text_set *set, struct slice text, uint64_t hash)
{
    struct text *t;

    map_each_same (t, &set->map, hash, node) {
        if (slice_equal(text, (struct slice){t->bytes, t->size}))
            return t;
    }
    return NULL;
}

enum status
text_set_add(struct text_set *set, struct slice text, bool *is_new)
{
    uint64_t hash = map_hash(&set->map, text);
    struct text *t;

    *is_new = !find_text(set, text, hash);
    if (!*is_new)
        return STATUS_OK;
    t = memory_room(sizeof(*t) + text.size);
    if (!t)
        return STATUS_MEMORY;
    t->size = text.size;
    if (text.size > 0)
        memcpy(t->bytes, text.data, text.size);
    map_add(&set->map, &t->node, hash);
    return STATUS_OK;
}

bool
text_set_has(const struct text_set *set, struct slice text)
{
    /* A map with nodes has its secret: nothing is changed here. */
    return set->map.n > 0 &&
           find_text(set, text, map_hash((struct map *)&set->map, text));
}

void
text_set_remove(struct text_set *set, struct slice text)
{
    struct text *t = find_text(set, text, map_hash(&set->map, text));

    if (t)
        map_remove(&set->map, &t->node);
    free(t);
}

void
text_set_fini(struct text_set *set)
{
    struct text *text;

    map_walk (text, &set->map, node)
        free(text);
    map_fini(&set->map);
}
