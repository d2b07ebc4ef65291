/* Messages from an MQTT broker: committed, then acknowledged. The client is
 * quiet_mqtt.h: acknowledgements may go out once `turn` has returned. */
#include <stdio.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/bridge_quiet/inbound_stage.h"

FIXTURE(in_stage_setup, in_stage_teardown);

/* A message becomes a post to the mapped set. It is committed when the
 * client's turn is over, and not acknowledged before. */
TEST(commits_what_was_received_before_anything_is_written)
{
    struct in_stage *s = *state;

    receive("a/x", ENTRY("1"));
    receive("a/y", "[" ENTRY("2") "," ENTRY("3") "]");
    assert_int_equal(last_of(s, "alpha"), 0);
    quiet_mqtt_turn();

    assert_int_equal(last_of(s, "alpha"), 3);
    assert_locs(s, "alpha", "1 2 3");
    assert_int_equal(report(s).received, 2);
    assert_int_equal(report(s).posted, 2);
    assert_int_equal(report(s).entries, 3);
    assert_true(quiet_mqtt->wait_us < 0);
}

/* XML or JSON, by MQTT 5's content type, or by its first byte.
 */
TEST(reads_every_format)
{
    static const struct {
        const char *type, *payload;
    } messages[] = {
        {"application/xml", XML_BODY("1")},
        {"application/x-ndjson", ENTRY("2") "\n" ENTRY("3") "\n"},
        {"application/json", "[" ENTRY("4") "]"},
        {"text/plain", ENTRY("5")}, /* the bytes decide */
        {"", XML_BODY("6")},
        {"", " \r\n\t" ENTRY("7")},
        {"", "\xef\xbb\xbf[" ENTRY("8") "]"},
    };
    struct in_stage *s = *state;

    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        RECEIVE(messages[i].payload,
                .content_type = slice_of(messages[i].type));
    }
    quiet_mqtt_turn();
    assert_locs(s, "alpha", "1 2 3 4 5 6 7 8");
    assert_int_equal(report(s).rejected, 0);
}

/* The mapping: the first filter that matches; of SET `+` the level at the
 * filter's first +. */
TEST(finds_the_set_by_the_topic)
{
    struct in_stage *s = *state;

    receive("a/x", ENTRY("1"));
    receive("plant/berlin/changes", ENTRY("2"));
    receive("plant/ulm/changes", ENTRY("3"));
    receive("plant/hof", ENTRY("4"));
    receive("plant/No Such/changes", ENTRY("5"));
    receive("elsewhere", ENTRY("6"));
    quiet_mqtt_turn();

    assert_locs(s, "alpha", "1");
    assert_locs(s, "berlin", "2");
    assert_locs(s, "ulm", "3");
    assert_locs(s, "rest", "4");
    assert_int_equal(report(s).rejected, 1);
    assert_int_equal(report(s).ignored, 1);
    assert_rejected(0, "\"status\":404", "\"topic\":\"plant/No Such/changes\"",
                    "\"set\":\"No Such\"");
}

/* Repeats: the key of a message is that of its post, so the broker keeps it
 * once. */
TEST(keeps_a_message_with_a_key_once)
{
    struct in_stage *s = *state;

    for (int i = 0; i < 2; i++) {
        RECEIVE(ENTRY("1"), .correlation = SLICE("\x00\xff"),
                .key = SLICE("not this one"), .is_repeat = i > 0);
        RECEIVE(ENTRY("2"), .key = SLICE("k-2"), .is_repeat = i > 0);
        RECEIVE("{\"id\":\"k-3\",\"changes\":[" ENTRY("3") "]}",
                .is_repeat = i > 0);
        RECEIVE(ENTRY("4"), .correlation = slice_of(s->long_text),
                .is_repeat = i > 0);
        quiet_mqtt_turn();
    }
    assert_locs(s, "alpha", "1 2 3 4");
    assert_int_equal(report(s).posted, 8);
    assert_int_equal(report(s).repeats, 0);
    assert_int_equal(report(s).rejected, 0);

    /* They are keys like those of any post: in hexadecimal, and as they are. */
    RECEIVE(ENTRY("1"), .key = SLICE("correlation:00ff"));
    RECEIVE(ENTRY("3"), .key = SLICE("k-3"));
    quiet_mqtt_turn();
    assert_int_equal(last_of(s, "alpha"), 4);
}

