/* The same as inbound_test.c with the real client, and Mosquitto. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/bridge/inbound.h"
#include "broker/bridge/inbox.h"
#include "tests/clock.h"
#include "tests/support/mosquitto.h"
#include "tests/support/mqtt_peer.h"
#include "tests/test.h"
#include "tests/unit/bridge/arrived.h"

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

struct stage {
    struct mosquittod mosquitto;
    struct sets sets;
    struct mqtt_db *db;
    struct bridge_config config;
    struct bridge_input input;
    struct inbound *in;
    struct mqtt_peer *teller;
    struct tempdir dir;
};

static void
start(struct stage *s)
{
    struct problem why = {""};

    sets_open(&s->sets);
    if (mqtt_db_open(&s->db, s->dir.path, NULL, &writing, &why) ||
        inbound_open(&s->in, &s->sets.posts, s->db, &s->config, &why))
        fail_msg("%s", why.text);
}

static void
stop(struct stage *s)
{
    inbound_close(s->in);
    mqtt_db_close(s->db);
    sets_close(&s->sets);
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    mqtt_peer_close(s->teller);
    stop(s);
    mosquittod_close(&s->mosquitto);
    tempdir_close(&s->dir);
    free(s);
    return 0;
}

static void
tell(struct stage *s, const char *payload)
{
    mqtt_peer_say(s->teller, &(struct mqtt_saying){
                                 .topic = "a/x", .payload = slice_of(payload)});
}

static void
await_arrived(struct stage *s, uint64_t n)
{
    AWAIT(arrived_last(&s->sets, "alpha") >= n);
}

static struct inbound_report
report(struct stage *s)
{
    struct inbound_report report;

    inbound_report(s->in, &report);
    return report;
}

static enum status
on_filter(const char *filter, void *user)
{
    (void)filter;
    *(bool *)user = true;
    return STATUS_OK;
}

/* True if it is subscribed. From then on Mosquitto keeps every message, even
 * while the bridge is away. */
static bool
is_granted(struct stage *s)
{
    bool is = false;

    assert_int_equal(
        mqtt_db_filters(s->db, s->config.name, on_filter, &is, NULL),
        STATUS_OK);
    return is;
}

#define RETRY_US     20000
#define KEEPALIVE_US 5000000

static int
set_stage(void **state, enum bridge_version version)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    mosquittod_open(&s->mosquitto, NULL);
    tempdir_open(&s->dir);
    sets_configure(&s->sets, s->dir.path);
    s->input = (struct bridge_input){"a/+", "alpha"};
    s->config = (struct bridge_config){
        .name = "hall",
        .host = "127.0.0.1",
        .port = s->mosquitto.port,
        .version = version,
        .keepalive_us = KEEPALIVE_US,
        .retry.first_us = RETRY_US,
        .retry.max_us = RETRY_US,
        .inflight = 10,
        .packet_bytes = 1 << 20,
        .prefix = "tidings",
        .inputs = &s->input,
        .n_inputs = 1,
    };
    snprintf(s->config.url, sizeof(s->config.url), "%s", s->mosquitto.url);
    start(s);
    s->teller = mqtt_peer_tell(&s->mosquitto);
    AWAIT(is_granted(s));
    return 0;
}

static int
set_5(void **state)
{
    return set_stage(state, BRIDGE_MQTT_5);
}

static int
set_311(void **state)
{
    return set_stage(state, BRIDGE_MQTT_311);
}

static void
assert_arrived(struct stage *s, struct buf *expected)
{
    buf_add(expected, "", 1);
    arrived_assert(&s->sets, "alpha", expected->data);
    buf_fini(expected);
}

/* Publishes entry number `n`, and adds it to the expected ones. */
static void
tell_entry(struct stage *s, unsigned n, struct buf *expected)
{
    char text[128];

    snprintf(text, sizeof(text),
             "{\"loc\":\"http://example.com/%u\",\"change\":\"updated\"}", n);
    tell(s, text);
    buf_add_format(expected, "%s%u", expected->size > 0 ? " " : "", n);
}

