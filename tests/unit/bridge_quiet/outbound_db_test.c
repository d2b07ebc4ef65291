/*
 * outbound_db_test.c - the rows of a bridge outwards, and its first entries:
 * with a good database, a failing one, and one ahead of the log; and entries
 * that are no longer retained.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/db.h"
#include "broker/log/log.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/bridge_quiet/outbound_stage.h"

static struct outs *looked_at;

static enum status
has_end(const struct lane_row *row, void *user)
{
    *(bool *)user |= row->n_ends == 1 && row->acked == 1 && row->ends[0] == 3;
    return STATUS_OK;
}

static void
look_into_db(const struct quiet_message *message)
{
    bool is_kept = false;

    if (message->is_retained)
        return;
    assert_int_equal(
        mqtt_db_lanes(looked_at->db, "site", has_end, &is_kept, NULL),
        STATUS_OK);
    assert_true(is_kept);
}

FIXTURE(outs_setup_demo, outs_teardown);

TEST(where_a_message_ends_is_kept_before_it_is_published)
{
    looked_at = *state;
    quiet_mqtt->on_published = look_into_db;
    play(looked_at, "post demo 2; told demo(1-3)");
}

/* Another connection to mqtt.db. */
static void
tamper(struct outs *o, const char *sql)
{
    struct db db;
    char path[400];

    snprintf(path, sizeof(path), "%s/mqtt.db", o->dir.path);
    assert_int_equal(db_open(&db, path, DB_SMALL, NULL), STATUS_OK);
    assert_int_equal(db_exec(&db, sql, NULL), STATUS_OK);
    db_close(&db);
}

#define AHEAD "UPDATE lanes SET acked=100, ends=x'01'"
#define FILL_DISK                                \
    "CREATE TRIGGER full BEFORE INSERT ON lanes" \
    " BEGIN SELECT RAISE(ABORT, 'full'); END"

static enum status
is_at_2(const struct lane_row *row, void *user)
{
    *(bool *)user = row->acked == 2;
    return STATUS_OK;
}

static bool
is_kept_at_2(struct outs *o)
{
    bool is = false;

    assert_int_equal(mqtt_db_lanes(o->db, "site", is_at_2, &is, NULL),
                     STATUS_OK);
    return is;
}

TEST(a_database_that_fails_stops_nothing_and_is_kept_again_later)
{
    struct outs *o = *state;

    tamper(o, FILL_DISK);
    play(o, "post demo 1; post demo 1; told demo(1-2) demo(2-3);"
            "ack demo(1-2)");
    tamper(o, "DROP TRIGGER full");

    /* It is tried once a second, not with every message. */
    play(o, "post demo 1");
    assert_false(is_kept_at_2(o));
    play(o, "pass 1s");
    assert_true(is_kept_at_2(o));
    play(o, "kill; begin; told demo(2-3) demo(3-4)");
}

TEST(a_bridge_that_is_ahead_of_the_log_goes_on_from_its_head)
{
    struct outs *o = *state;

    play(o, "stop");
    tamper(o, AHEAD);
    play(o, "begin; post demo 1; told demo(1-2)");
}

/* Otherwise the next start would find another head, and never publish the
 * entries between the two. */
TEST(a_bridge_whose_beginning_cannot_be_kept_does_not_begin, outs_setup,
     outs_teardown)
{
    static const struct {
        const char *before, *open, *again;
    } rows[] = {
        /* The set has no row; its row is ahead of the log. */
        {"DELETE FROM lanes", "add a 1; begin; stop",
         "begin; kill; add a 1; begin; find a(1-2); stop"},
        {AHEAD, "add b 1; begin; stop",
         "begin; kill; add b 1; begin; find b(1-2); stop"},
    };
    struct outs *o = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct problem why = {""};

        play(o, rows[i].open);
        tamper(o, rows[i].before);
        tamper(o, FILL_DISK);
        assert_int_not_equal(
            outbound_open(&o->out, o->sets.registry, o->db, &o->config, &why),
            STATUS_OK);
        assert_non_null(strstr(why.text, "mqtt.db"));
        tamper(o, "DROP TRIGGER full");
        play(o, rows[i].again);
        tamper(o, "DELETE FROM lanes");
    }
}

/* The clock of the day says that it is older than the bridge. Its row is there
 * at once, not with its first message: there is no room for one. */
TEST(a_set_that_is_born_is_new_whatever_the_clock_says, outs_setup,
     outs_teardown)
{
    struct outs *o = *state;

    play(o, "begin; ackall; skip");
    clock_set_us(-500 * SECOND);
    play(o, "window 0; add demo 2; await; all; kill; add demo 1;"
            "begin; told demo(0-3)");
}

/* Lets go of all closed lists but the last. */
static void
retire(struct outs *o, const char *name)
{
    struct log *log = o->sets.registry->log;
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
    struct outs *o = *state;

    play(o, "post demo 1; told demo(1-2); lose;"
            "add demo 2; rotate demo; add demo 3; rotate demo; add demo 1");
    retire(o, "demo"); /* up to entry 4 */
    play(o, "connect; turn; told demo(4-8); has left_out 3;"
            "ack demo(4-8); has lag 0");
}

/* The bridge has published a notification, and its changes are to follow when
 * retention deletes them: some of them, or all and more. The acknowledged
 * position stays before the notification until all its changes are published or
 * gone. */
TEST(changes_of_a_notification_that_are_no_longer_retained_are_left_out,
     outs_setup, outs_teardown)
{
    static const struct {
        const char *set, *before, *after;
    } rows[] = {
        {"a",
         "add a 1; begin; ackall; window 0; add a 3; rotate a; add a 2; turn;"
         "skip; window 1; turn; told a(1-6); rotate a; add a 1",
         /* up to entry 4 */
         "ack a(1-6); turn; told a+5; has left_out 3; has lag 6;"
         "ackall; has lag 0; cut"},
        {"b",
         "add b 1; begin; ackall; window 0; add b 3; rotate b; turn;"
         "skip; window 1; turn; told b(1-4); add b 2; rotate b; add b 1;"
         "rotate b; add b 1",
         /* up to entry 6 */
         "ack b(1-4); turn; told b(6-8); has left_out 5; has lag 2;"
         "ackall; has lag 0"},
    };
    struct outs *o = *state;

    o->config.publish = BRIDGE_NOTIFICATIONS | BRIDGE_CHANGES;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(o->config.out, sizeof(o->config.out), "%s", rows[i].set);
        play(o, rows[i].before);
        retire(o, rows[i].set);
        play(o, rows[i].after);
    }
}

/* With any new limit: they were within the limit of their time. */
TEST(messages_that_were_begun_end_where_they_did)
{
    struct outs *o = *state;

    play(o, "heavy demo 4 10000; turn; told demo(1-5); cut");
    o->sets.config.message_bytes = 15000;
    play(o, "heavy demo 2 10000;"
            "begin; told demo(1-5) demo(5-6) demo(6-7)");
}