/* The user properties of a CloudEvent, whose id is `id`. */
#define EVENT(id)                              \
    .attributes = SLICE("specversion\0"        \
                        "1.0\0"                \
                        "id\0" id "\0"         \
                        "source\0/s\0"         \
                        "type\0t\0"            \
                        "idempotency-key\0x\0" \
                        "userId\0"             \
                        "7\0")

/* An event is kept once, in each mode, and by another message with the same
 * key; of those that are marked as repeats it needs no count. */
TEST(keeps_an_event_once)
{
    static const char structured[] = "{\"specversion\":\"1.0\",\"id\":\"1\","
                                     "\"source\":\"/s\",\"type\":\"t\","
                                     "\"data\":" ENTRY("1") "}";
    struct in_stage *s = *state;

    receive("a/x", structured);
    RECEIVE(structured, .content_type = SLICE("application/cloudevents+json"),
            EVENT("9"));
    RECEIVE(ENTRY("1"), EVENT("1"), .is_repeat = true);
    RECEIVE(ENTRY("2"), EVENT("2"), .content_type = SLICE("application/json"));
    RECEIVE("<x/>", EVENT("3"));
    RECEIVE("text", EVENT("4"), .content_type = SLICE("text/plain"));
    RECEIVE(ENTRY("3"), .attributes = slice_of(s->long_text));
    RECEIVE(ENTRY("4"), EVENT("1"), .key = SLICE("k"));
    quiet_mqtt_turn();
    assert_locs(s, "alpha", "1 2 4");
    assert_int_equal(report(s).posted, 5);
    assert_int_equal(report(s).repeats, 0);
    assert_int_equal(report(s).rejected, 3);
    assert_rejected(1, "\"status\":422", "no loc: ", "\"set\":\"alpha\"");
}

/* The same, when the repeat comes in the same round: it waits for the first. */
TEST(keeps_a_message_with_a_key_once_in_a_round)
{
    struct in_stage *s = *state;

    for (int i = 0; i < 3; i++) {
        RECEIVE(ENTRY("1"), .key = SLICE("k-1"));
        receive("a/x", "{\"id\":\"k-2\",\"changes\":[" ENTRY("2") "]}");
    }
    quiet_mqtt_turn();
    assert_locs(s, "alpha", "1 2");
    assert_int_equal(report(s).posted, 6);
    assert_false(quiet_mqtt->was_dropped);
}

/* Without a key a repeat looks like another message of the same content: the
 * broker keeps it, and counts it if it may be a repeat. */
TEST(keeps_and_counts_what_may_be_a_repeat)
{
    struct in_stage *s = *state;

    receive("a/x", ENTRY("1"));
    receive("a/x", ENTRY("1"));
    RECEIVE(ENTRY("1"), .is_repeat = true);
    quiet_mqtt_turn();
    assert_locs(s, "alpha", "1 1 1");
    assert_int_equal(report(s).repeats, 1);
}

/* The bridge reports and counts a bad message, and keeps those around it. */
TEST(rejects_what_is_bad_and_goes_on)
{
    struct in_stage *s = *state;

    receive("a/x", ENTRY("1"));
    receive("a/x", "[" ENTRY("2") ",{}]");
    receive("a/x", "{\"loc\":");
    receive("a/x", "bananas");
    RECEIVE(ENTRY("3"), .key = SLICE("white space"));
    receive("a/x", ENTRY("4"));
    quiet_mqtt_turn();

    assert_locs(s, "alpha", "1 4");
    assert_int_equal(report(s).rejected, 4);
    assert_int_equal(quiet_mqtt->n_published, 4);
    assert_string_equal(quiet_mqtt_message(0)->topic, "tidings/rejected");
    assert_string_equal(quiet_mqtt_message(0)->content_type,
                        "application/problem+json");
    assert_int_equal(quiet_mqtt_message(0)->qos, 1);
    assert_false(quiet_mqtt_message(0)->is_retained);
    assert_rejected(
        0,
        "{\"type\":\"about:blank\",\"title\":\"Unprocessable Content\","
        "\"status\":422,\"detail\":\"",
        "\"entry\":2", ",\"topic\":\"a/x\",\"set\":\"alpha\"}\n");
    assert_rejected(1, "\"title\":\"Bad Request\",\"status\":400", NULL, NULL);
    assert_rejected(2, "\"title\":\"Unsupported Media Type\",\"status\":415",
                    "application/x-ndjson", NULL);
    assert_rejected(3, "\"status\":422", "white space", "no key");
}

