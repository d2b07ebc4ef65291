#include "broker/bridge/out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/base/db.h"
#include "broker/log/log.h"
#include "proto/datetime.h"
#include "tests/unit/bridge/outs.h"
#include "tests/unit/sets/messages.h"

#define ACK(o, text) quiet_mqtt_acknowledge(outs_find((o), (text), 0), 0)

/* Where it begins */

static void
an_older_set_is_told_from_where_it_is(void **state)
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

static void
an_older_set_is_told_from_its_start_if_that_is_wanted(void **state)
{
    struct outs o;

    outs_open(&o, state);
    o.config.begins_at_start = true;
    sets_post(&o.sets, "demo", 0, 3);

    outs_connect(&o);

    assert_told(&o, "demo(0-3) ");
    outs_close(&o);
}

static void
a_set_that_is_born_is_told_from_its_first_change(void **state)
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
static void
a_set_that_is_younger_than_the_bridge_is_told_whole(void **state)
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

static void
only_the_sets_that_are_named_are_told(void **state)
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

/* Order */

static void
messages_are_under_way_up_to_the_window(void **state)
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

    ACK(&o, "demo(1-2)");
    quiet_mqtt_turn();
    assert_told(&o, "demo(4-6) "); /* what came meanwhile is one message */
    assert_int_equal(outs_report(&o).lag, 4);
    outs_close(&o);
}

/* A set that is there, of which all is acknowledged, and its position rests. */
static void
open_demo(struct outs *o, void **state)
{
    outs_open(o, state);
    sets_post(&o->sets, "demo", 0, 1);
    outs_connect(o);
    quiet_mqtt_acknowledge_all();
    outs_told(o, true);
}

static void
what_is_acknowledged_out_of_turn_waits_for_what_is_before_it(void **state)
{
    struct outs o;

    open_demo(&o, state);
    for (int i = 0; i < 3; i++)
        outs_post(&o, "demo", 1);
    assert_told(&o, "demo(1-2) demo(2-3) demo(3-4) ");

    ACK(&o, "demo(3-4)");
    ACK(&o, "demo(2-3)");
    assert_int_equal(outs_report(&o).lag, 3);
    ACK(&o, "demo(1-2)");

    assert_int_equal(outs_report(&o).lag, 0);
    assert_int_equal(outs_report(&o).acknowledged, 3);
    outs_close(&o);
}

static void
ack_first(const struct quiet_message *message)
{
    quiet_mqtt_acknowledge((size_t)(message - quiet_mqtt->published), 0);
}

static void
an_acknowledgement_may_come_before_publishing_has_returned(void **state)
{
    struct outs o;

    open_demo(&o, state);
    quiet_mqtt->on_published = ack_first;

    outs_post(&o, "demo", 1);
    outs_post(&o, "demo", 1);

    assert_told(&o, "demo(1-2) demo(2-3) ");
    assert_int_equal(outs_report(&o).lag, 0);
    assert_int_equal(outs_report(&o).in_flight, 0);
    outs_close(&o);
}

static void
a_connection_that_ends_is_gone_over_again_with_the_same_ends(void **state)
{
    struct outs o;

    open_demo(&o, state);
    outs_post(&o, "demo", 2);
    outs_post(&o, "demo", 3);
    outs_post(&o, "demo", 1);
    assert_told(&o, "demo(1-3) demo(3-6) demo(6-7) ");
    ACK(&o, "demo(1-3)");
    ACK(&o, "demo(6-7)");

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

    open_demo(&o, state);
    outs_post(&o, "demo", 2);
    outs_post(&o, "demo", 3);
    ACK(&o, "demo(1-3)");
    outs_post(&o, "demo", 1); /* keeps the acknowledgement, too */
    outs_kill(&o);
    sets_post(&o.sets, "demo", 0, 4);

    outs_connect(&o);

    assert_told(&o, "demo(3-6) demo(6-7) demo(7-11) ");
    outs_close(&o);
}

static void
acknowledgements_are_kept_within_a_second(void **state)
{
    struct outs o;

    open_demo(&o, state);
    outs_post(&o, "demo", 2);
    ACK(&o, "demo(1-3)");
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

    open_demo(&o, state);
    outs_post(&o, "demo", 2);
    outs_stop(&o, false);

    outs_connect(&o);

    assert_told(&o, "");
    assert_int_equal(outs_report(&o).lag, 0);
    outs_close(&o);
}

