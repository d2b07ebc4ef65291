/*
 * durability_test.c - new files survive a power failure.
 */
#include <stdio.h>

#include "base/file.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/base/syncs.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* bytes, then name, then directory. */
TEST(a_new_file_is_on_the_disk_before_it_has_its_name)
{
    struct file_new file;

    syncs_begin();
    assert_int_equal(file_begin(&file, tempdir_fd(state), "a", NULL), 0);
    assert_int_equal(file_append(&file, SLICE("bytes"), NULL), 0);
    assert_int_equal(file_finish(&file, NULL), 0);
    assert_false(syncs_keep_file(tempdir_fd(state), "a"));
    assert_int_equal(file_sync_dir(tempdir_fd(state), NULL), 0);
    assert_true(syncs_keep_file(tempdir_fd(state), "a"));
}

/* A process that was killed before it could sync may have made the
 * directory. */
TEST(the_names_of_new_directories_are_on_the_disk)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/a/b", tempdir_path(state));
    syncs_begin();
    assert_int_equal(file_make_dirs(path, NULL), STATUS_OK);
    assert_true(syncs_keep_directory(tempdir_fd(state), ""));
    assert_true(syncs_keep_directory(tempdir_fd(state), "a"));
}
