#include "broker/hub/delivery.h"

#include "tests/test.h"
#include "tests/unit/hub_engine/engine.h"

FIXTURE(engine_setup, engine_teardown);

/* W-080, W-081, W-083, W-085; R-296: a commit goes to the callback unchanged,
 * with the topic's type and one line of links; after a 2xx the subscription
 * rests. */
TEST(delivers_what_is_committed)
{
    struct subscription *s;

    post(2);
    s = subscribe("/cb?a=b&c", 2);
    turns();
    assert_int_equal(e.n_sent, 0);

    post(3);
    turns();

    assert_int_equal(e.n_sent, 1);
    assert_string_equal(last_sent()->call->url,
                        "http://receiver.example/cb?a=b&c");
    assert_string_equal(header(last_sent(), "Content-Type"), "application/xml");
    assert_string_equal(header(last_sent(), "Link"),
                        "<" SETS_URL "/hub>; rel=\"hub\", <" SETS_URL
                        "/sets/demo/notifications>; rel=\"self\"");
    assert_sent(last_sent(), 2, 5);
    assert_kept(s, 2, 5);
    finish(s, 204);
    assert_int_equal(s->reader.after, 5);
    assert_int_equal(s->history.n_deliveries, 1);
    assert_int_equal(e.n_sent, 1);
}

/* W-093, R-306: one delivery is in flight; later changes go out merged, in
 * order, when that delivery has ended. */
TEST(merges_what_comes_while_one_is_in_flight)
{
    struct subscription *s = first_delivery(1);
    for (unsigned i = 1; i < 10; i++) {
        post(1);
        turns();
    }
    assert_int_equal(e.n_sent, 1);
    assert_sent(last_sent(), 0, 1);

    finish(s, 200);

    assert_int_equal(e.n_sent, 2);
    assert_sent(last_sent(), 1, 10);
    finish(s, 200);
    assert_int_equal(e.n_sent, 2);
}

/* R-306, W-091: the first try fixes the range. Later tries send the same bytes
 * under the same id, in spite of newer commits. */
TEST(repeats_a_failed_delivery_byte_for_byte)
{
    struct subscription *s = first_delivery(2);
    for (unsigned i = 0; i < 5; i++) {
        finish(s, 500);
        post(1);
        pass(next_alarm());
    }

    assert_int_equal(e.n_sent, 6);
    for (size_t i = 1; i < 6; i++) {
        assert_same_body(&e.sent[i], &e.sent[0]);
        assert_string_equal(delivery_id(&e.sent[i]), delivery_id(&e.sent[0]));
        assert_true(e.sent[i].is_suspect);
    }
    finish(s, 200);
    assert_sent(last_sent(), 2, 7);
    assert_string_not_equal(delivery_id(last_sent()), delivery_id(&e.sent[0]));
    assert_int_equal(s->failures, 0);
}

/* After kill -9 the hub repeats a delivery in flight as it was: so it sends
 * nothing whose range is not kept. */
TEST(sends_nothing_that_is_not_kept)
{
    struct subscription *s, *other;

    post(1);
    e.disk_is_full = true;
    s = subscribe("/", 0);
    turns();
    pass(5 * SECOND);
    assert_int_equal(e.n_sent, 0);
    other = subscribe("/other", 0);
    turns();
    assert_int_equal(e.n_sent, 0);

    e.disk_is_full = false;
    turns();

    assert_int_equal(e.n_sent, 2);
    assert_kept(s, 0, 1);
    assert_kept(other, 0, 1);
    finish(s, 200);
}

