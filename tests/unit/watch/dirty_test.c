/*
 * dirty_test.c - the paths that were not looked at yet.
 */
#include "client/watch/dirty.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

TEST(hands_out_each_path_once_in_order)
{
    struct dirty dirty;
    char path[LOCS_PATH_MAX + 1];

    dirty_init(&dirty);
    assert_true(dirty_add(&dirty, "b"));
    assert_true(dirty_add(&dirty, "a"));
    assert_true(dirty_add(&dirty, "b"));
    assert_true(dirty_add(&dirty, "c"));

    assert_true(dirty_take(&dirty, path));
    assert_string_equal(path, "b");
    assert_true(dirty_add(&dirty, "b")); /* heard of again: again */
    assert_true(dirty_take(&dirty, path));
    assert_string_equal(path, "a");
    assert_true(dirty_take(&dirty, path));
    assert_string_equal(path, "c");
    assert_true(dirty_take(&dirty, path));
    assert_string_equal(path, "b");
    assert_false(dirty_take(&dirty, path));
    assert_int_equal(dirty.bytes, 0);
    dirty_clear(&dirty);
}

TEST(is_bounded_and_usable_after_being_emptied)
{
    struct dirty dirty;
    char path[LOCS_PATH_MAX + 1];
    unsigned n = 0;

    dirty_init(&dirty);
    do
        snprintf(path, sizeof(path), "folder/%u", n);
    while (dirty_add(&dirty, path) && ++n < 10000000);
    assert_in_range(n, 10000, DIRTY_BYTES_MAX / 10);

    dirty_clear(&dirty);
    assert_int_equal(dirty.bytes, 0);
    assert_false(dirty_take(&dirty, path));
    assert_true(dirty_add(&dirty, "again"));
    assert_true(dirty_take(&dirty, path));
    assert_string_equal(path, "again");
    dirty_clear(&dirty);
}
