/* Which sets a bridge tells, from where on, and what it does when they go. */
#include <stdio.h>

#include "broker/log/log.h"
#include "tests/test.h"
#include "tests/unit/bridge_quiet/outs.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* Where it begins */

TEST(an_older_set_is_told_from_where_it_is)
{
    struct outs o;

    outs_open(&o, state);
    sets_post(&o.sets, "demo", 0, 3);
    outs_connect(&o);
    assert_told(&o, "");

    outs_post(&o, "demo", 2);

    assert_told(&o, "demo(3-5) ");
    outs_close(&o);
}

TEST(an_older_set_is_told_from_its_start_if_that_is_wanted)
{
    struct outs o;

    outs_open(&o, state);
    o.config.begins_at_start = true;
    sets_post(&o.sets, "demo", 0, 3);

    outs_connect(&o);

    assert_told(&o, "demo(0-3) ");
    outs_close(&o);
}

TEST(a_set_that_is_born_is_told_from_its_first_change)
{
    struct outs o;

    outs_open(&o, state);
    outs_connect(&o);
    sets_post(&o.sets, "beta", 0, 2);
    quiet_mqtt_await();
    assert_told(&o, "beta(0-2) ");

    /* Before others by its name, and behind them. */
    sets_post(&o.sets, "alpha", 0, 1);
    sets_post(&o.sets, "gamma", 0, 1);
    outs_pass(SECOND);
    while (outs_report(&o).sets < 3)
        quiet_mqtt_await();
    outs_find(&o, "alpha(0-1)", 0);
    outs_find(&o, "gamma(0-1)", 0);
    outs_post(&o, "beta", 1);
    outs_find(&o, "beta(2-3)", 0);
    outs_close(&o);
}

/* Also where the bridge did not run when it was born. */
TEST(a_set_that_is_younger_than_the_bridge_is_told_whole)
{
    struct outs o;

    outs_open(&o, state);
    outs_connect(&o);
    outs_stop(&o, true);
    sets_post(&o.sets, "demo", 0, 3);

    outs_connect(&o);

    assert_told(&o, "demo(0-3) ");
    outs_close(&o);
}

TEST(only_the_sets_that_are_named_are_told)
{
    struct outs o;

    outs_open(&o, state);
    snprintf(o.config.out, sizeof(o.config.out), "%s", "one,two");
    o.config.begins_at_start = true;
    sets_post(&o.sets, "one", 0, 1);
    sets_post(&o.sets, "other", 0, 1);
    sets_post(&o.sets, "two", 0, 1);

    outs_connect(&o);

    assert_told(&o, "one(0-1) two(0-1) ");
    assert_int_equal(outs_report(&o).sets, 2);
    outs_close(&o);
}

/* Sets that go */

TEST(a_set_that_is_removed_takes_its_position_with_it)
{
    struct outs o;

    outs_open_demo(&o, state);
    outs_pass(2 * SECOND);

    alterations_remove(&o.sets, "demo");
    quiet_mqtt_await();
    assert_all_told(&o, "demo@- ");
    assert_int_equal(outs_report(&o).sets, 0);
    quiet_mqtt_acknowledge_all();

    /* It is forgotten. */
    outs_stop(&o, false);
    outs_connect(&o);
    assert_all_told(&o, "online ");
    outs_close(&o);
}

TEST(a_set_that_was_removed_meanwhile_is_so_when_there_is_a_connection)
{
    struct outs o;

    outs_open_demo(&o, state);
    outs_stop(&o, true);
    alterations_remove(&o.sets, "demo");

    outs_connect(&o);
    assert_all_told(&o, "online demo@- ");
    quiet_mqtt_lose(); /* it was not acknowledged */
    quiet_mqtt_connect(false);
    outs_pass(SECOND);
    assert_all_told(&o, "online demo@- ");
    outs_close(&o);
}

TEST(a_set_that_is_made_anew_is_told_from_its_beginning)
{
    struct outs o;

    outs_open_demo(&o, state);
    outs_post(&o, "demo", 1); /* under way when it is removed */
    assert_told(&o, "demo(1-2) ");
    alterations_remove(&o.sets, "demo");
    sets_post(&o.sets, "demo", 0, 2);
    outs_pass(2 * SECOND);
    while (outs_report(&o).lag == 0)
        quiet_mqtt_await();
    assert_told(&o, "demo(0-2) ");

    outs_acknowledge(&o, "demo(1-2)"); /* of the one that was */
    assert_int_equal(outs_report(&o).lag, 2);
    outs_acknowledge(&o, "demo(0-2)");
    assert_int_equal(outs_report(&o).lag, 0);

    /* And while the bridge did not run. */
    outs_stop(&o, false);
    alterations_remove(&o.sets, "demo");
    sets_post(&o.sets, "demo", 0, 1);
    outs_connect(&o);
    assert_told(&o, "demo(0-1) ");
    outs_close(&o);
}

/* What was told of a set that is not named any more stays told, and it goes on
 * from there when it is named again. */
TEST(a_set_that_is_no_longer_named_is_left_alone)
{
    struct outs o;

    outs_open(&o, state);
    sets_post(&o.sets, "one", 0, 1);
    sets_post(&o.sets, "two", 0, 1);
    outs_connect(&o);
    outs_stop(&o, false);

    snprintf(o.config.out, sizeof(o.config.out), "%s", "one");
    outs_connect(&o);
    sets_post(&o.sets, "two", 0, 2);
    outs_pass(SECOND);
    assert_all_told(&o, "online one@1 ");
    outs_stop(&o, false);

    snprintf(o.config.out, sizeof(o.config.out), "%s", "*");
    outs_connect(&o);
    assert_told(&o, "two(1-3) ");
    outs_close(&o);
}

/* Nor does it inherit a pause. */
TEST(a_set_that_was_refused_is_made_anew_without_that)
{
    struct outs o;

    outs_open_demo(&o, state);
    outs_post(&o, "demo", 1);
    quiet_mqtt_acknowledge(outs_find(&o, "demo(1-2)", 0), 0x87);
    quiet_mqtt_turn();
    outs_told(&o, true);
    alterations_remove(&o.sets, "demo");
    sets_post(&o.sets, "demo", 0, 2);

    while (outs_report(&o).lag != 2)
        quiet_mqtt_await();
    quiet_mqtt_turn();

    assert_told(&o, "demo(0-2) ");
    outs_close(&o);
}
