#include "broker/archive/rotate.h"

#include <unistd.h>

#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/sets/stage.h"

FIXTURE(stage_configure, stage_close);

/* a list whose file cannot be written is tried again once a second, also
 * when the archive thread comes round more often. */
TEST(tries_to_file_a_list_once_a_second)
{
    struct rotation rotation = {.n_failures = 0};

    s.config.rotate_entries = 2;
    sets_open(&s);
    sets_post(&s, "demo", 1, 4);
    tempdir_write(tempdir_fd(state), "sets", "in the way");
    rotation_init(&rotation, s.registry);
    for (unsigned n = 1; n <= 3; n++) {
        assert_false(rotate_file_one(&rotation));
        assert_false(rotate_file_one(&rotation));
        assert_int_equal(rotation.n_failures, n);
        clock_pass_us(1000000);
    }

    assert_int_equal(unlinkat(tempdir_fd(state), "sets", 0), 0);
    assert_true(rotate_file_one(&rotation));
    assert_true(rotate_file_one(&rotation));
    assert_false(rotate_file_one(&rotation));
    assert_int_equal(rotation.n_failures, 0);
}
