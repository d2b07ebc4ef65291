/*
 * transport_choice_test.c - which transport is next.
 */
#include "client/follow/transport_choice.h"

#include "tests/test.h"

#define ALL (TD_WEBSOCKET | TD_EVENTS | TD_LONG_POLL | TD_POLL)

/* the best transport that is left. */
TEST(the_best_that_is_open_is_taken)
{
    struct transport_choice ways = {.open = ALL};

    assert_int_equal(transport_choice_choose(&ways, 0), TD_WEBSOCKET);
    ways.open = TD_LONG_POLL | TD_POLL;
    assert_int_equal(transport_choice_choose(&ways, 0), TD_LONG_POLL);
    ways.open = 0;
    assert_int_equal(transport_choice_choose(&ways, 0), 0);
}

/* a transport that fails is replaced by the next one, and remembered. */
TEST(what_is_unfit_is_left_for_the_next)
{
    struct transport_choice ways = {.open = ALL};

    transport_choice_unfit(&ways, TD_WEBSOCKET, 1000);
    assert_int_equal(transport_choice_choose(&ways, 1000), TD_EVENTS);
    transport_choice_unfit(&ways, TD_EVENTS, 1000);
    assert_int_equal(transport_choice_choose(&ways, 1000), TD_LONG_POLL);
    transport_choice_fit(&ways, TD_LONG_POLL);
    assert_int_equal(transport_choice_choose(&ways, 1000), TD_LONG_POLL);
    ways.open = ALL;
    assert_int_equal(transport_choice_choose(&ways, 1000), TD_LONG_POLL);
}

/* The better one is tried again after a while, ever more rarely if it stays
 * unfit; success clears its past. */
TEST(what_was_unfit_is_tried_again_after_a_while)
{
    struct transport_choice ways = {.open = ALL};
    int64_t now = TRANSPORT_CHOICE_AGAIN_FIRST_MS;

    transport_choice_unfit(&ways, TD_WEBSOCKET, 0);
    assert_int_equal(transport_choice_choose(&ways, now - 1), TD_EVENTS);
    assert_int_equal(transport_choice_choose(&ways, now), TD_WEBSOCKET);

    transport_choice_unfit(&ways, TD_WEBSOCKET, now);
    assert_int_equal(transport_choice_choose(&ways, 3 * now - 1), TD_EVENTS);
    assert_int_equal(transport_choice_choose(&ways, 3 * now), TD_WEBSOCKET);
    for (int i = 0; i < 100; i++)
        transport_choice_unfit(&ways, TD_WEBSOCKET, now);
    assert_int_equal(transport_choice_choose(
                         &ways, now + TRANSPORT_CHOICE_AGAIN_LAST_MS - 1),
                     TD_EVENTS);
    assert_int_equal(
        transport_choice_choose(&ways, now + TRANSPORT_CHOICE_AGAIN_LAST_MS),
        TD_WEBSOCKET);

    transport_choice_fit(&ways, TD_WEBSOCKET);
    transport_choice_unfit(&ways, TD_WEBSOCKET, 0);
    assert_int_equal(transport_choice_choose(&ways, now), TD_WEBSOCKET);
}

TEST(when_none_is_left_all_may_be_tried_again)
{
    struct transport_choice ways = {.open = TD_WEBSOCKET | TD_EVENTS};

    transport_choice_unfit(&ways, TD_WEBSOCKET, 0);
    transport_choice_unfit(&ways, TD_EVENTS, 0);
    assert_int_equal(transport_choice_choose(&ways, 0), 0);
    transport_choice_forget(&ways);
    assert_int_equal(transport_choice_choose(&ways, 0), TD_WEBSOCKET);
}