static void
a_smaller_packet_cuts_within_the_old_ends(void **state)
{
    struct outs o;
    char *end = NULL;

    open_demo(&o, state);
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

static void
an_entry_that_is_too_large_is_left_out_and_the_gap_can_be_seen(void **state)
{
    struct outs o;

    open_demo(&o, state);
    quiet_mqtt->packet_bytes = 20000;
    sets_post(&o.sets, "demo", 0, 1);
    sets_post_heavy(&o.sets, "demo", 0, 1, 40000);
    sets_post(&o.sets, "demo", 0, 1);

    quiet_mqtt_turn();

    assert_told(&o, "demo(1-2) demo(3-4) ");
    assert_int_equal(outs_report(&o).left_out, 1);
    ACK(&o, "demo(3-4)");
    assert_int_equal(outs_report(&o).lag, 3);
    ACK(&o, "demo(1-2)");
    assert_int_equal(outs_report(&o).lag, 0);

    /* Also where nothing follows. */
    sets_post_heavy(&o.sets, "demo", 0, 1, 40000);
    quiet_mqtt_turn();
    assert_told(&o, "");
    assert_int_equal(outs_report(&o).lag, 0);
    assert_int_equal(outs_report(&o).left_out, 2);
    outs_close(&o);
}

static void
sets_take_turns(void **state)
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

static void
large_messages_wait_for_room_in_bytes(void **state)
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

static void
a_set_that_is_refused_pauses_and_others_go_on(void **state)
{
    struct outs o;

    open_demo(&o, state);
    sets_post(&o.sets, "other", 0, 1);
    quiet_mqtt_await();
    quiet_mqtt_acknowledge_all();
    outs_told(&o, true);
    outs_post(&o, "demo", 1);
    outs_post(&o, "demo", 1);
    assert_told(&o, "demo(1-2) demo(2-3) ");

    quiet_mqtt_acknowledge(outs_find(&o, "demo(1-2)", 0), 0x87);
    ACK(&o, "demo(2-3)"); /* of no use: what is before it is to come first */
    outs_post(&o, "demo", 1);
    outs_post(&o, "other", 1);
    assert_told(&o, "other(1-2) ");
    assert_int_equal(outs_report(&o).lag, 4);
    assert_int_equal(outs_report(&o).refused, 1);

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

    /* From the beginning. */
    outs_post(&o, "demo", 1);
    quiet_mqtt_acknowledge(outs_find(&o, "demo(4-5)", 0), 0x97);
    outs_told(&o, true);
    outs_pass(SECOND);
    assert_told(&o, "demo(4-5) ");
    outs_close(&o);
}

static void
pauses_grow_to_a_minute(void **state)
{
    static const int64_t pauses[] = {1, 2, 4, 8, 16, 32, 60, 60};
    struct outs o;

    open_demo(&o, state);
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

static void
a_qos_that_the_mqtt_broker_does_not_have_ends_the_connection(void **state)
{
    struct outs o;

    open_demo(&o, state);
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

static void
what_memory_is_lacking_for_is_told_later(void **state)
{
    struct outs o;

    open_demo(&o, state);
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

/* Sets that go */

static void
a_set_that_is_removed_takes_its_position_with_it(void **state)
{
    struct outs o;

    open_demo(&o, state);
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

static void
a_set_that_was_removed_meanwhile_is_so_when_there_is_a_connection(void **state)
{
    struct outs o;

    open_demo(&o, state);
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

static void
a_set_that_is_made_anew_is_told_from_its_beginning(void **state)
{
    struct outs o;

    open_demo(&o, state);
    outs_post(&o, "demo", 1); /* under way when it is removed */
    assert_told(&o, "demo(1-2) ");
    alterations_remove(&o.sets, "demo");
    sets_post(&o.sets, "demo", 0, 2);
    outs_pass(2 * SECOND);
    while (outs_report(&o).lag == 0)
        quiet_mqtt_await();
    assert_told(&o, "demo(0-2) ");

    ACK(&o, "demo(1-2)"); /* of the one that was */
    assert_int_equal(outs_report(&o).lag, 2);
    ACK(&o, "demo(0-2)");
    assert_int_equal(outs_report(&o).lag, 0);

    /* And while the bridge did not run. */
    outs_stop(&o, false);
    alterations_remove(&o.sets, "demo");
    sets_post(&o.sets, "demo", 0, 1);
    outs_connect(&o);
    assert_told(&o, "demo(0-1) ");
    outs_close(&o);
}

/* Forms */

static void
a_change_has_its_topic(void **state)
{
    static const char body[] =
        "[{\"loc\":\"http://example.com/a\",\"change\":\"created\"},"
        "{\"loc\":\"http://example.com/a\",\"change\":\"deleted\"}]";
    struct outs o;
    struct sets_outcome outcome;
    char *after;
    size_t i = 0;

    outs_open(&o, state);
    o.config.publish = BRIDGE_CHANGES;
    sets_post(&o.sets, "demo", 0, 1);
    outs_connect(&o);
    outcome =
        sets_post_body(&o.sets, "demo", "application/json", SLICE(body), 0);
    assert_int_equal(outcome.rc, STATUS_OK);
    quiet_mqtt_turn();
    outs_post(&o, "demo", 1);

    assert_told(&o, "demo+2 demo+3 demo+4 ");
    assert_string_equal(quiet_mqtt_message(outs_find(&o, "demo+2", 0))->topic,
                        "tidings/demo/changes/created");
    assert_string_equal(quiet_mqtt_message(outs_find(&o, "demo+4", 0))->topic,
                        "tidings/demo/changes/updated");
    after = quiet_mqtt_property(
        quiet_mqtt_find(&i, "tidings/demo/changes/deleted"), "after");
    assert_string_equal(after, "2");
    free(after);

    /* Each moves the lane. */
    ACK(&o, "demo+2");
    assert_int_equal(outs_report(&o).lag, 2);
    quiet_mqtt_lose();
    quiet_mqtt_connect(false);
    quiet_mqtt_turn();
    assert_told(&o, "demo+3 demo+4 ");
    outs_close(&o);
}

static void
a_notification_comes_before_its_changes_and_all_are_acknowledged(void **state)
{
    struct outs o;

    outs_open(&o, state);
    o.config.publish = BRIDGE_NOTIFICATIONS | BRIDGE_CHANGES;
    sets_post(&o.sets, "demo", 0, 1);
    outs_connect(&o);
    quiet_mqtt_acknowledge_all();
    quiet_mqtt->window = 3;
    outs_told(&o, true);

    outs_post(&o, "demo", 3);
    outs_post(&o, "demo", 1);
    assert_told(&o, "demo(1-4) demo+2 demo+3 ");
    ACK(&o, "demo+2");
    ACK(&o, "demo+3");
    ACK(&o, "demo(1-4)");
    assert_int_equal(outs_report(&o).lag, 4);
    quiet_mqtt_turn();
    assert_told(&o, "demo+4 demo(4-5) demo+5 ");
    ACK(&o, "demo+4");
    assert_int_equal(outs_report(&o).lag, 1);
    ACK(&o, "demo+5");

    quiet_mqtt_lose();
    quiet_mqtt_connect(false);
    quiet_mqtt_turn();
    assert_told(&o, "demo(4-5) demo+5 ");
    outs_close(&o);
}

/* Their digests are those of the log, whether a batch is read from its
 * beginning or entry by entry. */
static void
messages_are_those_of_the_log(void **state)
{
    static const struct {
        enum bridge_form form;
        enum message_form parsed;
        const char *type;
    } cases[] = {{BRIDGE_JSON, MESSAGE_JSON, "application/json"},
                 {BRIDGE_XML, MESSAGE_XML, "application/xml"}};

    for (int i = 0; i < 2; i++) {
        struct outs o;
        struct set *set;
        uint64_t at = 0;

        outs_open(&o, state);
        o.config.form = cases[i].form;
        o.config.publish = BRIDGE_NOTIFICATIONS | BRIDGE_CHANGES;
        o.config.begins_at_start = true;
        o.config.inflight = 1000;
        o.config.name[0] = (char)('a' + i); /* another one */
        sets_post(&o.sets, "demo", 0, 40);
        set = sets_post(&o.sets, "demo", 0, 50);
        outs_start(&o);
        quiet_mqtt->window = 1000;
        quiet_mqtt_connect(false);
        quiet_mqtt_turn();

        for (size_t n = 0; n < quiet_mqtt->n_published; n++) {
            struct quiet_message *message = quiet_mqtt_message(n);
            struct buf payload = {.data = message->payload,
                                  .size = message->size};
            uint64_t last;

            if (message->is_retained)
                continue;
            assert_int_equal(message->qos, 1);
            assert_string_equal(message->content_type, cases[i].type);
            last = strstr(message->topic, "/changes/")
                       ? at + 1
                       : sets_head(&o.sets, "demo").last;
            assert_covers(&o.sets, set, &payload, cases[i].parsed, at, last);
            if (strstr(message->topic, "/changes/"))
                at++;
        }
        assert_int_equal(at, sets_head(&o.sets, "demo").last);
        outs_close(&o);
    }
}

static void
properties_tell_what_a_message_covers(void **state)
{
    struct outs o;
    struct head head;
    struct quiet_message *message;
    char wanted[300], until[DATETIME_SIZE + 1] = "";

    open_demo(&o, state);
    outs_post(&o, "demo", 1);
    head = sets_head(&o.sets, "demo");
    message = quiet_mqtt_message(outs_find(&o, "demo(1-2)", 0));

    datetime_write_short(until, head.last_us);
    snprintf(wanted, sizeof(wanted),
             "set=demo;epoch=%s;after=1;last=2;from=", head.epoch);
    assert_int_equal(strncmp(message->properties, wanted, strlen(wanted)), 0);
    snprintf(wanted, sizeof(wanted), ";until=%s;", until);
    assert_non_null(strstr(message->properties, wanted));
    assert_string_equal(message->topic, "tidings/demo/notifications");
    outs_close(&o);
}

/* The ledger */

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

    open_demo(&o, state);
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

static void
a_ledger_that_fails_stops_nothing_and_is_kept_again_later(void **state)
{
    struct outs o;

    open_demo(&o, state);
    tamper(&o, "CREATE TRIGGER full BEFORE INSERT ON lanes"
               " BEGIN SELECT RAISE(ABORT, 'full'); END");

    outs_post(&o, "demo", 1);
    outs_post(&o, "demo", 1);
    assert_told(&o, "demo(1-2) demo(2-3) ");
    ACK(&o, "demo(1-2)");
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

    open_demo(&o, state);
    outs_stop(&o, false);
    tamper(&o, "UPDATE lanes SET acked=100, ends=x'01'");

    outs_connect(&o);
    outs_post(&o, "demo", 1);

    assert_told(&o, "demo(1-2) ");
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

static void
what_is_no_longer_retained_is_left_out(void **state)
{
    struct outs o;

    open_demo(&o, state);
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
    ACK(&o, "demo(4-8)");
    assert_int_equal(outs_report(&o).lag, 0);
    outs_close(&o);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, tempdir_setup, tempdir_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_older_set_is_told_from_where_it_is),
        TEST(an_older_set_is_told_from_its_start_if_that_is_wanted),
        TEST(a_set_that_is_born_is_told_from_its_first_change),
        TEST(a_set_that_is_younger_than_the_bridge_is_told_whole),
        TEST(only_the_sets_that_are_named_are_told),
        TEST(messages_are_under_way_up_to_the_window),
        TEST(what_is_acknowledged_out_of_turn_waits_for_what_is_before_it),
        TEST(an_acknowledgement_may_come_before_publishing_has_returned),
        TEST(a_connection_that_ends_is_gone_over_again_with_the_same_ends),
        TEST(so_it_is_after_a_kill),
        TEST(acknowledgements_are_kept_within_a_second),
        TEST(a_graceful_end_keeps_what_is_acknowledged),
        TEST(a_smaller_packet_cuts_within_the_old_ends),
        TEST(an_entry_that_is_too_large_is_left_out_and_the_gap_can_be_seen),
        TEST(sets_take_turns),
        TEST(large_messages_wait_for_room_in_bytes),
        TEST(a_set_that_is_refused_pauses_and_others_go_on),
        TEST(pauses_grow_to_a_minute),
        TEST(a_qos_that_the_mqtt_broker_does_not_have_ends_the_connection),
        TEST(what_memory_is_lacking_for_is_told_later),
        TEST(a_set_that_is_removed_takes_its_position_with_it),
        TEST(a_set_that_was_removed_meanwhile_is_so_when_there_is_a_connection),
        TEST(a_set_that_is_made_anew_is_told_from_its_beginning),
        TEST(a_change_has_its_topic),
        TEST(a_notification_comes_before_its_changes_and_all_are_acknowledged),
        TEST(messages_are_those_of_the_log),
        TEST(properties_tell_what_a_message_covers),
        TEST(where_a_message_ends_is_kept_before_it_is_published),
        TEST(a_ledger_that_fails_stops_nothing_and_is_kept_again_later),
        TEST(a_bridge_that_is_ahead_of_the_log_goes_on_from_its_head),
        TEST(what_is_no_longer_retained_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
