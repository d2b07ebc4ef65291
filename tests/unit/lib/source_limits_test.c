#include "client/lib/source_limits.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/tempdir.h"
#include "tests/test.h"

FIXTURE(tempdir_setup, tempdir_teardown);

TEST(nothing_is_limited_unless_it_is_said)
{
    struct source_limits room = {.kept = UINT64_MAX / 2,
                                 .coming = UINT64_MAX / 4};
    struct problem why;

    problem_clear(&why);
    assert_int_equal(source_limits_look(&room, -1, UINT64_MAX / 2, &why),
                     STATUS_OK);
    assert_int_equal(source_limits_check_total(&room, UINT64_MAX, &why),
                     STATUS_OK);
    assert_int_equal(source_limits_check_resources(&room, UINT64_MAX, &why),
                     STATUS_OK);
    assert_int_equal(why.rc, STATUS_OK);
}

TEST(a_mirror_may_have_so_many_bytes_and_resources)
{
    static const struct {
        uint64_t kept, coming, more;
        enum status rc;
    } rows[] = {
        {0, 0, 100, STATUS_OK},         {0, 0, 101, STATUS_IO},
        {50, 50, 0, STATUS_OK},         {50, 49, 1, STATUS_OK},
        {50, 50, 1, STATUS_IO},         {101, 0, 0, STATUS_IO},
        {50, 0, UINT64_MAX, STATUS_IO}, /* the most that a source can state */
    };
    struct source_limits room = {
        .limits = {.max_total_bytes = 100, .max_resources = 10}};
    struct problem why;

    problem_clear(&why);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        room.kept = rows[i].kept;
        room.coming = rows[i].coming;
        assert_int_equal(source_limits_check_total(&room, rows[i].more, &why),
                         rows[i].rc);
    }
    assert_int_equal(source_limits_check_resources(&room, 10, &why), STATUS_OK);
    assert_false(why.is_limit);
    assert_int_equal(source_limits_check_resources(&room, 11, &why),
                     STATUS_REFUSED);
    assert_true(why.is_limit);
    room = (struct source_limits){.limits = room.limits};
    assert_int_equal(room.kept, 0);
    assert_int_equal(source_limits_check_resources(&room, 11, &why),
                     STATUS_REFUSED);
}

/* No disk has that much. The room is measured again after each MiB written, and
 * at once after it was too little. */
TEST(a_disk_keeps_what_is_to_stay_free)
{
    struct source_limits room = {.limits = {.min_free_bytes = 1}};
    struct problem why;
    int dir = tempdir_fd(state);

    problem_clear(&why);
    assert_int_equal(source_limits_look(&room, dir, 1, &why), STATUS_OK);
    room.limits.min_free_bytes = UINT64_MAX - 1;
    assert_int_equal(source_limits_look(&room, dir, 1024 * 1024 - 1, &why),
                     STATUS_OK);
    assert_int_equal(source_limits_look(&room, dir, 1, &why), STATUS_IO);
    assert_non_null(strstr(why.text, "--min-free"));
    assert_int_equal(source_limits_look(&room, dir, 1, &why), STATUS_IO);
    room.limits.min_free_bytes = 1;
    assert_int_equal(source_limits_look(&room, dir, 1, &why), STATUS_OK);
    assert_int_equal(source_limits_look_at(&room, tempdir_path(state), 1, &why),
                     STATUS_OK);
}

/* The name of the directory, the limit and the option are in the message. */
TEST(a_message_names_the_disk_that_has_too_little)
{
    struct source_limits room = {.limits = {.min_free_bytes = UINT64_MAX}};
    struct problem why;
    char expected[400];

    problem_clear(&why);
    assert_int_equal(source_limits_look_at(&room, tempdir_path(state), 0, &why),
                     STATUS_IO);
    assert_true(why.is_limit);
    snprintf(expected, sizeof(expected), "%s: the disk has ",
             tempdir_path(state));
    assert_int_equal(strncmp(why.text, expected, strlen(expected)), 0);
    assert_non_null(
        strstr(why.text, "and --min-free keeps 17592186044415 MiB"));
    assert_int_equal(source_limits_look_at(&room, "/no/such/file", 0, &why),
                     STATUS_OK);
}
