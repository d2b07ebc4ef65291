#include "base/map.h"

#include "tests/test.h"

#define MANY 1000

struct thing {
    struct map_node node;
    unsigned number, n_seen;
};

static struct thing *
find_number(const struct map *map, uint64_t hash, unsigned number)
{
    struct map_node *node = map_find(map, hash);

    while (node && map_entry(node, struct thing, node)->number != number)
        node = map_same(node);
    return node ? map_entry(node, struct thing, node) : NULL;
}

/* Adds things whose hashes are h(0), h(1), ... */
static void
add_things(struct map *map, struct thing *things, uint64_t (*h)(unsigned))
{
    for (unsigned i = 0; i < MANY; i++) {
        things[i] = (struct thing){.number = i};
        map_add(map, &things[i].node, h(i));
        assert_int_equal(map->n, i + 1);
    }
}

static uint64_t
number_itself(unsigned number)
{
    return number;
}

/* Seven hashes, in one bucket. */
static uint64_t
few_values(unsigned number)
{
    return (uint64_t)(number % 7) << 32;
}

/* The hashes are those of CPython 3.11 with PYTHONHASHSEED=0. */
TEST(hashes_are_siphash)
{
    static const struct {
        const char *key;
        uint64_t hash;
    } rows[] = {
        {"a", 0x407448d2b89b1813},
        {"abcdefg", 0x6db12aae9070f506},
        {"abcdefgh", 0x3f7b849c0b8e35ea},
        {"https://subscriber.example/callback?id=17", 0x2175697fe9013639},
    };
    struct map map = {.is_seeded = true};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(map_hash(&map, slice_of(rows[i].key)), rows[i].hash);
}

TEST(each_map_has_a_secret_of_its_own)
{
    struct map a = {.n = 0}, b = {.n = 0};
    uint64_t hash = map_hash(&a, SLICE("key"));

    assert_int_not_equal(hash, map_hash(&b, SLICE("key")));
    assert_int_equal(hash, map_hash(&a, SLICE("key")));
    assert_int_not_equal(hash, map_hash(&a, SLICE("")));
    assert_int_equal(map_hash(&a, (struct slice){NULL, 0}),
                     map_hash(&a, SLICE("")));
}

TEST(what_was_added_is_found_until_it_is_removed)
{
    static uint64_t (*const hashes[])(unsigned) = {number_itself, few_values};
    static struct thing things[MANY];

    for (size_t h = 0; h < 2; h++) {
        struct map map = {.n = 0};

        assert_null(map_find(&map, 0));
        add_things(&map, things, hashes[h]);
        for (unsigned i = 0; i < MANY; i += 2)
            map_remove(&map, &things[i].node);

        assert_int_equal(map.n, MANY / 2);
        for (unsigned i = 0; i < MANY; i++)
            assert_ptr_equal(find_number(&map, hashes[h](i), i),
                             i % 2 ? &things[i] : NULL);
        assert_null(map_find(&map, MANY));
        map_fini(&map);
        assert_null(map_find(&map, 1));
    }
}

TEST(a_walk_meets_each_node_once_and_may_remove_it)
{
    static struct thing things[MANY];
    struct thing *thing;
    struct map map = {.n = 0};

    map_walk (thing, &map, node)
        fail();
    add_things(&map, things, number_itself);
    map_walk (thing, &map, node) {
        thing->n_seen++;
        if (thing->number > 0)
            map_remove(&map, &thing->node);
    }

    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(things[i].n_seen, 1);
    assert_int_equal(map.n, 1);
    assert_ptr_equal(map_next(&map, NULL), &things[0].node);
    assert_null(map_next(&map, &things[0].node));
    map_fini(&map);
}

TEST(a_set_has_each_text_once)
{
    struct text_set set = {.map.n = 0};
    char text[] = "https://a.example/1";
    bool is_new;

    assert_false(text_set_has(&set, slice_of(text)));
    assert_int_equal(text_set_add(&set, slice_of(text), &is_new), STATUS_OK);
    assert_true(is_new);
    assert_int_equal(text_set_add(&set, SLICE(""), &is_new), STATUS_OK);
    assert_true(is_new);
    assert_int_equal(text_set_add(&set, slice_of(text), &is_new), STATUS_OK);
    assert_false(is_new);
    text[0] = 'x';

    assert_false(text_set_has(&set, slice_of(text)));
    assert_true(text_set_has(&set, SLICE("https://a.example/1")));
    text_set_remove(&set, SLICE("https://a.example/1"));
    text_set_remove(&set, slice_of(text));
    assert_false(text_set_has(&set, SLICE("https://a.example/1")));
    assert_int_equal(set.map.n, 1);
    text_set_fini(&set);
}
