/*
 * store_order_test.c - the store when lists are filed in any order, and of
 * several sets.
 */

#include "broker/store/store.h"
#include "tests/test.h"
#include "tests/unit/store/stored.h"

#define EACH 5U /* entries of a batch */

/* Nine batches of one set: list 1 has the first three, list 2 the next three,
 * and the open list the rest. */
static void
open_with_two_closed_lists(struct world *w)
{
    world_open(w, 9, EACH);
    commit_batches(w, 0, 9);
    for (size_t i = 0; i < 2; i++) {
        const struct list_info info = list_of(w, i + 1, 3 * i, 3 * i + 3);

        commit_end(w, &info, "header");
    }
}

/* Every entry is in a row, or in a list that has a file. */
static void
assert_nothing_is_missing(struct world *w)
{
    for (uint64_t after = 0; after < (uint64_t)9 * EACH; after++) {
        struct list_info info;
        struct batch *b;

        assert_int_equal(ENGINE(w, read, w->set, after, &b, NULL), STATUS_OK);
        if (b)
            batch_unref(b);
        else
            assert_int_equal(
                ENGINE(w, list_of, w->set, after + 1, &info, NULL, NULL),
                STATUS_OK);
    }
}

FIXTURE(world_setup, world_teardown);

/* R-149, log.md, lists: rows go up to the first list without a file, whichever
 * later lists are filed. */
TEST(keeps_the_rows_of_a_list_that_is_filed_after_a_later_one)
{
    struct world *w = *state;

    open_with_two_closed_lists(w);

    commit_filed(w, 2, SLICE("marks"));
    forget_all(w);
    assert_int_equal(count_batches(w), 9);
    assert_int_equal(read_on(w, 0), 9 * EACH);
    assert_nothing_is_missing(w);

    commit_filed(w, 1, SLICE("marks"));
    forget_all(w);
    assert_int_equal(count_batches(w), 3);
    assert_int_equal(read_on(w, 6 * EACH), 9 * EACH);
    assert_nothing_is_missing(w);
}

/* The same for the rows that a start forgets. */
TEST(keeps_the_rows_of_a_list_without_a_file_after_a_restart)
{
    struct world *w = *state;

    open_with_two_closed_lists(w);
    commit_filed(w, 2, SLICE("marks"));

    reopen(w);
    forget_all(w);
    assert_int_equal(count_batches(w), 9);
    assert_int_equal(read_on(w, 0), 9 * EACH);
    assert_nothing_is_missing(w);

    commit_filed(w, 1, SLICE("marks"));
    reopen(w);
    forget_all(w);
    assert_int_equal(count_batches(w), 3);
    assert_nothing_is_missing(w);
}

/* A set that has the world's batches, all in closed lists of three. */
static uint32_t
commit_set(struct world *w, const char *name)
{
    struct act acts[13];
    struct list_info info;
    uint32_t id;
    size_t n = 0;

    acts[n++] = birth(w, name, &id);
    for (size_t i = 0; i < 3; i++) {
        for (size_t b = 3 * i; b < 3 * i + 3; b++)
            acts[n++] = batch_of(id, w->chain[b]);
        info = list_of(w, i + 1, 3 * i, 3 * i + 3);
        acts[n++] = end_of(id, &info, name);
    }
    commit_acts(w, acts, n);
    return id;
}

/* Asserts that the next list to file is `number` of the set with this id, and
 * that its header is the set's name. */
static void
assert_unfiled(struct world *w, uint32_t id, const char *name, uint64_t number)
{
    struct list_info info;
    struct buf header;
    uint32_t set = 0;

    buf_init(&header, 100);
    assert_int_equal(ENGINE(w, unfiled, &set, &info, &header, NULL), STATUS_OK);
    assert_int_equal(set, id);
    assert_int_equal(info.number, number);
    assert_true(slice_is(buf_slice(&header), name));
    buf_fini(&header);
}

static void
file(struct world *w, uint32_t id, uint64_t number)
{
    w->set = id;
    commit_filed(w, number, SLICE("marks"));
}

/* engine.h: a set whose list cannot be filed does not hold up the others, and
 * the lists of each set come in order. */
TEST(gives_sets_turns_and_the_lists_of_each_in_order)
{
    struct list_info info;
    struct buf header;
    struct world *w = *state;
    uint32_t a, b, c, set;

    world_open(w, 9, EACH);
    a = commit_set(w, "a");
    b = commit_set(w, "b");
    c = commit_set(w, "c");

    /* Nothing can be filed. */
    for (int round = 0; round < 2; round++) {
        assert_unfiled(w, a, "a", 1);
        assert_unfiled(w, b, "b", 1);
        assert_unfiled(w, c, "c", 1);
    }

    /* All but those of a can. */
    for (uint64_t number = 1; number <= 3; number++) {
        assert_unfiled(w, a, "a", 1);
        assert_unfiled(w, b, "b", number);
        file(w, b, number);
        assert_unfiled(w, c, "c", number);
        file(w, c, number);
    }

    /* Then those, too. */
    for (uint64_t number = 1; number <= 3; number++) {
        assert_unfiled(w, a, "a", number);
        file(w, a, number);
    }
    buf_init(&header, 100);
    for (int again = 0; again < 2; again++)
        assert_int_equal(ENGINE(w, unfiled, &set, &info, &header, NULL),
                         STATUS_NOT_FOUND);
    forget_all(w);
    assert_int_equal(count_batches(w), 0);
    buf_fini(&header);
}

/* A set's oldest list is the first, not the one that was closed last, even if a
 * later one has its file already. */
TEST(gives_the_oldest_list_of_a_set_that_has_no_file)
{
    struct world *w = *state;
    uint32_t a;

    world_open(w, 9, EACH);
    a = commit_set(w, "a");
    file(w, a, 2);
    assert_unfiled(w, a, "a", 1);

    reopen(w);
    assert_unfiled(w, a, "a", 1);
    file(w, a, 1);
    assert_unfiled(w, a, "a", 3);
}
