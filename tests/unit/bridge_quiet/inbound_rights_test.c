/* Messages of an MQTT broker with the rights of a token. */
#include <stdio.h>

#include "tests/clock.h"
#include "tests/support/set_changes.h"
#include "tests/test.h"
#include "tests/unit/bridge_quiet/inbound_stage.h"

#define SECOND_US ((int64_t)1000000)

static int
set_up(void **state)
{
    struct in_stage *s;

    in_stage_setup_closed(state);
    s = *state;
    snprintf(s->config.as, sizeof(s->config.as), "press");
    in_stage_add_token(s, "press", "alpha berlin shy", "alpha ulm");
    in_stage_start(s);
    for (size_t i = 0; i < 3; i++)
        quiet_mqtt_grant(i, 1);
    return 0;
}

FIXTURE(set_up, in_stage_teardown);

static void
revoke(struct in_stage *s)
{
    assert_int_equal(tokens_revoke(s->tokens, NULL, SLICE("press"), NULL),
                     STATUS_OK);
}

/* The same rights as those of a post by HTTP. A rejected message does not stop
 * later ones. */
TEST(a_message_needs_the_right_to_publish)
{
    struct in_stage *s = *state;

    set_changes_put(&s->sets, "shy", "{\"private\":true}");
    receive("a/x", ENTRY("1"));
    receive("plant/berlin/changes", ENTRY("2"));
    receive("plant/ulm/changes", ENTRY("3"));
    receive("plant/No Such/changes", ENTRY("4"));
    receive("plant/shy/changes", ENTRY("5"));
    quiet_mqtt_turn();
    assert_locs(s, "alpha", "1");
    assert_int_equal(last_of(s, "berlin"), 0);
    assert_locs(s, "shy", "5");
    assert_rejected(0, "\"status\":403",
                    "the token \\\"press\\\" has no right to manage "
                    "\\\"berlin\\\"",
                    "\"set\":\"berlin\"");
    assert_rejected(1, "\"status\":403", "no right to publish \\\"ulm\\\"",
                    NULL);
    assert_rejected(2, "\"status\":404", NULL, NULL);
    sets_post(&s->sets, "berlin", 1, 1);
    receive("plant/berlin/changes", ENTRY("6"));
    quiet_mqtt_turn();
    assert_int_equal(last_of(s, "berlin"), 2);
}

TEST(everyone_posts_to_no_private_set, in_stage_setup_closed, in_stage_teardown)
{
    struct in_stage *s = *state;

    snprintf(s->config.as, sizeof(s->config.as), "everyone");
    in_stage_add_token(s, "everyone", "*", "*");
    in_stage_start(s);
    set_changes_put(&s->sets, "shy", "{\"private\":true}");
    receive("a/x", ENTRY("1"));
    receive("plant/shy/changes", ENTRY("2"));
    quiet_mqtt_turn();
    assert_locs(s, "alpha", "1");
    assert_int_equal(last_of(s, "shy"), 0);
    assert_rejected(0, "\"status\":403", "publish", NULL);
}

/* They were read, so a write would acknowledge them. */
TEST(messages_that_come_behind_the_end_of_the_token_are_not_acknowledged)
{
    struct in_stage *s = *state;

    receive("a/x", ENTRY("1"));
    quiet_mqtt_turn();
    receive("a/x", ENTRY("2"));
    revoke(s);
    quiet_mqtt_turn();
    assert_true(quiet_mqtt->is_suspended);
    assert_false(quiet_mqtt->is_connected);
    assert_int_equal(last_of(s, "alpha"), 1);
    assert_int_equal(report(s).rejected, 0);
    assert_string_equal(report(s).mqtt.why.text,
                        "there is no token \"press\": it was revoked, has "
                        "expired, or was not made yet");

    in_stage_add_token(s, "press", "alpha", "");
    clock_pass_us(SECOND_US);
    quiet_mqtt_turn();
    assert_false(quiet_mqtt->is_suspended);
    quiet_mqtt_connect(true);
    receive("a/x", ENTRY("2"));
    quiet_mqtt_turn();
    assert_locs(s, "alpha", "1 2");
}

/* Nothing has come: the connection ends with DISCONNECT. */
TEST(a_bridge_at_rest_looks_once_a_second)
{
    struct in_stage *s = *state;

    quiet_mqtt_turn();
    assert_int_equal(quiet_mqtt->wait_us, SECOND_US);
    revoke(s);
    clock_pass_us(SECOND_US);
    quiet_mqtt_turn();
    assert_true(quiet_mqtt->is_suspended);
    assert_true(quiet_mqtt->is_connected);
    quiet_mqtt_part();
}

/* Every message is checked: so the end does not wait for those before. */
TEST(the_end_counts_from_the_next_message_on)
{
    struct in_stage *s = *state;

    revoke(s);
    for (size_t i = 0; i < INBOX_MESSAGES; i++)
        receive("a/x", ENTRY("1")); /* a full inbox is settled at once */
    assert_int_equal(last_of(s, "alpha"), 0);
    assert_true(quiet_mqtt->was_dropped);
    quiet_mqtt_turn();
    assert_true(quiet_mqtt->is_suspended);
}
