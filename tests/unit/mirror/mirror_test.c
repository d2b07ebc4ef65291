/*
 * mirror_test.c - what the parts of a mirror at work share.
 */
#include "client/mirror/mirror.h"

#include "tests/test.h"

static bool
is_too_much(int percent, uint64_t n, uint64_t n_of)
{
    struct td_sync_options wish = {.max_delete_percent = percent};
    struct td_sync_options filled;
    struct mirror m = {.options = &filled};

    mirror_defaults(&filled, &wish);
    return mirror_is_too_much(&m, n, n_of);
}

/* In an hour more may be deleted than there was at its beginning: 100 per cent
 * is no limit, or nobody could go on with what --max-delete offers. */
TEST(a_hundred_per_cent_is_no_limit)
{
    assert_true(is_too_much(0, 101, 500)); /* 20 */
    assert_false(is_too_much(0, 100, 500));
    assert_false(is_too_much(0, 99, 99)); /* few */
    assert_true(is_too_much(1, 100, 9999));
    assert_false(is_too_much(1, 100, 10000));
    assert_true(is_too_much(99, 500, 500));
    assert_false(is_too_much(100, 500, 500));
    assert_false(is_too_much(100, 500, 400));
    assert_false(is_too_much(-1, 500, 400));
    assert_true(is_too_much(20, 100, 0));
}
