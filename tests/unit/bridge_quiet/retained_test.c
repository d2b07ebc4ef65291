#include <stdio.h>
#include <string.h>

#include "proto/datetime.h"
#include "tests/test.h"
#include "tests/unit/bridge_quiet/outs.h"

static void
open_demo(struct outs *o, void **state)
{
    outs_open(o, state);
    sets_post(&o->sets, "demo", 0, 1);
    outs_connect(o);
}

/* A change that is acknowledged. */
static void
advance(struct outs *o)
{
    outs_post(o, "demo", 1);
    quiet_mqtt_acknowledge_all();
}

FIXTURE(tempdir_setup, tempdir_teardown);

TEST(a_position_says_where_to_catch_up)
{
    struct outs o;
    struct quiet_message *message;
    struct head head;
    char wanted[1000], time[DATETIME_SIZE + 1] = "";

    open_demo(&o, state);
    assert_all_told(&o, "online demo@1 ");
    message = quiet_mqtt_message(1);
    head = sets_head(&o.sets, "demo");
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
    outs_close(&o);
}

/* Also where the head is further, and where nothing was told yet. */
TEST(its_time_is_that_of_its_entry)
{
    struct outs o;
    struct head head;
    char time[DATETIME_SIZE + 1] = "";

    open_demo(&o, state);
    quiet_mqtt_acknowledge_all();
    outs_post(&o, "demo", 1);
    head = sets_head(&o.sets, "demo");
    outs_post(&o, "demo", 1);
    quiet_mqtt_acknowledge(outs_find(&o, "demo(1-2)", 0), 0);
    outs_pass(SECOND);

    datetime_write(time, head.last_us);
    assert_non_null(
        strstr(quiet_mqtt_message(outs_find(&o, "demo@2", 0))->payload, time));

    sets_post(&o.sets, "new", 0, 1);
    quiet_mqtt_await();
    memset(time, 0, sizeof(time));
    datetime_write(time, sets_head(&o.sets, "new").created_us);
    assert_non_null(
        strstr(quiet_mqtt_message(outs_find(&o, "new@0", 0))->payload, time));
    outs_close(&o);
}

TEST(positions_follow_what_is_acknowledged_once_a_second)
{
    struct outs o;

    outs_open_demo(&o, state);

    advance(&o);
    advance(&o);
    assert_all_told(&o, "demo(1-2) demo(2-3) ");
    assert_in_range(quiet_mqtt->wait_us, 1, SECOND);
    outs_pass(SECOND - 1);
    assert_all_told(&o, "");
    outs_pass(1);
    assert_all_told(&o, "demo@3 "); /* the last one, none between */

    quiet_mqtt_acknowledge_all();
    outs_pass(10 * SECOND);
    assert_all_told(&o, "");
    assert_true(quiet_mqtt->wait_us < 0); /* nothing is to be done */
    advance(&o);
    assert_all_told(&o, "demo(3-4) demo@4 "); /* at once */
    outs_close(&o);
}

TEST(what_is_not_acknowledged_moves_no_position)
{
    struct outs o;

    outs_open_demo(&o, state);

    outs_post(&o, "demo", 1);
    outs_pass(10 * SECOND);

    assert_all_told(&o, "demo(1-2) ");
    outs_close(&o);
}

TEST(every_connection_is_told_all_of_them)
{
    struct outs o;

    open_demo(&o, state);
    sets_post(&o.sets, "other", 0, 1);
    quiet_mqtt_await();
    quiet_mqtt_acknowledge_all();
    outs_pass(5 * SECOND);
    quiet_mqtt_acknowledge_all();
    outs_told(&o, true);
    quiet_mqtt_lose();
    quiet_mqtt_connect(false);
    quiet_mqtt_turn();
    outs_pass(SECOND);

    assert_all_told(&o, "online demo@1 other@1 ");
    outs_close(&o);
}

TEST(positions_give_way_to_messages_and_are_not_starved)
{
    struct outs o;
    unsigned n_positions = 0, n_messages = 0;
    char name[20];

    outs_open(&o, state);
    o.config.begins_at_start = true;
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof(name), "set%d", i);
        sets_post_heavy(&o.sets, name, 0, 10, 10000);
    }
    outs_start(&o);
    quiet_mqtt->window = 1;
    quiet_mqtt->packet_bytes = 20000;
    quiet_mqtt_connect(false);
    quiet_mqtt_turn();
    for (size_t i = 0; i < 65; i++) {
        struct quiet_message *message = quiet_mqtt_message(i);

        assert_non_null(message);
        if (i > 0 && message->is_retained)
            n_positions++;
        else if (i > 0)
            n_messages++;
        quiet_mqtt_acknowledge(i, 0);
        outs_pass(SECOND / 4);
    }

    assert_int_equal(n_positions, 8); /* every eighth */
    assert_int_equal(n_messages, 56);
    outs_close(&o);
}