/* log/idempotency.h: a key that was given to other entries is no repeat. */
TEST(rejects_a_key_of_other_entries)
{
    struct in_stage *s = *state;

    RECEIVE(ENTRY("1"), .key = SLICE("k-1"));
    quiet_mqtt_turn();
    receive("a/x", "{\"id\":\"k-1\",\"changes\":[" ENTRY("2") "]}");
    receive("a/x", ENTRY("3"));
    quiet_mqtt_turn();
    assert_locs(s, "alpha", "1 3");
    assert_rejected(0, "\"status\":422", "\"key\":\"k-1\"", NULL);
}

/* --max-body is the limit of messages, too; memory holds no larger one. */
TEST(rejects_what_is_larger_than_a_post_may_be, in_stage_setup_closed,
     in_stage_teardown)
{
    struct in_stage *s = *state;

    s->sets.config.max_body = 4096;
    in_stage_start(s);
    memset(s->payload, ' ', 5000);
    s->payload[5000] = '\0';
    receive("a/x", s->payload);
    receive("a/x", ENTRY("1"));
    quiet_mqtt_turn();
    assert_locs(s, "alpha", "1");
    assert_rejected(0, "\"status\":415", NULL, NULL);

    memcpy(s->payload, "{", 1);
    receive("a/x", s->payload);
    quiet_mqtt_turn();
    assert_rejected(1, "\"status\":413", "4096 bytes", NULL);
}

/* A flood of bad messages does not grow in the client's memory: while too many
 * problems are unacknowledged the bridge publishes no more; it counts all. */
TEST(does_not_pile_up_rejections)
{
    struct in_stage *s = *state;

    for (unsigned i = 0; i < 1500; i++)
        receive("a/x", "bananas");
    quiet_mqtt_turn();
    assert_int_equal(report(s).rejected, 1500);
    assert_int_equal(quiet_mqtt->n_published, 1000);

    quiet_mqtt_acknowledge_all();
    receive("a/x", "bananas");
    quiet_mqtt_turn();
    assert_int_equal(quiet_mqtt->n_published, 1001);
}

/* A problem that the MQTT broker does not let us publish does not hold up good
 * messages. */
TEST(goes_on_where_rejections_cannot_be_published)
{
    struct in_stage *s = *state;

    quiet_mqtt->packet_bytes = 10;
    receive("a/x", "bananas");
    receive("a/x", ENTRY("1"));
    quiet_mqtt_turn();
    assert_locs(s, "alpha", "1");
    assert_int_equal(report(s).rejected, 1);
    assert_int_equal(quiet_mqtt->n_published, 0);

    quiet_mqtt->packet_bytes = 10000;
    receive("a/x", "bananas");
    quiet_mqtt_turn();
    quiet_mqtt_acknowledge(0, 0x87); /* not authorized */
}

/* In and out on the same MQTT broker do not echo: `#` does no harm.
 * Nor is a message without changes bad: a heartbeat, or a cleared retained
 * message. */
TEST(passes_over_what_is_our_own_or_says_nothing, in_stage_setup_closed,
     in_stage_teardown)
{
    struct in_stage *s = *state;
    char echo[512];

    snprintf(s->inputs[0].filter, sizeof(s->inputs[0].filter), "#");
    in_stage_start(s);
    receive("a/x", ENTRY("1"));
    quiet_mqtt_turn();
    snprintf(echo, sizeof(echo),
             "{\"set\":\"alpha\",\"epoch\":\"%s\",\"after\":0,\"last\":1,"
             "\"changes\":[" ENTRY("1") "]}",
             sets_head(&s->sets, "alpha").epoch);
    receive("tidings/alpha/notifications", echo);
    receive("tidings/status", "online");
    receive("tidings/rejected", "{}");
    receive("tidings/alpha/position", "{}");
    receive("a/x", "");
    receive("a/x", "{\"changes\":[]}");
    quiet_mqtt_turn();

    assert_locs(s, "alpha", "1");
    assert_int_equal(report(s).ignored, 6);
    assert_int_equal(report(s).rejected, 0);
    assert_int_equal(report(s).received, 7);
    assert_int_equal(report(s).posted, 1);
}

/* Two bridges that hear all of each other do not reject each other's rejections
 * for ever. */
