/* Messages of a set in flight: how many, in which order, which set is next, and
 * refusals. */
#include <string.h>

#include "tests/test.h"
#include "tests/unit/bridge_quiet/outbound_stage.h"

#define REFUSES(set) \
    "the MQTT broker refuses messages about " set ": not authorized"

FIXTURE(outs_setup_demo, outs_teardown);

/* The window */

/* Changes that are posted while the window is full become one message. */
TEST(messages_are_under_way_up_to_the_window, outs_setup, outs_teardown)
{
    play(*state, "begin; post demo 1; until sets 1; ackall; skip; window 3;"
                 "post demo 1; post demo 1; post demo 1; post demo 1;"
                 "post demo 1; told demo(1-2) demo(2-3) demo(3-4);"
                 "has in_flight 3; has lag 5;"
                 "ack demo(1-2); turn; told demo(4-6); has lag 4");
}

TEST(what_is_acknowledged_out_of_turn_waits_for_what_is_before_it)
{
    play(*state, "post demo 1; post demo 1; post demo 1;"
                 "told demo(1-2) demo(2-3) demo(3-4);"
                 "ack demo(3-4); ack demo(2-3); has lag 3;"
                 "ack demo(1-2); has lag 0; has acknowledged 3");
}

static void
ack_first(const struct quiet_message *message)
{
    quiet_mqtt_acknowledge((size_t)(message - quiet_mqtt->published), 0);
}

TEST(an_acknowledgement_may_come_before_publishing_has_returned)
{
    quiet_mqtt->on_published = ack_first;
    play(*state, "post demo 1; post demo 1; told demo(1-2) demo(2-3);"
                 "has lag 0; has in_flight 0");
}

/* The first turn has room for status and a position, besides. */
TEST(sets_take_turns, outs_setup, outs_teardown)
{
    struct outs *o = *state;

    o->config.begins_at_start = true;
    play(o, "heavy one 3 10000; heavy two 3 10000; start; packet 20000;"
            "window 4; connect; turn; told one(0-1) two(0-1);"
            "ackall; told one(1-2) two(1-2) one(2-3) two(2-3)");
}

TEST(large_messages_wait_for_room_in_bytes, outs_setup, outs_teardown)
{
    struct outs *o = *state;

    o->config.begins_at_start = true;
    o->config.inflight = 1000;
    for (int i = 0; i < 200; i++)
        sets_post_heavy(&o->sets, "demo", 0, 1, 100000);
    play(o, "start; packet 150000; window 1000; connect; turn");
    assert_in_range(outs_report(o).in_flight, 150, 170);
    play(o, "ackall; has lag 0");
}

/* Changes of a set that has many let others have theirs. */
TEST(changes_take_turns, outs_setup, outs_teardown)
{
    struct outs *o = *state;

    o->config.publish = BRIDGE_CHANGES;
    o->config.begins_at_start = true;
    o->config.inflight = 200;
    play(o, "add one 80; add two 80; start; window 200; connect; turn");

    assert_true(outs_find(o, "two+1", 0) < outs_find(o, "one+40", 0));
    assert_true(outs_find(o, "one+40", 0) < outs_find(o, "two+40", 0));
    assert_true(outs_find(o, "two+40", 0) < outs_find(o, "one+80", 0));
}

/* Refused */

/* An acknowledgement behind the message that was refused is of no use. The
 * second pause is twice as long; after a success they begin anew. */
TEST(a_set_that_is_refused_pauses_and_others_go_on)
{
    play(*state, "add other 1; await; ackall; skip;"
                 "post demo 1; post demo 1; told demo(1-2) demo(2-3);"
                 "refuse demo(1-2); ack demo(2-3);"
                 "post demo 1; post other 1; told other(1-2);"
                 "has lag 4; has refused 1; why " REFUSES(
                     "demo") ";"
                             "pass 1s; told demo(1-2) demo(2-3) demo(3-4);"

                             "refuse demo(1-2) 1; pass 1s; told;"
                             "pass 1s; told demo(1-2) demo(2-3) demo(3-4);"
                             "ackall; has lag 0; why;"

                             "post demo 1; refuse demo(4-5) 0 0x97; skip;"
                             "pass 1s; told demo(4-5)");
}

/* Until it is gone. */
TEST(the_set_that_was_refused_first_is_named)
{
    play(*state,
         "add other 1; await; ackall; skip;"
         "post demo 1; post other 1; told demo(1-2) other(1-2);"
         "refuse other(1-2); refuse demo(1-2); why " REFUSES(
             "other") ";"
                      "remove other; pass 2s; until sets 1; why " REFUSES(
                          "demo") ";"
                                  "ackall; why");
}

TEST(pauses_grow_to_a_minute)
{
    static const int64_t pauses[] = {1, 2, 4, 8, 16, 32, 60, 60};
    struct outs *o = *state;

    play(o, "post demo 1");
    for (unsigned i = 0; i < 8; i++) {
        quiet_mqtt_acknowledge(outs_find(o, "demo(1-2)", i), 0x87);
        play(o, "pass 1; skip");
        outs_pass(pauses[i] * SECOND - 2);
        play(o, "told; pass 1; told demo(1-2)");
    }
}

TEST(a_qos_that_the_mqtt_broker_does_not_have_ends_the_connection)
{
    struct outs *o = *state;

    quiet_mqtt->max_qos = 0;
    play(o, "post demo 1");
    assert_false(quiet_mqtt->is_connected);
    assert_non_null(strstr(quiet_mqtt->why_dropped.text, "QoS 1"));

    quiet_mqtt->max_qos = 2;
    play(o, "connect; turn; told demo(1-2)");
}

TEST(what_memory_is_lacking_for_is_told_later)
{
    struct outs *o = *state;

    quiet_mqtt->has_no_memory = true;
    play(o, "post demo 1; told");
    quiet_mqtt->has_no_memory = false;
    play(o, "post demo 1; told; pass 1s; told demo(1-2) demo(2-3);"
            "has in_flight 2");
}
