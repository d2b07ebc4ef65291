/*
 * path_queue_test.c - the paths that were not looked at yet.
 */
#include <stdio.h>
#include <string.h>

#include "client/watch/file_uri.h"
#include "tests/test.h"

TEST(hands_out_each_path_once_in_order)
{
    struct path_queue dirty = {.bytes = 0};
    char path[FILE_URI_PATH_MAX + 1];

    list_init(&dirty.paths);
    assert_true(path_queue_add(&dirty, "b"));
    assert_true(path_queue_add(&dirty, "a"));
    assert_true(path_queue_add(&dirty, "b"));
    assert_true(path_queue_add(&dirty, "c"));

    assert_true(path_queue_take(&dirty, path));
    assert_string_equal(path, "b");
    assert_true(path_queue_add(&dirty, "b")); /* heard of again: again */
    assert_true(path_queue_take(&dirty, path));
    assert_string_equal(path, "a");
    assert_true(path_queue_take(&dirty, path));
    assert_string_equal(path, "c");
    assert_true(path_queue_take(&dirty, path));
    assert_string_equal(path, "b");
    assert_false(path_queue_take(&dirty, path));
    assert_int_equal(dirty.bytes, 0);
    path_queue_clear(&dirty);
}

TEST(is_bounded_and_usable_after_being_emptied)
{
    struct path_queue dirty = {.bytes = 0};
    char path[FILE_URI_PATH_MAX + 1];
    unsigned n = 0;

    list_init(&dirty.paths);
    do
        snprintf(path, sizeof(path), "folder/%u", n);
    while (path_queue_add(&dirty, path) && ++n < 10000000);
    assert_in_range(n, 10000, PATH_QUEUE_BYTES_MAX / 10);

    path_queue_clear(&dirty);
    assert_int_equal(dirty.bytes, 0);
    assert_false(path_queue_take(&dirty, path));
    assert_true(path_queue_add(&dirty, "again"));
    assert_true(path_queue_take(&dirty, path));
    assert_string_equal(path, "again");
    path_queue_clear(&dirty);
}