TEST(passes_over_what_another_one_rejected)
{
    struct in_stage *s = *state;

    receive("a/x", "bananas");
    quiet_mqtt_turn();
    receive("a/rejected", quiet_mqtt_message(0)->payload);
    quiet_mqtt_turn();
    assert_int_equal(report(s).rejected, 1);
    assert_int_equal(report(s).ignored, 1);
    assert_int_equal(quiet_mqtt->n_published, 1);
}

/* The problem report of a hostile topic is safe. */
TEST(rejects_a_topic_that_is_none)
{
    struct in_stage *s = *state;

    receive("a/\xff\n", ENTRY("1"));
    quiet_mqtt_turn();
    assert_int_equal(report(s).rejected, 1);
    assert_rejected(0, "\"status\":422", "\"topic\":\"a/??\"", NULL);
}

/* A round that reads much commits on the way, so its memory is bounded. */
TEST(commits_on_the_way_when_much_is_read)
{
    struct in_stage *s = *state;

    for (unsigned i = 0; i < INBOX_MESSAGES; i++) {
        assert_int_equal(last_of(s, "alpha"), 0);
        receive("a/x", ENTRY("1"));
    }
    assert_int_equal(last_of(s, "alpha"), INBOX_MESSAGES);

    in_stage_fill(s, 1 << 19);
    for (unsigned i = 0; i < INBOX_BYTES >> 19; i++) {
        assert_int_equal(last_of(s, "alpha"), INBOX_MESSAGES);
        receive("a/x", s->payload);
    }
    assert_int_equal(last_of(s, "alpha"), INBOX_MESSAGES + (INBOX_BYTES >> 19));
}

/* Messages that were read before a broken connection come again: the broker
 * keeps them once. */
TEST(lets_go_of_what_comes_again)
{
    struct in_stage *s = *state;

    receive("a/x", ENTRY("1"));
    quiet_mqtt_lose();
    quiet_mqtt_turn();
    assert_int_equal(last_of(s, "alpha"), 0);

    quiet_mqtt_connect(true);
    receive("a/x", ENTRY("1"));
    quiet_mqtt_turn();
    assert_locs(s, "alpha", "1");
}

/* A graceful end: messages that were read are committed, and reports of bad
 * messages have arrived. */
TEST(ends_when_all_is_kept_and_told)
{
    struct in_stage *s = *state;

    receive("a/x", ENTRY("1"));
    receive("a/x", "bananas");
    assert_false(quiet_mqtt->options.calls->farewell(quiet_mqtt->options.user));
    quiet_mqtt_turn();
    assert_false(quiet_mqtt->options.calls->farewell(quiet_mqtt->options.user));
    quiet_mqtt_acknowledge(0, 0);
    assert_true(quiet_mqtt->options.calls->farewell(quiet_mqtt->options.user));

    receive("a/x", ENTRY("2"));
    inbound_stop(s->in);
    inbound_stop(s->in);
    assert_locs(s, "alpha", "1 2");
}

/* A connection has proved itself when something was committed by it, or there
 * is nothing to commit. */
TEST(proves_that_a_connection_is_good, in_stage_setup_closed, in_stage_teardown)
{
    struct in_stage *s = *state;

    in_stage_start(s);
    quiet_mqtt_turn();
    assert_int_equal(quiet_mqtt->n_proofs, 0);
    receive("a/x", ENTRY("1"));
    quiet_mqtt_turn();
    assert_int_equal(quiet_mqtt->n_proofs, 1);

    quiet_mqtt_lose();
    quiet_mqtt_connect(true);
    quiet_mqtt_grant(3, 0x87);
    assert_int_equal(quiet_mqtt->n_proofs, 1);
    quiet_mqtt_grant(4, 1);
    assert_int_equal(quiet_mqtt->n_proofs, 2);
}

/* The client id is the configured one, or made once and for all; the session is
 * the MQTT broker's to keep. */
TEST(is_the_same_client_after_a_restart)
{
    char id[64];
    struct in_stage *s = *state;

    snprintf(id, sizeof(id), "%s", quiet_mqtt->options.client_id);
    assert_int_equal(strncmp(id, "tidings-", 8), 0);
    assert_string_equal(id + strlen(id) - 3, "-in");
    assert_true(quiet_mqtt->options.keeps_session);
    in_stage_close(s);

    in_stage_start(s);
    assert_string_equal(quiet_mqtt->options.client_id, id);
    in_stage_close(s);
    snprintf(s->config.client_id, sizeof(s->config.client_id), "me");
    in_stage_start(s);
    assert_string_equal(quiet_mqtt->options.client_id, "me-in");
}