TEST(without_retained_messages_there_is_neither_status_nor_position)
{
    struct outs o;

    outs_open(&o, state);
    sets_post(&o.sets, "demo", 0, 1);
    sets_post(&o.sets, "gone", 0, 1);
    outs_start(&o);
    quiet_mqtt->takes_retained = false;
    quiet_mqtt_connect(false);
    quiet_mqtt_turn();
    advance(&o);
    outs_pass(10 * SECOND);
    assert_all_told(&o, "demo(1-2) ");

    alterations_remove(&o.sets, "gone");
    quiet_mqtt_await();
    assert_all_told(&o, "");
    assert_int_equal(outs_report(&o).sets, 1);
    out_stop(o.out);
    assert_all_told(&o, "");
    outs_close(&o);
}

TEST(a_position_that_is_refused_is_not_insisted_on)
{
    struct outs o;

    open_demo(&o, state);
    quiet_mqtt_acknowledge(outs_find(&o, "demo@1", 0), 0x87);
    outs_told(&o, true);

    outs_pass(10 * SECOND);
    assert_all_told(&o, "");
    assert_int_equal(outs_report(&o).refused, 0);
    advance(&o);
    assert_all_told(&o, "demo(1-2) demo@2 ");
    outs_close(&o);
}

TEST(the_end_is_told_behind_the_last_positions)
{
    struct outs o;

    open_demo(&o, state);
    quiet_mqtt_acknowledge_all();
    outs_post(&o, "demo", 1);
    outs_told(&o, true);

    out_stop(o.out); /* demo(1-2) is acknowledged now */

    assert_all_told(&o, "demo@2 offline ");
    assert_string_equal(quiet_mqtt->options.will_payload, "offline");
    assert_string_equal(quiet_mqtt->options.will_topic, "tidings/status");
    outs_close(&o);
}

/* An MQTT broker that acknowledges nothing is told, all the same. */
TEST(the_end_does_not_wait_for_ever)
{
    const struct mqtt_calls *calls;
    struct outs o;

    open_demo(&o, state);
    quiet_mqtt_acknowledge_all();
    outs_post(&o, "demo", 1);
    outs_told(&o, true);
    calls = quiet_mqtt->options.calls;

    assert_false(calls->farewell(quiet_mqtt->options.user));
    outs_post(&o, "demo", 1); /* not told any more */
    assert_all_told(&o, "");
    outs_pass(MQTT_FAREWELL_US / 2);
    assert_false(calls->farewell(quiet_mqtt->options.user));

    assert_all_told(&o, "offline ");
    outs_close(&o);
}

TEST(at_qos_0_they_are_told_at_qos_0)
{
    struct outs o;

    outs_open(&o, state);
    o.config.qos = 0;
    sets_post(&o.sets, "demo", 0, 1);
    outs_connect(&o);

    assert_int_equal(quiet_mqtt_message(0)->qos, 0);
    assert_int_equal(quiet_mqtt_message(1)->qos, 0);
    outs_close(&o);
}

/* A set is removed, made anew, removed again: that the first was cleared says
 * nothing of what was told of the second. */
TEST(a_position_is_cleared_as_often_as_it_has_to_be)
{
    struct outs o;
    size_t cleared;

    open_demo(&o, state);
    quiet_mqtt_acknowledge_all();
    outs_pass(2 * SECOND);
    alterations_remove(&o.sets, "demo");
    quiet_mqtt_await();
    cleared = outs_find(&o, "demo@-", 0);
    sets_post(&o.sets, "demo", 0, 1);
    outs_pass(2 * SECOND);
    while (outs_report(&o).lag == 0)
        quiet_mqtt_await();
    outs_pass(2 * SECOND);
    outs_find(&o, "demo@0", 0);
    alterations_remove(&o.sets, "demo");
    while (outs_report(&o).sets > 0)
        quiet_mqtt_await();

    quiet_mqtt_acknowledge(cleared, 0);
    outs_pass(2 * SECOND);
    cleared = outs_find(&o, "demo@-", 1);

    /* It is not forgotten before that was acknowledged. */
    quiet_mqtt_lose();
    quiet_mqtt_connect(false);
    outs_pass(2 * SECOND);
    assert_true(outs_find(&o, "demo@-", 2) > cleared);
    outs_close(&o);
}
