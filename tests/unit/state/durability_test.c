/*
 * durability_test.c - the content of a set survives a power failure.
 */
#include <stdio.h>
#include <string.h>

#include "broker/state/content_files.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/base/syncs.h"

FIXTURE(tempdir_setup, tempdir_teardown);

TEST(content_is_on_the_disk_with_all_directories_above_it)
{
    struct content_touched touched = {{0}};
    char arriving[300], set[300], path[128], digest[DIGEST_TEXT_SIZE + 1] = "";
    struct arriving a;

    snprintf(arriving, sizeof(arriving), "%s/arriving", tempdir_path(state));
    snprintf(set, sizeof(set), "%s/set", tempdir_path(state));
    assert_int_equal(arriving_clear(arriving, NULL), STATUS_OK);
    syncs_begin();

    assert_int_equal(arriving_begin(&a, arriving, SLICE(""), LENGTH_NONE, NULL),
                     STATUS_OK);
    assert_int_equal(arriving_add(&a, SLICE("bytes"), NULL), STATUS_OK);
    assert_int_equal(arriving_end(&a, NULL), STATUS_OK);
    assert_int_equal(content_file_place(set, &a, NULL), STATUS_OK);
    content_touch(&touched, &a.digest);
    assert_int_equal(content_files_sync(set, &touched, NULL), STATUS_OK);

    digest_write(digest, &a.digest);
    snprintf(path, sizeof(path), "set/content/%.2s/%s",
             strrchr(digest, ':') + 1, strrchr(digest, ':') + 1);
    assert_true(syncs_keep_file(tempdir_fd(state), path));
    assert_true(syncs_keep_directory(tempdir_fd(state), "set/content"));
    assert_true(syncs_keep_directory(tempdir_fd(state), "set"));
}
