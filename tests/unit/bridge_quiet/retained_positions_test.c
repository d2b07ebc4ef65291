#include <stdio.h>
#include <string.h>

#include "proto/datetime.h"
#include "tests/test.h"
#include "tests/unit/bridge_quiet/outbound_stage.h"

/* With the set "demo", which is at 1; nothing is acknowledged. */
static int
set_demo(void **state)
{
    outs_setup(state);
    play(*state, "add demo 1; begin");
    return 0;
}

FIXTURE(set_demo, outs_teardown);

TEST(a_position_says_where_to_catch_up)
{
    struct outs *o = *state;
    struct quiet_message *message;
    struct head head;
    char wanted[1000], time[DATETIME_SIZE + 1] = "";

    play(o, "all online demo@1");
    message = quiet_mqtt_message(1);
    head = sets_head(&o->sets, "demo");
    datetime_write(time, head.last_us);
    snprintf(
        wanted, sizeof(wanted),
        "{\"set\":\"demo\",\"epoch\":\"%s\",\"seq\":1,\"position\":\"%s-1\","
        "\"datetime\":\"%s\",\"changes\":\"%s\"}",
        head.epoch, head.epoch, time,
        link_to(SETS_URL, LINK_MEMORY, "demo", head.epoch, 1).text);

    assert_string_equal(message->payload, wanted);
    assert_string_equal(message->topic, "tidings/demo/position");
    assert_string_equal(message->content_type, "application/json");
    assert_true(message->is_retained);
    assert_int_equal(message->qos, 1);
}

/* Also if the head is further, and if nothing was published yet. */
TEST(its_time_is_that_of_its_entry)
{
    struct outs *o = *state;
    struct head head;
    char time[DATETIME_SIZE + 1] = "";

    play(o, "ackall; post demo 1");
    head = sets_head(&o->sets, "demo");
    play(o, "post demo 1; ack demo(1-2); pass 1s");
    datetime_write(time, head.last_us);
    assert_non_null(
        strstr(quiet_mqtt_message(outs_find(o, "demo@2", 0))->payload, time));

    play(o, "add new 1; await");
    memset(time, 0, sizeof(time));
    datetime_write(time, sets_head(&o->sets, "new").created_us);
    assert_non_null(
        strstr(quiet_mqtt_message(outs_find(o, "new@0", 0))->payload, time));
}

TEST(positions_follow_what_is_acknowledged_once_a_second, outs_setup_demo,
     outs_teardown)
{
    play(*state, "post demo 1; ackall; post demo 1; ackall;"
                 "all demo(1-2) demo(2-3); waits;"
                 "pass 999999; all; pass 1; all demo@3;" /* none between */
                 "ackall; pass 10s; all; rests;"
                 "post demo 1; ackall; all demo(3-4) demo@4"); /* at once */
}

TEST(what_is_not_acknowledged_moves_no_position, outs_setup_demo, outs_teardown)
{
    play(*state, "post demo 1; pass 10s; all demo(1-2)");
}

TEST(every_connection_is_told_all_of_them)
{
    play(*state, "add other 1; await; ackall; pass 5s; ackall; skip;"
                 "lose; connect; turn; pass 1s; all online demo@1 other@1");
}

TEST(positions_give_way_to_messages_and_are_not_starved, outs_setup,
     outs_teardown)
{
    struct outs *o = *state;
    unsigned n_positions = 0, n_messages = 0;

    o->config.begins_at_start = true;
    for (int i = 0; i < 8; i++) {
        char name[] = "set0";

        name[3] = (char)(name[3] + i);
        sets_post_heavy(&o->sets, name, 0, 10, 10000);
    }
    play(o, "start; window 1; packet 20000; connect; turn");
    for (size_t i = 0; i < 65; i++) {
        struct quiet_message *message = quiet_mqtt_message(i);

        assert_non_null(message);
        if (i > 0 && message->is_retained)
            n_positions++;
        else if (i > 0)
            n_messages++;
        quiet_mqtt_acknowledge(i, 0);
        play(o, "pass 250000");
    }

    assert_int_equal(n_positions, 8); /* every eighth */
    assert_int_equal(n_messages, 56);
}

TEST(without_retained_messages_there_is_neither_status_nor_position, outs_setup,
     outs_teardown)
{
    struct outs *o = *state;

    play(o, "add demo 1; add gone 1; start");
    quiet_mqtt->takes_retained = false;
    play(o, "connect; turn; post demo 1; ackall; pass 10s; all demo(1-2);"
            "remove gone; await; all; has sets 1");
    outbound_stop(o->out);
    play(o, "all");
}

TEST(a_position_that_is_refused_is_not_insisted_on)
{
    play(*state, "refuse demo@1; skip; pass 10s; all; has refused 0;"
                 "post demo 1; ackall; all demo(1-2) demo@2");
}

TEST(the_end_is_told_behind_the_last_positions)
{
    struct outs *o = *state;

    play(o, "ackall; post demo 1; skip");
    outbound_stop(o->out); /* demo(1-2) is acknowledged now */
    play(o, "all demo@2 offline");
    assert_string_equal(quiet_mqtt->options.will_payload, "offline");
    assert_string_equal(quiet_mqtt->options.will_topic, "tidings/status");
}

/* The bridge publishes its end even if the MQTT broker acknowledges nothing. */
TEST(the_end_does_not_wait_for_ever)
{
    struct outs *o = *state;
    const struct mqtt_calls *calls = quiet_mqtt->options.calls;

    play(o, "ackall; post demo 1; skip");
    assert_false(calls->farewell(quiet_mqtt->options.user));
    play(o, "post demo 1; all"); /* not published any more */
    outs_pass(MQTT_FAREWELL_US / 2);
    assert_false(calls->farewell(quiet_mqtt->options.user));
    play(o, "all offline");
}

TEST(at_qos_0_they_are_told_at_qos_0, outs_setup, outs_teardown)
{
    struct outs *o = *state;

    o->config.qos = 0;
    play(o, "add demo 1; begin");
    assert_int_equal(quiet_mqtt_message(0)->qos, 0);
    assert_int_equal(quiet_mqtt_message(1)->qos, 0);
}

/* A set is removed, made again, and removed again: the bridge clears the second
 * position, too, although it has cleared the first. */
TEST(a_position_is_cleared_as_often_as_it_has_to_be)
{
    struct outs *o = *state;
    size_t second;

    play(o, "ackall; pass 2s; remove demo; await; find demo@-;"
            "add demo 1; pass 2s; until lag 1; pass 2s; find demo@0;"
            "remove demo; until sets 0; ack demo@-; pass 2s");
    second = outs_find(o, "demo@-", 1);

    /* mqtt.db keeps it until that is acknowledged. */
    play(o, "lose; connect; pass 2s");
    assert_true(outs_find(o, "demo@-", 2) > second);
}
