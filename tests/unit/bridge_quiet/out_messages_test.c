/* What a message outwards is: its topic, its properties, what it covers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/datetime.h"
#include "tests/test.h"
#include "tests/unit/bridge_quiet/outs.h"
#include "tests/unit/sets/messages.h"

FIXTURE(tempdir_setup, tempdir_teardown);

TEST(a_change_has_its_topic)
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
    outs_acknowledge(&o, "demo+2");
    assert_int_equal(outs_report(&o).lag, 2);
    quiet_mqtt_lose();
    quiet_mqtt_connect(false);
    quiet_mqtt_turn();
    assert_told(&o, "demo+3 demo+4 ");
    outs_close(&o);
}

TEST(a_notification_comes_before_its_changes_and_all_are_acknowledged)
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
    outs_acknowledge(&o, "demo+2");
    outs_acknowledge(&o, "demo+3");
    outs_acknowledge(&o, "demo(1-4)");
    assert_int_equal(outs_report(&o).lag, 4);
    quiet_mqtt_turn();
    assert_told(&o, "demo+4 demo(4-5) demo+5 ");
    outs_acknowledge(&o, "demo+4");
    assert_int_equal(outs_report(&o).lag, 1);
    outs_acknowledge(&o, "demo+5");

    quiet_mqtt_lose();
    quiet_mqtt_connect(false);
    quiet_mqtt_turn();
    assert_told(&o, "demo(4-5) demo+5 ");
    outs_close(&o);
}

TEST(an_entry_that_is_too_large_is_left_out_and_the_gap_can_be_seen)
{
    struct outs o;

    outs_open_demo(&o, state);
    quiet_mqtt->packet_bytes = 20000;
    sets_post(&o.sets, "demo", 0, 1);
    sets_post_heavy(&o.sets, "demo", 0, 1, 40000);
    sets_post(&o.sets, "demo", 0, 1);

    quiet_mqtt_turn();

    assert_told(&o, "demo(1-2) demo(3-4) ");
    assert_int_equal(outs_report(&o).left_out, 1);
    outs_acknowledge(&o, "demo(3-4)");
    assert_int_equal(outs_report(&o).lag, 3);
    outs_acknowledge(&o, "demo(1-2)");
    assert_int_equal(outs_report(&o).lag, 0);

    /* Also where nothing follows. */
    sets_post_heavy(&o.sets, "demo", 0, 1, 40000);
    quiet_mqtt_turn();
    assert_told(&o, "");
    assert_int_equal(outs_report(&o).lag, 0);
    assert_int_equal(outs_report(&o).left_out, 2);
    outs_close(&o);
}

/* Their digests are those of the log, whether a batch is read from its
 * beginning or entry by entry. */
TEST(messages_are_those_of_the_log)
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

/* A digest goes on from the message before, also where that was made in an
 * earlier turn; who goes back begins it anew. */
TEST(messages_of_many_turns_are_those_of_the_log)
{
    struct outs o;
    struct set *set;
    uint64_t at = 0;
    size_t n = 0;

    outs_open(&o, state);
    o.config.publish = BRIDGE_CHANGES;
    o.config.begins_at_start = true;
    set = sets_post(&o.sets, "demo", 0, 50);
    outs_start(&o);
    quiet_mqtt->window = 7;
    quiet_mqtt_connect(false);
    quiet_mqtt_turn();
    for (unsigned turn = 0; at < 50; turn++) {
        uint64_t acked = at;

        for (; n < quiet_mqtt->n_published; n++) {
            struct quiet_message *message = quiet_mqtt_message(n);
            struct buf payload = {.data = message->payload,
                                  .size = message->size};

            if (message->is_retained)
                continue;
            assert_covers(&o.sets, set, &payload, MESSAGE_JSON, at, at + 1);
            at++;
        }
        if (turn == 0) { /* nothing of it was acknowledged */
            assert_in_range(at, 1, 7);
            at = acked;
            quiet_mqtt_lose();
            quiet_mqtt_connect(false);
        } else {
            quiet_mqtt_acknowledge_all();
        }
        quiet_mqtt_turn();
    }
    outs_close(&o);
}

TEST(properties_tell_what_a_message_covers)
{
    struct outs o;
    struct head head;
    struct quiet_message *message;
    char wanted[300], until[DATETIME_SIZE + 1] = "";

    outs_open_demo(&o, state);
    outs_post(&o, "demo", 1);
    head = sets_head(&o.sets, "demo");
    message = quiet_mqtt_message(outs_find(&o, "demo(1-2)", 0));

    datetime_write(until, head.last_us);
    snprintf(wanted, sizeof(wanted),
             "set=demo;epoch=%s;after=1;last=2;from=", head.epoch);
    assert_int_equal(strncmp(message->properties, wanted, strlen(wanted)), 0);
    snprintf(wanted, sizeof(wanted), ";until=%s;", until);
    assert_non_null(strstr(message->properties, wanted));
    assert_string_equal(message->topic, "tidings/demo/notifications");
    outs_close(&o);
}

/* Neither does it stop what goes over its old ends. */
TEST(an_entry_that_has_become_too_large_is_left_out_among_others)
{
    struct outs o;

    outs_open_demo(&o, state);
    outs_post(&o, "demo", 1);
    sets_post_heavy(&o.sets, "demo", 0, 1, 40000);
    quiet_mqtt_turn();
    outs_post(&o, "demo", 1);
    assert_told(&o, "demo(1-2) demo(2-3) demo(3-4) ");
    quiet_mqtt_lose();
    quiet_mqtt->packet_bytes = 20000;

    quiet_mqtt_connect(false);
    quiet_mqtt_turn();

    assert_told(&o, "demo(1-2) demo(3-4) ");
    quiet_mqtt_acknowledge_all();
    assert_int_equal(outs_report(&o).lag, 0);
    outs_close(&o);
}
