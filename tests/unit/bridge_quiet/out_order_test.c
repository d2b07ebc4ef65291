/* Messages of a set on their way: how many, in which order, whose turn it is,
 * and what happens when they are refused. */
#include <string.h>

#include "tests/test.h"
#include "tests/unit/bridge_quiet/outs.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* The window */

TEST(messages_are_under_way_up_to_the_window)
{
    struct outs o;

    outs_open(&o, state);
    outs_connect(&o);
    outs_post(&o, "demo", 1);
    while (outs_report(&o).sets < 1)
        quiet_mqtt_await();
    quiet_mqtt_acknowledge_all();
    outs_told(&o, false);
    quiet_mqtt->window = 3;

    for (int i = 0; i < 5; i++)
        outs_post(&o, "demo", 1);
    assert_told(&o, "demo(1-2) demo(2-3) demo(3-4) ");
    assert_int_equal(outs_report(&o).in_flight, 3);
    assert_int_equal(outs_report(&o).lag, 5);

    outs_acknowledge(&o, "demo(1-2)");
    quiet_mqtt_turn();
    assert_told(&o, "demo(4-6) "); /* what came meanwhile is one message */
    assert_int_equal(outs_report(&o).lag, 4);
    outs_close(&o);
}

TEST(what_is_acknowledged_out_of_turn_waits_for_what_is_before_it)
{
    struct outs o;

    outs_open_demo(&o, state);
    for (int i = 0; i < 3; i++)
        outs_post(&o, "demo", 1);
    assert_told(&o, "demo(1-2) demo(2-3) demo(3-4) ");

    outs_acknowledge(&o, "demo(3-4)");
    outs_acknowledge(&o, "demo(2-3)");
    assert_int_equal(outs_report(&o).lag, 3);
    outs_acknowledge(&o, "demo(1-2)");

    assert_int_equal(outs_report(&o).lag, 0);
    assert_int_equal(outs_report(&o).acknowledged, 3);
    outs_close(&o);
}

static void
ack_first(const struct quiet_message *message)
{
    quiet_mqtt_acknowledge((size_t)(message - quiet_mqtt->published), 0);
}

TEST(an_acknowledgement_may_come_before_publishing_has_returned)
{
    struct outs o;

    outs_open_demo(&o, state);
    quiet_mqtt->on_published = ack_first;

    outs_post(&o, "demo", 1);
    outs_post(&o, "demo", 1);

    assert_told(&o, "demo(1-2) demo(2-3) ");
    assert_int_equal(outs_report(&o).lag, 0);
    assert_int_equal(outs_report(&o).in_flight, 0);
    outs_close(&o);
}

TEST(sets_take_turns)
{
    struct outs o;

    outs_open(&o, state);
    o.config.begins_at_start = true;
    sets_post_heavy(&o.sets, "one", 0, 3, 10000);
    sets_post_heavy(&o.sets, "two", 0, 3, 10000);
    outs_start(&o);
    quiet_mqtt->packet_bytes = 20000;
    quiet_mqtt->window = 4;

    quiet_mqtt_connect(false);
    quiet_mqtt_turn();

    assert_told(&o, "one(0-1) two(0-1) "); /* and status, a position */
    quiet_mqtt_acknowledge_all();
    assert_told(&o, "one(1-2) two(1-2) one(2-3) two(2-3) ");
    outs_close(&o);
}

TEST(large_messages_wait_for_room_in_bytes)
{
    struct outs o;

    outs_open(&o, state);
    o.config.begins_at_start = true;
    o.config.inflight = 1000;
    for (int i = 0; i < 200; i++)
        sets_post_heavy(&o.sets, "demo", 0, 1, 100000);
    outs_start(&o);
    quiet_mqtt->packet_bytes = 150000;
    quiet_mqtt->window = 1000;

    quiet_mqtt_connect(false);
    quiet_mqtt_turn();

    assert_in_range(outs_report(&o).in_flight, 150, 170);
    quiet_mqtt_acknowledge_all();
    assert_int_equal(outs_report(&o).lag, 0);
    outs_close(&o);
}

/* Refused */

/* Why there is something wrong with a connection that stands. */
static void
assert_why(struct outs *o, const char *why)
{
    struct mqtt_state state;

    out_state(o->out, &state);
    assert_string_equal(state.why.text, why);
    assert_string_equal(outs_report(o).mqtt.why.text, why);
}

