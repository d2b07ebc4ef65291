#include "broker/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

static int64_t
a_moment(void)
{
    return 1774980600125000;
}

static void
now_is_the_time_of_the_system_in_microseconds(void **state)
{
    time_t before = time(NULL);
    int64_t now = clock_now_us();

    (void)state;
    /* time() may lag the precise clock by a tick, never lead it by a second. */
    assert_in_range(now / 1000000, before, before + 10);
}

static void
the_steady_clock_never_goes_back(void **state)
{
    int64_t last = clock_steady_us();

    (void)state;
    for (int i = 0; i < 1000; i++) {
        int64_t now = clock_steady_us();

        assert_true(now >= last);
        last = now;
    }
}

static void
a_replaced_clock_answers_until_the_real_one_is_back(void **state)
{
    (void)state;

    clock_replace(a_moment);
    assert_int_equal(clock_now_us(), 1774980600125000);

    clock_replace(NULL);
    assert_int_not_equal(clock_now_us(), 1774980600125000);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(now_is_the_time_of_the_system_in_microseconds),
        cmocka_unit_test(the_steady_clock_never_goes_back),
        cmocka_unit_test(a_replaced_clock_answers_until_the_real_one_is_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
