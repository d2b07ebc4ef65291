/* A message outwards: its topic, its properties, its range. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/log/log.h"
#include "proto/datetime.h"
#include "proto/input/input_formats.h"
#include "tests/test.h"
#include "tests/unit/bridge_quiet/outbound_stage.h"

FIXTURE(outs_setup, outs_teardown);

TEST(a_change_has_its_topic)
{
    static const char body[] =
        "[{\"loc\":\"http://example.com/a\",\"change\":\"created\"},"
        "{\"loc\":\"http://example.com/a\",\"change\":\"deleted\"}]";
    struct outs *o = *state;
    char *after;
    size_t i = 0;

    o->config.publish = BRIDGE_CHANGES;
    play(o, "add demo 1; begin");
    assert_int_equal(
        sets_post_body(&o->sets, "demo", "application/json", SLICE(body), 0).rc,
        STATUS_OK);
    play(o, "turn; post demo 1; told demo+2 demo+3 demo+4");

    assert_string_equal(quiet_mqtt_message(outs_find(o, "demo+2", 0))->topic,
                        "tidings/demo/changes/created");
    assert_string_equal(quiet_mqtt_message(outs_find(o, "demo+4", 0))->topic,
                        "tidings/demo/changes/updated");
    after = quiet_mqtt_property(
        quiet_mqtt_find(&i, "tidings/demo/changes/deleted"), "after");
    assert_string_equal(after, "2");
    free(after);

    /* Each moves the lane. */
    play(o, "ack demo+2; has lag 2; lose; connect; turn; told demo+3 demo+4");
}

TEST(a_notification_comes_before_its_changes_and_all_are_acknowledged)
{
    struct outs *o = *state;

    o->config.publish = BRIDGE_NOTIFICATIONS | BRIDGE_CHANGES;
    play(o, "add demo 1; begin; ackall; window 3; skip;"
            "post demo 3; post demo 1; told demo(1-4) demo+2 demo+3;"
            "ack demo+2; ack demo+3; ack demo(1-4); has lag 4;"
            "turn; told demo+4 demo(4-5) demo+5;"
            "ack demo+4; has lag 1; ack demo+5;"
            "lose; connect; turn; told demo(4-5) demo+5");
}

TEST(an_entry_that_is_too_large_is_left_out_and_the_gap_can_be_seen,
     outs_setup_demo, outs_teardown)
{
    play(*state, "packet 20000; add demo 1; heavy demo 1 40000; add demo 1;"
                 "turn; told demo(1-2) demo(3-4); has left_out 1;"
                 "ack demo(3-4); has lag 3; ack demo(1-2); has lag 0;"
                 /* Also where nothing follows. */
                 "heavy demo 1 40000; turn; told; has lag 0; has left_out 2");
}

static enum status
on_change(const struct change *change, void *user, struct problem *why)
{
    (void)why;
    assert_int_equal(change->seq, ++*(uint64_t *)user);
    return STATUS_OK;
}

/* A receiver reads (after, last] of "demo", with the digest of the log. */
static void
assert_message(struct outs *o, const struct quiet_message *message,
               uint64_t after, uint64_t last)
{
    uint64_t seq = after;
    struct problem why = {""};
    struct input_reader *reader =
        input_reader_new(format_of(slice_of(message->content_type)),
                         INPUT_MESSAGE, SIZE_MAX, on_change, &seq);
    const struct coverage *c = &reader->coverage;
    struct digest digest;
    struct batch *b;

    if (input_reader_feed(
            reader, (struct slice){message->payload, message->size}, &why) ||
        input_reader_end(reader, &why))
        fail_msg("%s", why.text);
    assert_int_equal(seq, last);
    assert_int_equal(c->after, after);
    assert_int_equal(c->last, last);
    assert_string_equal(c->epoch, sets_head(&o->sets, "demo").epoch);
    assert_int_equal(log_read(o->sets.registry->log,
                              sets_find(&o->sets, "demo")->log, last - 1,
                              LOG_DISK, &b, NULL),
                     STATUS_OK);
    digest = batch_digest(b, last);
    assert_true(c->has_digest);
    assert_memory_equal(c->digest.bytes, digest.bytes, DIGEST_SIZE);
    batch_unref(b);
    input_reader_free(reader);
}