/* A callback that unsubscribes while the hub reads its body leaves nothing. */
TEST(can_be_cut_in_every_state)
{
    struct subscription *s, *stays;

    post(5);
    subscribe("/stays", 5);
    engine_stop();
    engine_start();
    stays = subscribe("/stays", 5);

    end_subscription(subscribe("/queued", 0), END_UNSUBSCRIBED);
    s = subscribe("/reading", 0);
    turns();
    end_subscription(s, END_UNSUBSCRIBED);
    run_jobs();
    post(1);
    s = subscribe("/fixed", 5);
    while (quiet_give_turn())
        continue;
    end_subscription(s, END_UNSUBSCRIBED);
    s = subscribe("/sent", 5);
    turns();
    assert_true(is_under_way(s));
    end_subscription(s, END_UNSUBSCRIBED);
    s = subscribe("/waits", 5);
    turns();
    finish(s, 500);
    end_subscription(s, END_UNSUBSCRIBED);
    turns();
    finish(stays, 200);
    assert_int_equal(quiet->n_calls, 0);
    assert_int_equal(quiet->n_alarms, 0);
}

/* `interval`: deliveries are at least this far apart; one delivery has all
 * changes between them. Retries do not wait for it. */
TEST(batches_what_comes_within_an_interval)
{
    struct subscription *s;

    post(1);
    s = new_subscription("/", 1);
    s->terms.interval_us = 60 * SECOND;
    delivery_begin(s);
    post(1);
    turns();
    assert_int_equal(e.n_sent, 1);
    finish(s, 200);
    for (unsigned i = 2; i < 7; i++) {
        post(1);
        turns();
        pass(10 * SECOND);
    }
    assert_int_equal(e.n_sent, 1);
    pass(10 * SECOND);
    assert_int_equal(e.n_sent, 2);
    assert_sent(last_sent(), 2, 7);
    finish(s, 500);
    pass(SECOND);
    assert_int_equal(e.n_sent, 3);
}

static void
go_back(struct subscription *s, uint64_t after)
{
    delivery_cut(s);
    reader_move(&s->reader, after);
    delivery_look(s);
    turns();
}

/* Redelivery cuts the delivery in flight, and the cursor's new place counts at
 * once, also for a subscription that backs off. */
TEST(goes_back_when_the_cursor_is_moved)
{
    struct subscription *s;

    post(9);
    s = subscribe("/", 8);
    turns();
    finish(s, 500);
    go_back(s, 3);
    run_jobs();
    assert_sent(last_sent(), 3, 9);
    assert_false(last_sent()->is_suspect);
    go_back(s, 7);
    assert_sent(last_sent(), 7, 9);
    assert_int_equal(quiet->n_calls, 1);
}

/* The same renewed: the range stays, and is tried at once, for its callback is
 * there. */
TEST(tries_again_at_once_when_it_is_renewed)
{
    struct subscription *s = first_delivery(2);
    finish(s, 500);
    post(2);
    delivery_look(s);
    turns();
    assert_int_equal(e.n_sent, 2);
    assert_string_equal(delivery_id(&e.sent[0]), delivery_id(&e.sent[1]));
    assert_int_equal(quiet->n_alarms, 0);
}

/* A subscription that stands ahead of its log, because an older copy of that
 * came back, gets what comes next. */
TEST(goes_on_at_the_head_of_a_log_that_is_older)
{
    struct subscription *s;

    post(2);
    s = subscribe("/", 100);
    assert_int_equal(s->reader.after, 2);
    post(1);
    turns();
    assert_sent(last_sent(), 2, 3);
}

/* However many have subscribed to a topic, no turn takes long. */
TEST(a_commit_wakes_so_many_in_a_turn)
{
    enum { MORE = 10 };

    post(1);
    for (unsigned i = 0; i < DELIVERY_WAKES_AT_ONCE + MORE; i++)
        subscribe_nth("/%u", i, 1);
    turns();
    post(1);
    assert_int_equal(quiet->n_calls, 0);
    deliveries_wake(&e.hub);
    assert_int_equal(quiet->n_calls, DELIVERY_WAKES_AT_ONCE);
    post(1);
    deliveries_wake(&e.hub);
    assert_int_equal(quiet->n_calls, DELIVERY_WAKES_AT_ONCE + MORE);
    deliveries_wake(&e.hub);
    assert_int_equal(quiet->n_calls, DELIVERY_WAKES_AT_ONCE + MORE);
}
