/*
 * The report to the operator of a bridge.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "broker/bridge/bridges.h"
#include "broker/bridge/inbound.h"
#include "broker/bridge/outbound.h"
#include "tests/support/jsonpath.h"
#include "tests/test.h"

/* 2026-11-20T10:00:00Z */
#define MOMENT_US 1795168800000000

static const struct bridge_config plant = {
    .name = "plant",
    .url = "mqtts://mqtt.example.org:8883",
    .user = "tidings",
    .password_file = "/etc/tidings/secret",
    .prefix = "tidings",
    .as = "press",
};

static struct outbound_report
some_out(void)
{
    return (struct outbound_report){
        .mqtt = {MQTT_CONNECTED, MOMENT_US, 2, {""}},
        .sets = 3,
        .lag = 41,
        .sets_behind = 2,
        .slowest = "demo",
        .slowest_lag = 40,
        .in_flight = 7,
        .published = 125,
        .acknowledged = 118,
        .refused = 5,
        .left_out = 6,
    };
}

static struct inbound_report
some_in(void)
{
    return (struct inbound_report){
        .mqtt = {MQTT_WAITING, MOMENT_US, 0, {"say \"no\""}},
        .received = 12,
        .posted = 5,
        .entries = 50,
        .ignored = 4,
        .rejected = 2,
        .repeats = 1,
    };
}

static void
write(struct buf *to, struct jsonpath *j, const struct outbound_report *out,
      const struct inbound_report *in)
{
    buf_init(to, 65536);
    bridge_report_write(to, &plant, out, in);
    assert_false(to->failed);
    jsonpath_open(j, buf_slice(to));
}

TEST(a_report_tells_of_both_directions)
{
    static const struct {
        const char *path;
        uint64_t value;
    } numbers[] = {{"out.connections", 2},    {"out.published", 125},
                   {"out.acknowledged", 118}, {"out.inFlight", 7},
                   {"out.refused", 5},        {"out.leftOut", 6},
                   {"out.sets", 3},           {"out.setsBehind", 2},
                   {"out.lag", 41},           {"out.slowest.lag", 40},
                   {"in.connections", 0},     {"in.received", 12},
                   {"in.posted", 5},          {"in.entries", 50},
                   {"in.ignored", 4},         {"in.rejected", 2},
                   {"in.repeats", 1}};
    struct outbound_report out = some_out();
    struct inbound_report in = some_in();
    struct jsonpath j;
    struct buf text;

    write(&text, &j, &out, &in);

    assert_string_equal(jsonpath_text(&j, "name"), "plant");
    assert_string_equal(jsonpath_text(&j, "url"), plant.url);
    assert_string_equal(jsonpath_text(&j, "version"), "5");
    assert_string_equal(jsonpath_text(&j, "prefix"), "tidings");
    assert_string_equal(jsonpath_text(&j, "as"), "press");
    assert_string_equal(jsonpath_text(&j, "out.state"), "connected");
    assert_string_equal(jsonpath_text(&j, "out.since"), "2026-11-20T10:00:00Z");
    assert_false(jsonpath_has(&j, "out.why"));
    assert_string_equal(jsonpath_text(&j, "out.slowest.set"), "demo");
    assert_string_equal(jsonpath_text(&j, "in.state"), "waiting");
    assert_string_equal(jsonpath_text(&j, "in.why"), "say \"no\"");
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (jsonpath_number(&j, numbers[i].path) != numbers[i].value)
            fail_msg("%s is %" PRIu64, numbers[i].path,
                     jsonpath_number(&j, numbers[i].path));
    jsonpath_close(&j);
    buf_fini(&text);
}

TEST(a_report_leaves_out_what_is_not_there)
{
    struct outbound_report out = some_out();
    struct inbound_report in = some_in();
    struct jsonpath j;
    struct buf text;

    out.slowest[0] = '\0';
    write(&text, &j, &out, NULL);
    assert_false(jsonpath_has(&j, "out.slowest"));
    assert_false(jsonpath_has(&j, "in"));
    jsonpath_close(&j);
    buf_fini(&text);

    write(&text, &j, NULL, &in);
    assert_false(jsonpath_has(&j, "out"));
    assert_true(jsonpath_has(&j, "in"));
    jsonpath_close(&j);
    buf_fini(&text);
}

TEST(a_report_has_no_secrets)
{
    struct outbound_report out = some_out();
    struct inbound_report in = some_in();
    struct jsonpath j;
    struct buf text;

    write(&text, &j, &out, &in);
    buf_add(&text, "", 1);
    assert_null(strstr(text.data, "secret"));
    assert_null(strstr(text.data, "\"user\""));
    jsonpath_close(&j);
    buf_fini(&text);
}

static void
assert_warned(const struct mqtt_state *out, const struct inbound_report *in,
              const char *lines)
{
    struct buf text;

    buf_init(&text, 65536);
    bridge_report_warn(&text, &plant, out, in);
    buf_add(&text, "", 1);
    assert_string_equal(text.data, lines);
    buf_fini(&text);
}

TEST(what_does_not_work_is_a_line_of_warning)
{
    struct outbound_report out = some_out();
    struct inbound_report in = some_in();

    assert_warned(&out.mqtt, NULL, "");
    assert_warned(&out.mqtt, &in,
                  "warning: bridge plant, in: not connected since "
                  "2026-11-20T10:00:00Z: say \"no\"\n");

    /* Not tried yet; connected, and yet nothing is taken. */
    out.mqtt.condition = MQTT_CONNECTING;
    in.mqtt = (struct mqtt_state){MQTT_CONNECTED, MOMENT_US, 1, {""}};
    in.why = (struct problem){"the disk is full"};
    assert_warned(&out.mqtt, &in,
                  "warning: bridge plant, out: not connected since "
                  "2026-11-20T10:00:00Z\n"
                  "warning: bridge plant, in: the disk is full\n");

    out.mqtt = (struct mqtt_state){
        MQTT_CONNECTED, MOMENT_US, 1, {"it refuses messages about demo"}};
    assert_warned(
        &out.mqtt, NULL,
        "warning: bridge plant, out: it refuses messages about demo\n");
}