/* Their digests are those of the log, whether a batch is read from its
 * beginning or entry by entry. */
TEST(messages_are_those_of_the_log)
{
    static const struct {
        enum bridge_form form;
        const char *type;
    } cases[] = {{BRIDGE_JSON, "application/json"},
                 {BRIDGE_XML, "application/xml"}};
    struct outs *o = *state;

    o->config.publish = BRIDGE_NOTIFICATIONS | BRIDGE_CHANGES;
    o->config.begins_at_start = true;
    o->config.inflight = 1000;
    play(o, "add demo 40; add demo 50");
    for (int i = 0; i < 2; i++) {
        uint64_t at = 0, last = sets_head(&o->sets, "demo").last;

        o->config.form = cases[i].form;
        o->config.name[0] = (char)('a' + i); /* another one */
        play(o, "start; window 1000; connect; turn");
        for (size_t n = 0; n < quiet_mqtt->n_published; n++) {
            struct quiet_message *message = quiet_mqtt_message(n);
            bool is_change = strstr(message->topic, "/changes/");

            if (message->is_retained)
                continue;
            assert_int_equal(message->qos, 1);
            assert_string_equal(message->content_type, cases[i].type);
            assert_message(o, message, at, is_change ? at + 1 : last);
            at += is_change;
        }
        assert_int_equal(at, last);
        play(o, "cut");
    }
}

/* A digest continues from the message before, also if an earlier turn made
 * that; after a step back the digest begins again. */
TEST(messages_of_many_turns_are_those_of_the_log)
{
    struct outs *o = *state;
    uint64_t at = 0;
    size_t n = 0;

    o->config.publish = BRIDGE_CHANGES;
    o->config.begins_at_start = true;
    play(o, "add demo 50; start; window 7; connect; turn");
    for (unsigned turn = 0; at < 50; turn++) {
        uint64_t acked = at;

        for (; n < quiet_mqtt->n_published; n++)
            if (!quiet_mqtt_message(n)->is_retained) {
                assert_message(o, quiet_mqtt_message(n), at, at + 1);
                at++;
            }
        if (turn == 0) { /* nothing of it was acknowledged */
            assert_in_range(at, 1, 7);
            at = acked;
            play(o, "lose; connect; turn");
        } else {
            play(o, "ackall; turn");
        }
    }
}

TEST(properties_tell_what_a_message_covers, outs_setup_demo, outs_teardown)
{
    struct outs *o = *state;
    struct head head;
    struct quiet_message *message;
    char wanted[300], until[DATETIME_SIZE + 1] = "";

    play(o, "post demo 1");
    head = sets_head(&o->sets, "demo");
    message = quiet_mqtt_message(outs_find(o, "demo(1-2)", 0));

    datetime_write(until, head.last_us);
    snprintf(wanted, sizeof(wanted),
             "set=demo;epoch=%s;after=1;last=2;from=", head.epoch);
    assert_int_equal(strncmp(message->properties, wanted, strlen(wanted)), 0);
    snprintf(wanted, sizeof(wanted), ";until=%s;", until);
    assert_non_null(strstr(message->properties, wanted));
    assert_string_equal(message->topic, "tidings/demo/notifications");
}

/* Neither does it stop what goes over its old ends. */
TEST(an_entry_that_has_become_too_large_is_left_out_among_others,
     outs_setup_demo, outs_teardown)
{
    play(*state, "post demo 1; heavy demo 1 40000; turn; post demo 1;"
                 "told demo(1-2) demo(2-3) demo(3-4);"
                 "lose; packet 20000; connect; turn;"
                 "told demo(1-2) demo(3-4); ackall; has lag 0");
}
