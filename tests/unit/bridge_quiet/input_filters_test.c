/* Subscriptions to filters, and the retained messages that the bridge
 * accepts. */
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "tests/test.h"
#include "tests/unit/bridge_quiet/inbound_stage.h"

/* Asserts filter number `i` of those that the client got since the start. */
static void
assert_filter(size_t i, const char *filter, bool wants_retained, bool is_over)
{
    assert_true(i < quiet_mqtt->n_filters);
    assert_string_equal(quiet_mqtt->filters[i].filter, filter);
    assert_int_equal(quiet_mqtt->filters[i].wants_retained, wants_retained);
    assert_int_equal(quiet_mqtt->filters[i].is_over, is_over);
}

FIXTURE(in_stage_setup, in_stage_teardown);

/* With every connection, also with a kept session; it asks for retained
 * messages once for each filter, until that is granted for the first time. */
TEST(subscribes_with_every_connection, in_stage_setup_closed, in_stage_teardown)
{
    struct in_stage *s = *state;

    in_stage_start(s);
    assert_int_equal(quiet_mqtt->n_filters, 3);
    assert_filter(0, "a/+", true, false);
    assert_filter(1, "plant/+/changes", true, false);
    assert_filter(2, "plant/#", true, false);
    quiet_mqtt_grant(0, 1);
    quiet_mqtt_grant(1, 2);

    quiet_mqtt_lose();
    quiet_mqtt_connect(true);
    assert_int_equal(quiet_mqtt->n_filters, 6);
    assert_filter(3, "a/+", false, false);
    assert_filter(4, "plant/+/changes", false, false);
    assert_filter(5, "plant/#", true, false);
    in_stage_close(s);

    in_stage_start(s);
    assert_filter(0, "a/+", false, false);
    assert_filter(2, "plant/#", true, false);
}

/* The report shows a refused filter, and the bridge goes on: the others work,
 * and it tries again. */
TEST(tells_of_a_filter_that_is_refused, in_stage_setup_closed,
     in_stage_teardown)
{
    struct in_stage *s = *state;

    in_stage_start(s);
    quiet_mqtt_grant(0, 1);
    assert_string_equal(report(s).why.text, "");
    quiet_mqtt_grant(1, 0x87);
    assert_non_null(strstr(report(s).why.text,
                           "refuses the subscription to plant/+/changes: "
                           "not authorized"));
    quiet_mqtt_grant(2, 1);
    receive("a/x", ENTRY("1"));
    quiet_mqtt_turn();
    assert_locs(s, "alpha", "1");
    assert_non_null(strstr(report(s).why.text, "plant/+/changes"));

    quiet_mqtt_lose();
    quiet_mqtt_connect(true);
    assert_filter(3, "a/+", false, false);
    assert_filter(4, "plant/+/changes", true, false);
    for (size_t i = 3; i < 6; i++)
        quiet_mqtt_grant(i, 1);
    assert_string_equal(report(s).why.text, "");
}

TEST(tells_of_a_filter_that_is_not_granted_at_qos_1, in_stage_setup_closed,
     in_stage_teardown)
{
    struct in_stage *s = *state;

    in_stage_start(s);
    quiet_mqtt_grant(0, 0);
    assert_non_null(strstr(report(s).why.text, "a/+ at QoS 0 only"));
}

/* The bridge unsubscribes from filters of the session that are no longer
 * configured; mqtt.db forgets each when the MQTT broker has confirmed that,
 * not before. */
TEST(unsubscribes_from_what_is_configured_no_more)
{
    struct in_stage *s = *state;

    in_stage_close(s);
    s->config.n_inputs = 1;

    in_stage_start(s);
    assert_int_equal(quiet_mqtt->n_filters, 3);
    assert_filter(0, "plant/#", false, true);
    assert_filter(1, "plant/+/changes", false, true);
    assert_filter(2, "a/+", false, false);
    receive("plant/hof", ENTRY("1")); /* was on its way */
    quiet_mqtt_turn();
    assert_int_equal(report(s).ignored, 1);
    quiet_mqtt_lose();
    quiet_mqtt_connect(true);
    assert_int_equal(quiet_mqtt->n_filters, 6);
    quiet_mqtt_grant(5, 1);

    quiet_mqtt_lose();
    quiet_mqtt_connect(true);
    assert_int_equal(quiet_mqtt->n_filters, 7);
    assert_filter(6, "a/+", false, false);
}

static void
receive_retained(const char *payload)
{
    RECEIVE(payload, .is_retained = true);
    quiet_mqtt_turn();
}

/* MQTT 3.1.1 sends retained messages with every subscription: the bridge
 * accepts those of the first one. */
TEST(takes_retained_messages_of_3_1_1_the_first_time, in_stage_setup_closed,
     in_stage_teardown)
{
    struct in_stage *s = *state;

    s->config.version = BRIDGE_MQTT_311;
    in_stage_start(s);
    receive_retained(ENTRY("1")); /* before SUBACK, or after it */
    quiet_mqtt_grant(0, 1);
    receive_retained(ENTRY("2"));
    assert_locs(s, "alpha", "1 2");

    quiet_mqtt_lose();
    quiet_mqtt_connect(true);
    receive_retained(ENTRY("1"));
    quiet_mqtt_grant(3, 1);
    receive_retained(ENTRY("2"));
    assert_int_equal(last_of(s, "alpha"), 2);
    assert_int_equal(report(s).ignored, 2);
}

/* With MQTT 5 they come only where they were asked for: also out of the
 * session, when more of them waited than could be sent. */
TEST(takes_retained_messages_of_5_that_were_asked_for)
{
    struct in_stage *s = *state;

    receive_retained(ENTRY("1"));
    quiet_mqtt_lose();
    quiet_mqtt_connect(true);
    receive_retained(ENTRY("2"));
    assert_locs(s, "alpha", "1 2");
}

/* Without mqtt.db nobody knows which messages are new: the connection is
 * useless. */
TEST(drops_the_connection_without_the_database)
{
    struct in_stage *s = *state;
    sqlite3 *db;
    char path[512];

    quiet_mqtt_lose();
    snprintf(path, sizeof(path), "%s/mqtt.db", s->dir.path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "DROP TABLE filters", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);

    quiet_mqtt_connect(true);
    assert_true(quiet_mqtt->was_dropped);
    assert_true(quiet_mqtt->why_dropped.text[0] != '\0');
    assert_int_equal(quiet_mqtt->n_filters, 3);
}
