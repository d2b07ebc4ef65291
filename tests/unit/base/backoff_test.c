#include "base/clock.h"
#include "tests/test.h"

#define SECOND ((int64_t)1000000)

static const struct backoff b = {SECOND, 100 * SECOND};

/* W-089: twice as long with each failure, up to the longest, for any number of
 * failures. */
TEST(doubles_up_to_the_longest)
{
    assert_int_equal(backoff_pause(&b, 1, 0), SECOND);
    assert_int_equal(backoff_pause(&b, 2, 0), 2 * SECOND);
    assert_int_equal(backoff_pause(&b, 7, 0), 64 * SECOND);
    assert_int_equal(backoff_pause(&b, 8, 0), 100 * SECOND);
    assert_int_equal(backoff_pause(&b, 4000000000u, 0), 100 * SECOND);
}

/* W-089: random, between a half and all of it, at the longest, too. */
TEST(is_spread_over_the_second_half)
{
    assert_int_equal(backoff_pause(&b, 1, UINT32_MAX), SECOND / 2);
    assert_int_equal(backoff_pause(&b, 100, UINT32_MAX), 50 * SECOND);
    assert_in_range(backoff_pause(&b, 3, UINT32_MAX / 2), 3 * SECOND - 1,
                    3 * SECOND + 1);
}

/* Settings at their ends: the first pause is longer than the longest, and both
 * are as long as can be. */
TEST(stays_within_any_settings)
{
    const struct backoff odd = {10 * SECOND, SECOND};
    const struct backoff long_one = {INT64_MAX / 2, INT64_MAX};

    assert_int_equal(backoff_pause(&odd, 1, 0), SECOND);
    assert_int_equal(backoff_pause(&odd, 9, 0), SECOND);
    assert_in_range(backoff_pause(&long_one, 9, UINT32_MAX), 1, INT64_MAX);
}

/* W-089: a longer Retry-After of the callback counts; nothing is later than the
 * end. */
TEST(is_neither_too_early_nor_after_the_end)
{
    assert_int_equal(backoff_next(1000, 10, 0, 5000), 1010);
    assert_int_equal(backoff_next(1000, 10, 100, 5000), 1100);
    assert_int_equal(backoff_next(1000, 200, 100, 5000), 1200);
    assert_int_equal(backoff_next(1000, 10, 90000, 5000), 5000);
    assert_int_equal(backoff_next(1000, INT64_MAX, 0, 5000), 5000);
    assert_int_equal(backoff_next(6000, 10, 0, 5000), 6000);
}
