/* How far a bridge has come outlives its connection and its process: what is
 * told again has the same ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/base/clock.h"
#include "broker/base/db.h"
#include "tests/unit/bridge/outs.h"

/* The same ends */

static void
a_connection_that_ends_is_gone_over_again_with_the_same_ends(void **state)
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

static void
so_it_is_after_a_kill(void **state)
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

static void
a_smaller_packet_cuts_within_the_old_ends(void **state)
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

static struct outs *looked_at;

static enum status
has_end(const struct lane_row *row, void *user)
{
    *(bool *)user |= row->n_ends == 1 && row->acked == 1 && row->ends[0] == 3;
    return STATUS_OK;
}

static void
look_into_ledger(const struct quiet_message *message)
{
    bool is_kept = false;

    if (message->is_retained)
        return;
    assert_int_equal(
        ledger_lanes(looked_at->ledger, "site", has_end, &is_kept, NULL),
        STATUS_OK);
    assert_true(is_kept);
}

static void
where_a_message_ends_is_kept_before_it_is_published(void **state)
{
    struct outs o;

    outs_open_demo(&o, state);
    looked_at = &o;
    quiet_mqtt->on_published = look_into_ledger;

    outs_post(&o, "demo", 2);

    assert_told(&o, "demo(1-3) ");
    outs_close(&o);
}

/* What is acknowledged */

static void
acknowledgements_are_kept_within_a_second(void **state)
{
    struct outs o;

    outs_open_demo(&o, state);
    outs_post(&o, "demo", 2);
    outs_acknowledge(&o, "demo(1-3)");
    quiet_mqtt_turn();
    assert_in_range(quiet_mqtt->wait_us, 1, SECOND);
    outs_pass(SECOND);
    outs_kill(&o);

    outs_connect(&o);

    assert_told(&o, "");
    outs_close(&o);
}

static void
a_graceful_end_keeps_what_is_acknowledged(void **state)
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

/* A ledger that is not as it should be */

/* Another connection to mqtt.db. */
static void
tamper(struct outs *o, const char *sql)
{
    struct db db;
    char path[400];

    snprintf(path, sizeof(path), "%s/mqtt.db", o->dir);
    assert_int_equal(db_open(&db, path, DB_SMALL, NULL), STATUS_OK);
    assert_int_equal(db_exec(&db, sql, NULL), STATUS_OK);
    db_close(&db);
}

static void
a_ledger_that_fails_stops_nothing_and_is_kept_again_later(void **state)
{
    struct outs o;

    outs_open_demo(&o, state);
    tamper(&o, "CREATE TRIGGER full BEFORE INSERT ON lanes"
               " BEGIN SELECT RAISE(ABORT, 'full'); END");

    outs_post(&o, "demo", 1);
    outs_post(&o, "demo", 1);
    assert_told(&o, "demo(1-2) demo(2-3) ");
    outs_acknowledge(&o, "demo(1-2)");
    tamper(&o, "DROP TRIGGER full");
    outs_pass(SECOND);
    outs_kill(&o);

    outs_connect(&o);
    assert_told(&o, "demo(2-3) ");
    outs_close(&o);
}

static void
a_bridge_that_is_ahead_of_the_log_goes_on_from_its_head(void **state)
{
    struct outs o;

    outs_open_demo(&o, state);
    outs_stop(&o, false);
    tamper(&o, "UPDATE lanes SET acked=100, ends=x'01'");

    outs_connect(&o);
    outs_post(&o, "demo", 1);

    assert_told(&o, "demo(1-2) ");
    outs_close(&o);
}

/* Else the next start would find another head, and what is between the two
 * would never be told. */
static void
a_bridge_whose_beginning_cannot_be_kept_does_not_begin(void **state)
{
    static const char *const befores[] = {
        "DELETE FROM lanes",                      /* a set it never told of */
        "UPDATE lanes SET acked=100, ends=x'01'", /* or not this far */
    };

    for (int i = 0; i < 2; i++) {
        struct outs o;
        struct problem why = {""};

        outs_open(&o, state);
        sets_post(&o.sets, i ? "b" : "a", 0, 1);
        outs_connect(&o);
        outs_stop(&o, false);
        tamper(&o, befores[i]);
        tamper(&o, "CREATE TRIGGER full BEFORE INSERT ON lanes"
                   " BEGIN SELECT RAISE(ABORT, 'full'); END");
        assert_int_not_equal(
            out_open(&o.out, o.sets.registry, o.ledger, &o.config, &why),
            STATUS_OK);
        assert_non_null(strstr(why.text, "mqtt.db"));

        tamper(&o, "DROP TRIGGER full");
        o.out = NULL;
        outs_connect(&o);
        outs_kill(&o);
        sets_post(&o.sets, i ? "b" : "a", 1, 1);
        outs_connect(&o);
        outs_find(&o, i ? "b(1-2)" : "a(1-2)", 0);
        tamper(&o, "DELETE FROM lanes");
        outs_close(&o);
    }
}

static _Atomic(int64_t) day_us;

static int64_t
day(void)
{
    return day_us++;
}

/* The clock of the day says that it is older than the bridge. */
static void
a_set_that_is_born_is_new_whatever_the_clock_says(void **state)
{
    struct outs o;

    day_us = 1000 * SECOND;
    clock_replace(day);
    outs_open(&o, state);
    outs_connect(&o);
    day_us = 500 * SECOND;
    sets_post(&o.sets, "demo", 0, 2);
    quiet_mqtt_await();
    assert_told(&o, "demo(0-2) ");
    outs_kill(&o);
    sets_post(&o.sets, "demo", 0, 1);

    outs_connect(&o);

    assert_told(&o, "demo(0-2) demo(2-3) ");
    outs_close(&o);
    clock_replace(NULL);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, tempdir_setup, tempdir_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_connection_that_ends_is_gone_over_again_with_the_same_ends),
        TEST(so_it_is_after_a_kill),
        TEST(a_smaller_packet_cuts_within_the_old_ends),
        TEST(where_a_message_ends_is_kept_before_it_is_published),
        TEST(acknowledgements_are_kept_within_a_second),
        TEST(a_graceful_end_keeps_what_is_acknowledged),
        TEST(a_ledger_that_fails_stops_nothing_and_is_kept_again_later),
        TEST(a_bridge_whose_beginning_cannot_be_kept_does_not_begin),
        TEST(a_set_that_is_born_is_new_whatever_the_clock_says),
        TEST(a_bridge_that_is_ahead_of_the_log_goes_on_from_its_head),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
