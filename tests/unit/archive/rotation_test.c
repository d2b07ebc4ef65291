#include "broker/archive/rotation.h"

#include <unistd.h>

#include "tests/clock.h"
#include "tests/support/chores.h"
#include "tests/test.h"
#include "tests/unit/sets/stage.h"

#define LISTS 20

FIXTURE(stage_configure, stage_close);

/* Closed lists of the set that have a file. */
static unsigned
count_filed(void)
{
    struct list_info lists[LISTS];
    size_t n = LISTS;
    unsigned n_filed = 0;

    assert_int_equal(log_lists(s.registry->log, sets_find(&s, "demo")->log, 1,
                               lists, &n, NULL),
                     STATUS_OK);
    for (size_t i = 0; i < n; i++)
        n_filed += lists[i].is_filed;
    return n_filed;
}

/* the archive thread tries again once a second to write a list's file,
 * also if it comes round more often. */
TEST(tries_to_file_a_list_once_a_second)
{
    struct rotation rotation;

    s.config.rotate_entries = 2;
    sets_open(&s);
    sets_post(&s, "demo", 1, 4);
    tempdir_write(tempdir_fd(state), "sets", "in the way");
    rotation_init(&rotation, s.registry);
    for (unsigned n = 1; n <= 3; n++) {
        assert_false(chore_step(&rotation.chore));
        assert_false(chore_step(&rotation.chore));
        assert_int_equal(rotation.n_failures, n);
        clock_pass_us(1000000);
    }

    assert_int_equal(unlinkat(tempdir_fd(state), "sets", 0), 0);
    assert_false(chore_step(&rotation.chore));
    assert_int_equal(rotation.n_failures, 0);
    assert_int_equal(count_filed(), 2);
}

/* The archive thread folds between two calls, for up to a second: so a call
 * files as many lists as that time allows, not only one. Here it takes no
 * time. */
TEST(files_all_lists_that_there_is_time_for)
{
    struct rotation rotation;

    s.config.rotate_entries = 1;
    sets_open(&s);
    sets_post(&s, "demo", 1, LISTS);
    rotation_init(&rotation, s.registry);
    assert_false(chore_step(&rotation.chore));
    assert_int_equal(count_filed(), LISTS);
}
