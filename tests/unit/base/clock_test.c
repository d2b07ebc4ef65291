#include "broker/base/clock.h"

#include <time.h>

#include "tests/test.h"

static int64_t
a_moment(void)
{
    return 1774980600125000;
}

TEST(now_is_the_time_of_the_system_in_microseconds)
{
    time_t before = time(NULL);
    int64_t now = clock_now_us();

    /* time() may lag the precise clock by a tick, never lead it by a second. */
    assert_in_range(now / 1000000, before, before + 10);
}

TEST(the_steady_clock_never_goes_back)
{
    int64_t last = clock_steady_us();

    for (int i = 0; i < 1000; i++) {
        int64_t now = clock_steady_us();

        assert_true(now >= last);
        last = now;
    }
}

TEST(a_replaced_clock_answers_until_the_real_one_is_back)
{
    clock_replace(a_moment);
    assert_int_equal(clock_now_us(), 1774980600125000);

    clock_replace(NULL);
    assert_int_not_equal(clock_now_us(), 1774980600125000);
}
