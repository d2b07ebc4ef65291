/*
 * out_ledger_test.c - what a bridge outwards keeps, and where it begins, with
 * the ledger as it is, one that fails, one that is of another time than the
 * log; and what is no longer retained.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/base/db.h"
#include "broker/log/log.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/bridge_quiet/outs.h"

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

FIXTURE(tempdir_setup, tempdir_teardown);

TEST(where_a_message_ends_is_kept_before_it_is_published)
{
    struct outs o;

    outs_open_demo(&o, state);
    looked_at = &o;
    quiet_mqtt->on_published = look_into_ledger;

    outs_post(&o, "demo", 2);

    assert_told(&o, "demo(1-3) ");
    outs_close(&o);
}

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

static enum status
is_at_2(const struct lane_row *row, void *user)
{
    *(bool *)user = row->acked == 2;
    return STATUS_OK;
}

TEST(a_ledger_that_fails_stops_nothing_and_is_kept_again_later)
{
    struct outs o;
    bool is_kept = true;

    outs_open_demo(&o, state);
    tamper(&o, "CREATE TRIGGER full BEFORE INSERT ON lanes"
               " BEGIN SELECT RAISE(ABORT, 'full'); END");

    outs_post(&o, "demo", 1);
    outs_post(&o, "demo", 1);
    assert_told(&o, "demo(1-2) demo(2-3) ");
    outs_acknowledge(&o, "demo(1-2)");
    tamper(&o, "DROP TRIGGER full");

    /* It is tried once a second, not with every message. */
    outs_post(&o, "demo", 1);
    assert_int_equal(ledger_lanes(o.ledger, "site", is_at_2, &is_kept, NULL),
                     STATUS_OK);
    assert_false(is_kept);
    outs_pass(SECOND);
    assert_int_equal(ledger_lanes(o.ledger, "site", is_at_2, &is_kept, NULL),
                     STATUS_OK);
    assert_true(is_kept);
    outs_kill(&o);

    outs_connect(&o);
    assert_told(&o, "demo(2-3) demo(3-4) ");
    outs_close(&o);
}

TEST(a_bridge_that_is_ahead_of_the_log_goes_on_from_its_head)
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
TEST(a_bridge_whose_beginning_cannot_be_kept_does_not_begin)
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

/* The clock of the day says that it is older than the bridge. Its row is there
 * at once, not with its first message: there is no room for one. */
TEST(a_set_that_is_born_is_new_whatever_the_clock_says)
{
    struct outs o;

    outs_open(&o, state);
    outs_connect(&o);
    quiet_mqtt_acknowledge_all();
    outs_told(&o, true);
    clock_set_us(-500 * SECOND);
    quiet_mqtt->window = 0;
    sets_post(&o.sets, "demo", 0, 2);
    quiet_mqtt_await();
    assert_all_told(&o, "");
    outs_kill(&o);
    sets_post(&o.sets, "demo", 0, 1);

    outs_connect(&o);

    assert_told(&o, "demo(0-3) ");
    outs_close(&o);
}

/* Lets go of all closed lists but the last. */
static void
retire(struct outs *o, const char *name)
{
    struct log *log = registry_log(o->sets.registry);
    struct set *set = sets_find(&o->sets, name);
    struct list_info lists[10];
    size_t n = 10;

    sets_file_all(&o->sets);
    assert_int_equal(log_lists(log, set->log, 1, lists, &n, NULL), STATUS_OK);
    assert_true(n > 1);
    assert_int_equal(log_retire(log, set->log, lists, n - 1, 0, NULL),
                     STATUS_OK);
}

TEST(what_is_no_longer_retained_is_left_out)
{
    struct outs o;

    outs_open_demo(&o, state);
    outs_post(&o, "demo", 1);
    assert_told(&o, "demo(1-2) ");
    quiet_mqtt_lose();
    sets_post(&o.sets, "demo", 0, 2);
    sets_rotate(&o.sets, "demo");
    sets_post(&o.sets, "demo", 0, 3);
    sets_rotate(&o.sets, "demo");
    sets_post(&o.sets, "demo", 0, 1);
    retire(&o, "demo"); /* up to entry 4 */

    quiet_mqtt_connect(false);
    quiet_mqtt_turn();

    assert_told(&o, "demo(4-8) ");
    assert_int_equal(outs_report(&o).left_out, 3);
    outs_acknowledge(&o, "demo(4-8)");
    assert_int_equal(outs_report(&o).lag, 0);
    outs_close(&o);
}

/* A notification is told, and its changes are to follow when they go: some of
 * them, or all and more. What is acknowledged stays before it until all of it
 * is told, or cannot be. */
TEST(changes_of_a_notification_that_are_no_longer_retained_are_left_out)
{
    for (int is_beyond = 0; is_beyond < 2; is_beyond++) {
        struct outs o;
        char name[] = "a";

        outs_open(&o, state);
        name[0] = (char)(name[0] + is_beyond);
        o.config.publish = BRIDGE_NOTIFICATIONS | BRIDGE_CHANGES;
        sets_post(&o.sets, name, 0, 1);
        outs_connect(&o);
        quiet_mqtt_acknowledge_all();
        quiet_mqtt->window = 0;
        sets_post(&o.sets, name, 0, 3);
        sets_rotate(&o.sets, name);
        if (!is_beyond)
            sets_post(&o.sets, name, 0, 2);
        quiet_mqtt_turn();
        outs_told(&o, true);
        quiet_mqtt->window = 1;
        quiet_mqtt_turn();
        assert_told(&o, is_beyond ? "b(1-4) " : "a(1-6) ");

        if (is_beyond)
            sets_post(&o.sets, name, 0, 2);
        sets_rotate(&o.sets, name);
        sets_post(&o.sets, name, 0, 1);
        if (is_beyond) {
            sets_rotate(&o.sets, name);
            sets_post(&o.sets, name, 0, 1);
        }
        retire(&o, name); /* up to entry 4, or 6 */
        quiet_mqtt_acknowledge(
            outs_find(&o, is_beyond ? "b(1-4)" : "a(1-6)", 0), 0);
        quiet_mqtt_turn();

        assert_told(&o, is_beyond ? "b(6-8) " : "a+5 ");
        assert_int_equal(outs_report(&o).left_out, is_beyond ? 5 : 3);
        assert_int_equal(outs_report(&o).lag, is_beyond ? 2 : 6);
        quiet_mqtt_acknowledge_all();
        assert_int_equal(outs_report(&o).lag, 0);
        outs_close(&o);
    }
}

/* Whatever the limit is meanwhile: they were within the limit of their time. */
TEST(messages_that_were_begun_end_where_they_did)
{
    struct outs o;

    outs_open_demo(&o, state);
    sets_post_heavy(&o.sets, "demo", 0, 4, 10000);
    quiet_mqtt_turn();
    assert_told(&o, "demo(1-5) ");
    outs_stop(&o, true);
    o.sets.config.message_bytes = 15000;
    sets_post_heavy(&o.sets, "demo", 0, 2, 10000);

    outs_connect(&o);

    assert_told(&o, "demo(1-5) demo(5-6) demo(6-7) ");
    outs_close(&o);
}
