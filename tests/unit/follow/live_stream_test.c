/*
 * live_stream_test.c - an open live connection, for WebSocket and server-sent
 * events alike: its messages, its end, and the silence by which a follower
 * recognises a dead connection.
 */
#include "tests/test.h"
#include "tests/unit/follow/transports.h"

TEST_GROUP("WebSocket", by_websocket, NULL);
TEST_GROUP("events", by_events, NULL);
FIXTURE(set_carried, living_clear);

TEST(messages_come_in_order_until_enough)
{
    struct living *s = *state;

    serves(s, "carry wait <1> <2> <3> <4> hold");
    s->enough = 3;

    living_start_at_once(s);
    living_turn(s);

    assert_string_equal(s->seen, "<1>|<2>|<3>|");
    assert_end(s, LIVE_ENOUGH, "");
    assert_int_equal(s->end.why.rc, STATUS_OK);
}

/* by the close codes of a WebSocket, and by the last event. */
TEST(a_farewell_is_told_behind_what_came_before)
{
    static const unsigned codes[] = {4410, 4404, 4401, 1001, 1011};
    struct living *s = *state;

    for (size_t i = 0; i < 5; i++) {
        serve(s, "carry <1> <2>");
        by->farewell(s->broker, codes[i], "earliest 5");
    }
    fake_broker_start(s->broker);

    for (size_t i = 0; i < 5; i++) {
        assert_runs(s, "<1>|<2>|", LIVE_CLOSED, "earliest 5");
        assert_int_equal(s->end.code, codes[i]);
        assert_int_equal(s->end.why.rc, STATUS_UNREACHABLE);
    }
}

TEST(nothing_comes_while_it_is_paused)
{
    struct living *s = *state;

    serve(s, "carry wait <1> <2> <3> <4> wait");
    by->farewell(s->broker, 1001, "restart");
    fake_broker_start(s->broker);
    s->pause_at = 2;

    living_start_at_once(s);
    living_turn(s);
    fake_go(s->broker);
    assert_has_time(s); /* no silence either */
    assert_string_equal(s->seen, "<1>|<2>|");
    live_hold(s->live, false);
    s->pause_at = 3;
    living_turn(s);
    assert_string_equal(s->seen, "<1>|<2>|<3>|");
    live_hold(s->live, false);
    living_turn(s);

    assert_string_equal(s->seen, "<1>|<2>|<3>|<4>|");
    assert_end(s, LIVE_CLOSED, "restart");
    assert_int_equal(s->end.code, 1001);
}

/* Silence */

/* From the answer on. */
TEST(a_stream_without_a_message_ends)
{
    struct living *s = *state;

    serves(s, "carry hold");

    living_start(s);
    living_until_answered(s);

    assert_ends_after(s, s->idle_ms, by->as_mute, "silence for 60.0 s");
}

/* "<1>" has come. */
static void
hear_one(struct living *s)
{
    s->look_at = 1;
    living_run(s);
    assert_string_equal(s->seen, "<1>|");
    living_rest(s);
    assert_false(s->has_end);
}

/* silence ends a connection, quiet does not. */
TEST(silence_behind_a_message_ends_it)
{
    struct living *s = *state;

    serves(s, "carry <1> hold");

    hear_one(s);

    assert_ends_after(s, s->idle_ms, LIVE_LOST, "silence for 60.0 s");
}

/* pings and comments are no sign of the broker either: a proxy in
 * between may send them. */
TEST(what_is_no_word_of_the_broker_is_silence)
{
    struct living *s = *state;

    serve(s, "carry <1>");
    for (int i = 0; i < 4; i++) {
        serve(s, "wait NOISE");
    }
    serves(s, "hold");

    hear_one(s);
    for (int i = 0; i < 4; i++) {
        living_pass(s, s->idle_ms / 5);
        fake_go(s->broker);
        living_await_ready(s);
        living_rest(s);
        assert_false(s->has_end);
    }

    assert_ends_after(s, s->idle_ms / 5, LIVE_LOST, "silence for 60.0 s");
    assert_string_equal(s->seen, "<1>|");
}

/* the time that on_message takes is not silence ... */
TEST(the_time_for_a_message_is_not_silence)
{
    struct living *s = *state;

    serves(s, "carry <1> hold");
    s->busy_ms = 2 * s->idle_ms;

    hear_one(s);

    assert_ends_after(s, s->idle_ms, LIVE_LOST, "silence for 60.0 s");
}

/* a caller that turns the loop late causes no silence: the follower
 * reads first what arrived meanwhile. */
TEST(the_time_of_others_is_not_silence)
{
    struct living *s = *state;

    serves(s, "carry <1> wait <2> hold");
    s->enough = 2;

    hear_one(s);
    fake_go(s->broker);
    living_await_ready(s);
    clock_pass_us(2 * s->idle_ms * INT64_C(1000));
    living_turn(s);

    assert_string_equal(s->seen, "<1>|<2>|");
    assert_end(s, LIVE_ENOUGH, "");
}
