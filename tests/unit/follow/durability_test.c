/*
 * durability_test.c - a position that was written survives a power failure.
 */
#include <stdio.h>

#include "client/tidings.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/base/syncs.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* Without the last step the old position could come back, and changes
 * with it. */
TEST(a_position_is_on_the_disk_when_it_is_written)
{
    struct td_client *client = td_open();
    char path[300];

    snprintf(path, sizeof(path), "%s/position", tempdir_path(state));
    syncs_begin();

    assert_int_equal(td_position_write(client, path, "0123456789abcdef-17"),
                     TD_OK);

    assert_true(syncs_keep_file(tempdir_fd(state), "position"));
    td_close(client);
}