TEST(a_set_that_is_refused_pauses_and_others_go_on)
{
    struct outs o;

    outs_open_demo(&o, state);
    sets_post(&o.sets, "other", 0, 1);
    quiet_mqtt_await();
    quiet_mqtt_acknowledge_all();
    outs_told(&o, true);
    outs_post(&o, "demo", 1);
    outs_post(&o, "demo", 1);
    assert_told(&o, "demo(1-2) demo(2-3) ");

    quiet_mqtt_acknowledge(outs_find(&o, "demo(1-2)", 0), 0x87);
    outs_acknowledge(
        &o, "demo(2-3)"); /* of no use: what is before it is to come first */
    outs_post(&o, "demo", 1);
    outs_post(&o, "other", 1);
    assert_told(&o, "other(1-2) ");
    assert_int_equal(outs_report(&o).lag, 4);
    assert_int_equal(outs_report(&o).refused, 1);
    assert_why(&o, "the MQTT broker refuses what is told of demo: "
                   "not authorized");

    outs_pass(SECOND);
    assert_told(&o, "demo(1-2) demo(2-3) demo(3-4) ");

    /* Twice as long. */
    quiet_mqtt_acknowledge(outs_find(&o, "demo(1-2)", 1), 0x87);
    outs_pass(SECOND);
    assert_told(&o, "");
    outs_pass(SECOND);
    assert_told(&o, "demo(1-2) demo(2-3) demo(3-4) ");
    quiet_mqtt_acknowledge_all();
    assert_int_equal(outs_report(&o).lag, 0);
    assert_why(&o, "");

    /* From the beginning. */
    outs_post(&o, "demo", 1);
    quiet_mqtt_acknowledge(outs_find(&o, "demo(4-5)", 0), 0x97);
    outs_told(&o, true);
    outs_pass(SECOND);
    assert_told(&o, "demo(4-5) ");
    outs_close(&o);
}

TEST(the_set_that_was_refused_first_is_named)
{
    struct outs o;

    outs_open_demo(&o, state);
    sets_post(&o.sets, "other", 0, 1);
    quiet_mqtt_await();
    quiet_mqtt_acknowledge_all();
    outs_told(&o, true);
    outs_post(&o, "demo", 1);
    outs_post(&o, "other", 1);
    assert_told(&o, "demo(1-2) other(1-2) ");
    quiet_mqtt_acknowledge(outs_find(&o, "other(1-2)", 0), 0x87);
    quiet_mqtt_acknowledge(outs_find(&o, "demo(1-2)", 0), 0x87);
    assert_why(&o, "the MQTT broker refuses what is told of other: "
                   "not authorized");

    /* One of a set that is gone is no more. */
    alterations_remove(&o.sets, "other");
    outs_pass(2 * SECOND);
    while (outs_report(&o).sets > 1)
        quiet_mqtt_await();
    assert_why(&o, "the MQTT broker refuses what is told of demo: "
                   "not authorized");
    quiet_mqtt_acknowledge_all();
    assert_why(&o, "");
    outs_close(&o);
}

TEST(pauses_grow_to_a_minute)
{
    static const int64_t pauses[] = {1, 2, 4, 8, 16, 32, 60, 60};
    struct outs o;

    outs_open_demo(&o, state);
    outs_post(&o, "demo", 1);
    for (unsigned i = 0; i < 8; i++) {
        quiet_mqtt_acknowledge(outs_find(&o, "demo(1-2)", i), 0x87);
        outs_pass(1);
        outs_told(&o, true);
        outs_pass(pauses[i] * SECOND - 2);
        assert_told(&o, "");
        outs_pass(1);
        assert_told(&o, "demo(1-2) ");
    }
    outs_close(&o);
}

TEST(a_qos_that_the_mqtt_broker_does_not_have_ends_the_connection)
{
    struct outs o;

    outs_open_demo(&o, state);
    quiet_mqtt->max_qos = 0;

    sets_post(&o.sets, "demo", 0, 1);
    quiet_mqtt_turn();

    assert_false(quiet_mqtt->is_connected);
    assert_non_null(strstr(quiet_mqtt->why_dropped.text, "QoS 1"));
    quiet_mqtt->max_qos = 2;
    quiet_mqtt_connect(false);
    quiet_mqtt_turn();
    assert_told(&o, "demo(1-2) ");
    outs_close(&o);
}

TEST(what_memory_is_lacking_for_is_told_later)
{
    struct outs o;

    outs_open_demo(&o, state);
    quiet_mqtt->has_no_memory = true;
    outs_post(&o, "demo", 1);
    assert_told(&o, "");
    quiet_mqtt->has_no_memory = false;
    outs_post(&o, "demo", 1);
    assert_told(&o, "");

    outs_pass(SECOND);

    assert_told(&o, "demo(1-2) demo(2-3) ");
    assert_int_equal(outs_report(&o).in_flight, 2);
    outs_close(&o);
}

/* Changes of a set that has many let others have theirs. */
TEST(changes_take_turns)
{
    struct outs o;

    outs_open(&o, state);
    o.config.publish = BRIDGE_CHANGES;
    o.config.begins_at_start = true;
    o.config.inflight = 200;
    sets_post(&o.sets, "one", 0, 80);
    sets_post(&o.sets, "two", 0, 80);
    outs_start(&o);
    quiet_mqtt->window = 200;

    quiet_mqtt_connect(false);
    quiet_mqtt_turn();

    assert_true(outs_find(&o, "two+1", 0) < outs_find(&o, "one+40", 0));
    assert_true(outs_find(&o, "one+40", 0) < outs_find(&o, "two+40", 0));
    assert_true(outs_find(&o, "two+40", 0) < outs_find(&o, "one+80", 0));
    outs_close(&o);
}