static void
takes_in(struct stage *s, const char *type)
{
    struct mqtt_peer *hearer;
    const struct mqtt_heard *heard;
    struct buf expected;

    hearer = mqtt_peer_hear(&s->mosquitto, "tidings/#", 1);
    buf_init(&expected, SIZE_MAX);
    for (unsigned i = 1; i <= 200; i++) {
        tell_entry(s, i, &expected);
        if (i == 100)
            tell(s, "bananas");
    }
    await_arrived(s, 200);
    assert_arrived(s, &expected);
    assert_int_equal(report(s).repeats, 0);
    heard = mqtt_peer_await(hearer, "tidings/rejected", 1);
    assert_non_null(strstr(heard->payload, "\"topic\":\"a/x\""));
    assert_string_equal(heard->content_type, type);
    mqtt_peer_close(hearer);
}

FIXTURE(set_5, clear_stage);

/* The bridge takes messages by both versions of MQTT. */
TEST(takes_in_by_mqtt_5)
{
    takes_in(*state, "application/problem+json");
}

TEST(takes_in_by_mqtt_3_1_1, set_311, clear_stage)
{
    takes_in(*state, "");
}

/* Messages that arrive while the bridge is away wait in the session. */
TEST(takes_in_what_was_told_while_it_was_away)
{
    struct buf expected;
    struct stage *s = *state;

    buf_init(&expected, SIZE_MAX);
    stop(s);
    for (unsigned i = 1; i <= 50; i++)
        tell_entry(s, i, &expected);
    start(s);
    await_arrived(s, 50);
    assert_arrived(s, &expected);
}

/* An end in the middle of the stream: committed messages are acknowledged, and
 * the others come again after the restart. No message has a key, and none comes
 * twice. */
TEST(ends_and_goes_on_without_a_repeat)
{
    unsigned n = (unsigned)test_size(1000, 2000);
    struct buf expected;
    struct stage *s = *state;

    buf_init(&expected, SIZE_MAX);
    for (unsigned i = 1; i <= n; i++) {
        tell_entry(s, i, &expected);
        if (i % (n / 5) == 0) {
            await_arrived(s, i - (n / 5 - 1));
            stop(s);
            start(s);
        }
    }
    await_arrived(s, n);
    assert_arrived(s, &expected);
}

/* While the broker can keep nothing, it acknowledges nothing: it drops the
 * connection and makes another, and the MQTT broker sends the same messages
 * again until the broker keeps them: once. Each connection may last a quarter
 * of the keepalive. */
TEST(is_sent_again_what_was_not_kept)
{
    struct buf expected;
    struct stage *s = *state;
    size_t all;

    buf_init(&expected, SIZE_MAX);
    all = (size_t)s->sets.config.ingest_bytes;
    assert_int_equal(
        clients_take(&s->sets.registry->clients, NULL, CLIENT_POSTS, all, NULL),
        STATUS_OK);
    for (unsigned i = 1; i <= 30; i++)
        tell_entry(s, i, &expected);
    for (unsigned i = 1; i <= 2; i++) {
        AWAIT(report(s).mqtt.connections == i);
        clock_await_us(INBOX_PAUSE_US);
        clock_pass_us(KEEPALIVE_US / 4);
        clock_await_us(RETRY_US);
        clock_pass_us(RETRY_US);
    }
    AWAIT(report(s).mqtt.connections == 3);
    clock_await_us(INBOX_PAUSE_US);
    assert_int_equal(arrived_last(&s->sets, "alpha"), 0);
    clients_give(&s->sets.registry->clients, NULL, CLIENT_POSTS, all);
    clock_pass_us(INBOX_PAUSE_US);
    await_arrived(s, 30);
    assert_arrived(s, &expected);
    assert_int_equal(report(s).rejected, 0);
}
