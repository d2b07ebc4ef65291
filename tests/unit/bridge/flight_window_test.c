/*
 * flight_window_test.c - which messages count as in flight, which are held, and
 * for how long.
 */
#include "broker/bridge/flight_window.h"

#include "broker/bridge/lane.h"
#include "broker/bridge/outbound.h"
#include "tests/test.h"

#define MAX 4

static struct flight_window w;
static struct lane lane;

/* A message of the lane, published as `mid`. */
static struct flight *
send_one(int mid, size_t bytes)
{
    struct flight *flight = flight_window_add(&w, FLIGHT_MESSAGE, &lane, bytes);

    assert_non_null(flight);
    list_append(&lane.flights, &flight->node);
    flight_window_sent(&w, flight, mid);
    return flight;
}

static int
open_window(void **state)
{
    (void)state;
    lane = (struct lane){.set = NULL};
    list_init(&lane.flights);
    flight_window_init(&w, MAX);
    return 0;
}

static int
close_window(void **state)
{
    (void)state;
    flight_window_orphan(&w, &lane.flights);
    flight_window_fini(&w);
    return 0;
}

FIXTURE(open_window, close_window);

/* A missing acknowledgement must not make the window grow. */
TEST(what_is_held_out_of_turn_is_bounded)
{
    int mid = 1;

    send_one(mid, 10);
    while (flight_window_has_room(&w) && mid < 10 * MAX) {
        send_one(++mid, 10);
        assert_non_null(flight_window_take(&w, mid));
    }
    assert_int_equal(mid, 2 * MAX);
    assert_int_equal(w.in_flight, 1);
    assert_int_equal(w.bytes, 10);
}

TEST(it_is_full_by_number_and_by_bytes)
{
    int mid = 0;

    while (flight_window_has_room(&w))
        send_one(++mid, 10);
    assert_int_equal(mid, MAX);
    assert_null(flight_window_take(&w, MAX + 1));
    assert_non_null(flight_window_take(&w, 1));
    assert_null(flight_window_take(&w, 1));
    assert_true(flight_window_has_room(&w));

    send_one(++mid, FLIGHT_WINDOW_BYTES);
    assert_non_null(flight_window_take(&w, 2));
    assert_false(flight_window_has_room(&w));
    assert_non_null(flight_window_take(&w, mid));
    assert_true(flight_window_has_room(&w));
}

/* Orphans count as long as they are in flight; the window drops those that are
 * done. */
TEST(orphans_are_held_while_they_are_in_flight)
{
    struct flight *flight;

    send_one(1, 10);
    send_one(2, 10);
    assert_non_null(flight_window_take(&w, 2));

    flight_window_orphan(&w, &lane.flights);

    assert_true(list_is_empty(&lane.flights));
    assert_int_equal(w.held, 1);
    assert_int_equal(w.in_flight, 1);
    flight = flight_window_take(&w, 1);
    assert_non_null(flight);
    assert_null(flight->lane);
    flight_window_release(&w, flight);
    assert_int_equal(w.held, 0);
}

TEST(a_connection_that_ends_leaves_it_empty)
{
    for (int mid = 1; mid <= MAX; mid++)
        send_one(mid, FLIGHT_WINDOW_BYTES);
    flight_window_orphan(&w, &lane.flights);

    flight_window_clear(&w);

    assert_true(flight_window_has_room(&w));
    assert_int_equal(w.bytes, 0);
    assert_null(flight_window_take(&w, 1));
    send_one(1, 10);
    assert_int_equal(w.in_flight, 1);
}
