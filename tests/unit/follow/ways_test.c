/*
 * ways_test.c - which transport is next.
 */
#include "client/follow/ways.h"

#include "tests/test.h"

#define ALL (TD_WEBSOCKET | TD_EVENTS | TD_LONG_POLL | TD_POLL)

/* the best transport that is left. */
TEST(the_best_that_is_open_is_taken)
{
    struct ways ways = {.open = ALL};

    assert_int_equal(ways_choose(&ways, 0), TD_WEBSOCKET);
    ways_open(&ways, TD_LONG_POLL | TD_POLL);
    assert_int_equal(ways_choose(&ways, 0), TD_LONG_POLL);
    ways_open(&ways, 0);
    assert_int_equal(ways_choose(&ways, 0), 0);
}

/* a transport that fails is replaced by the next one, and remembered. */
TEST(what_is_unfit_is_left_for_the_next)
{
    struct ways ways = {.open = ALL};

    ways_unfit(&ways, TD_WEBSOCKET, 1000);
    assert_int_equal(ways_choose(&ways, 1000), TD_EVENTS);
    ways_unfit(&ways, TD_EVENTS, 1000);
    assert_int_equal(ways_choose(&ways, 1000), TD_LONG_POLL);
    ways_fit(&ways, TD_LONG_POLL);
    assert_int_equal(ways_choose(&ways, 1000), TD_LONG_POLL);
    ways_open(&ways, ALL);
    assert_int_equal(ways_choose(&ways, 1000), TD_LONG_POLL);
}

/* The better one is tried again after a while, ever more rarely if it stays
 * unfit; success clears its past. */
TEST(what_was_unfit_is_tried_again_after_a_while)
{
    struct ways ways = {.open = ALL};
    int64_t now = WAYS_AGAIN_FIRST_MS;

    ways_unfit(&ways, TD_WEBSOCKET, 0);
    assert_int_equal(ways_choose(&ways, now - 1), TD_EVENTS);
    assert_int_equal(ways_choose(&ways, now), TD_WEBSOCKET);

    ways_unfit(&ways, TD_WEBSOCKET, now);
    assert_int_equal(ways_choose(&ways, 3 * now - 1), TD_EVENTS);
    assert_int_equal(ways_choose(&ways, 3 * now), TD_WEBSOCKET);
    for (int i = 0; i < 100; i++)
        ways_unfit(&ways, TD_WEBSOCKET, now);
    assert_int_equal(ways_choose(&ways, now + WAYS_AGAIN_LAST_MS - 1),
                     TD_EVENTS);
    assert_int_equal(ways_choose(&ways, now + WAYS_AGAIN_LAST_MS),
                     TD_WEBSOCKET);

    ways_fit(&ways, TD_WEBSOCKET);
    ways_unfit(&ways, TD_WEBSOCKET, 0);
    assert_int_equal(ways_choose(&ways, now), TD_WEBSOCKET);
}

TEST(when_none_is_left_all_may_be_tried_again)
{
    struct ways ways = {.open = TD_WEBSOCKET | TD_EVENTS};

    ways_unfit(&ways, TD_WEBSOCKET, 0);
    ways_unfit(&ways, TD_EVENTS, 0);
    assert_int_equal(ways_choose(&ways, 0), 0);
    ways_forget(&ways);
    assert_int_equal(ways_choose(&ways, 0), TD_WEBSOCKET);
}
