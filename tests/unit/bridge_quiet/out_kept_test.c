/* How far a bridge has come outlives its connection and its process: what is
 * told again has the same ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/bridge_quiet/outs.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* The same ends */

TEST(a_connection_that_ends_is_gone_over_again_with_the_same_ends)
{
    struct outs o;

    outs_open_demo(&o, state);
    outs_post(&o, "demo", 2);
    outs_post(&o, "demo", 3);
    outs_post(&o, "demo", 1);
    assert_told(&o, "demo(1-3) demo(3-6) demo(6-7) ");
    outs_acknowledge(&o, "demo(1-3)");
    outs_acknowledge(&o, "demo(6-7)");

    quiet_mqtt_lose();
    assert_int_equal(outs_report(&o).in_flight, 0);
    outs_post(&o, "demo", 5);
    assert_told(&o, "");
    quiet_mqtt_connect(false);
    quiet_mqtt_turn();

    assert_told(&o, "demo(3-6) demo(6-7) demo(7-12) ");
    outs_close(&o);
}

TEST(so_it_is_after_a_kill)
{
    struct outs o;

    outs_open_demo(&o, state);
    outs_post(&o, "demo", 2);
    outs_post(&o, "demo", 3);
    outs_acknowledge(&o, "demo(1-3)");
    outs_post(&o, "demo", 1); /* keeps the acknowledgement, too */
    outs_kill(&o);
    sets_post(&o.sets, "demo", 0, 4);

    outs_connect(&o);

    assert_told(&o, "demo(3-6) demo(6-7) demo(7-11) ");
    outs_close(&o);
}

TEST(a_smaller_packet_cuts_within_the_old_ends)
{
    struct outs o;
    char *end = NULL;

    outs_open_demo(&o, state);
    sets_post_heavy(&o.sets, "demo", 0, 4, 10000);
    quiet_mqtt_turn();
    assert_told(&o, "demo(1-5) ");
    quiet_mqtt_lose();
    quiet_mqtt->packet_bytes = 30000;
    outs_post(&o, "demo", 1);

    quiet_mqtt_connect(false);
    quiet_mqtt_turn();
    outs_told(&o, false);
    end = strstr(o.text, "-5) demo(5-6) ");
    assert_non_null(end);
    assert_true(strncmp(o.text, "demo(1-5)", 9) != 0);

    /* And so again. */
    quiet_mqtt_lose();
    quiet_mqtt->packet_bytes = 1000000;
    end = strdup(o.text);
    quiet_mqtt_connect(false);
    quiet_mqtt_turn();
    assert_told(&o, end);
    free(end);
    outs_close(&o);
}

/* What is acknowledged */

TEST(acknowledgements_are_kept_within_a_second)
{
    struct outs o;

    outs_open_demo(&o, state);
    outs_post(&o, "demo", 2);
    outs_acknowledge(&o, "demo(1-3)");
    quiet_mqtt_lose(); /* no other time is waited for */
    quiet_mqtt_turn();
    assert_in_range(quiet_mqtt->wait_us, 1, SECOND);
    outs_pass(SECOND);
    assert_true(quiet_mqtt->wait_us < 0);
    quiet_mqtt_connect(false);
    outs_kill(&o);

    outs_connect(&o);

    assert_told(&o, "");
    outs_close(&o);
}

TEST(a_graceful_end_keeps_what_is_acknowledged)
{
    struct outs o;

    outs_open_demo(&o, state);
    outs_post(&o, "demo", 2);
    outs_stop(&o, false);

    outs_connect(&o);

    assert_told(&o, "");
    assert_int_equal(outs_report(&o).lag, 0);
    outs_close(&o);
}
