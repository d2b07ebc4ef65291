#include "base/clock.h"

#include <sys/stat.h>

#include "tests/clock.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

TEST(both_clocks_count_microseconds)
{
    int64_t now_us = clock_now_us(), steady_us = clock_steady_us();

    clock_pass_us(1234567);
    assert_int_equal(clock_now_us(), now_us + 1234567);
    assert_int_equal(clock_steady_us(), steady_us + 1234567);
}

TEST(the_steady_clock_does_not_follow_the_administrator)
{
    int64_t now_us = clock_now_us(), steady_us = clock_steady_us();

    clock_set_us(-3600000001);
    assert_int_equal(clock_now_us(), now_us - 3600000001);
    assert_int_equal(clock_steady_us(), steady_us);
    clock_set_us(3600000001);
}

/* 1970 is where it begins to count, in UTC. */
TEST(now_is_the_time_since_1970)
{
    struct stat file;
    struct tempdir dir;

    tempdir_open(&dir);
    assert_int_equal(fstat(dir.fd, &file), 0);
    assert_in_range(clock_now_us() / 1000000, file.st_mtime,
                    file.st_mtime + 2 * 86400);
    tempdir_close(&dir);
}
