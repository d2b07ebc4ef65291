/*
 * An MQTT Client with the distribution's MQTT broker.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/base/metrics.h"
#include "tests/clock.h"
#include "tests/support/mosquitto.h"
#include "tests/support/mqtt_peer.h"
#include "tests/test.h"
#include "tests/unit/mqtt/owner.h"

#define SECOND ((int64_t)1000000)

static const enum bridge_version versions[] = {BRIDGE_MQTT_5, BRIDGE_MQTT_311};

static struct mosquittod m;
static struct owner o;

/* *state: a struct mosquittod_wish, or NULL. */
static int
open_mosquitto(void **state)
{
    mosquittod_open(&m, *state);
    return 0;
}

static int
close_mosquitto(void **state)
{
    (void)state;
    mosquittod_close(&m);
    return 0;
}

static void
prepare(void)
{
    owner_prepare(&o, m.port);
    if (m.is_tls) {
        o.config.is_tls = true;
        snprintf(o.config.ca, sizeof(o.config.ca), "%s", m.certificate.ca);
    }
}

static void
open_and_await(void)
{
    owner_open(&o);
    owner_await(&o, &o.n_connected, 1);
}

FIXTURE(open_mosquitto, close_mosquitto);

/* At every QoS, in both versions: published, and acknowledged under the number
 * that mqtt_publish returned. */
TEST(publishes_and_is_acknowledged)
{
    struct mqtt_peer *p;
    char text[32];

    for (size_t v = 0; v < 2; v++) {
        p = mqtt_peer_hear(&m, "t/#", 2);
        prepare();
        o.config.version = versions[v];
        open_and_await();
        for (int qos = 0; qos <= 2; qos++) {
            snprintf(text, sizeof(text), "at %d", qos);
            assert_int_equal(owner_say(&o, "t/x", text, qos), STATUS_OK);
            owner_await(&o, &o.n_acknowledged, (unsigned)qos + 1);
            assert_int_equal(o.last_reason, 0);
            assert_string_equal(
                mqtt_peer_await(p, "t/x", (size_t)qos + 1)->payload, text);
        }
        owner_close(&o);
        mqtt_peer_close(p);
    }
}

/* MQTT 5: content type and user properties; retained. */
TEST(sends_what_a_message_says_of_itself)
{
    const struct mqtt_property properties[] = {{"set", "demo"}, {"after", "7"}};
    const struct mqtt_heard *h;
    struct mqtt_peer *p;

    prepare();
    open_and_await();
    o.message = (struct mqtt_message){.topic = "t/retained",
                                      .payload = SLICE("{}"),
                                      .qos = 1,
                                      .is_retained = true,
                                      .content_type = "application/json",
                                      .properties = properties,
                                      .n_properties = 2};
    owner_do(&o, owner_publish);
    assert_int_equal(o.rc, STATUS_OK);
    owner_await(&o, &o.n_acknowledged, 1);

    p = mqtt_peer_hear(&m, "t/#", 1);
    h = mqtt_peer_await(p, "t/retained", 1);
    assert_true(h->is_retained);
    assert_string_equal(h->content_type, "application/json");
    assert_string_equal(mqtt_heard_property(h, "set"), "demo");
    assert_string_equal(mqtt_heard_property(h, "after"), "7");

    mqtt_peer_close(p);
    owner_close(&o);
}

static struct mosquittod_wish read_only = {.acl = "topic read #\n"};

/* A topic that the MQTT broker lets nobody write to: MQTT 5 says so. */
TEST(is_told_what_is_refused, open_mosquitto, close_mosquitto, &read_only)
{
    prepare();
    open_and_await();
    assert_int_equal(owner_say(&o, "t/x", "text", 1), STATUS_OK);
    owner_await(&o, &o.n_acknowledged, 1);
    assert_int_equal(o.last_reason, 0x87);
    assert_string_equal(mqtt_reason(o.last_reason), "not authorized");
    owner_close(&o);
}

/* While the client is away its messages wait, in both versions. In MQTT 5 that
 * depends on the session's expiry, which the library sends by a detour. */
TEST(finds_its_session_again)
{
    struct mqtt_peer *p;

    for (size_t v = 0; v < 2; v++) {
        for (unsigned round = 0; round < 2; round++) {
            prepare();
            o.config.version = versions[v];
            o.options.client_id = v == 0 ? "five-in" : "four-in";
            o.options.keeps_session = true;
            open_and_await();
            assert_int_equal(o.has_session, round == 1);
            if (round == 0) {
                o.filter = "in/#";
                owner_do(&o, owner_subscribe);
                assert_int_equal(o.rc, STATUS_OK);
                owner_await(&o, &o.n_subscribed, 1);
                assert_int_equal(o.granted, 1);
            } else {
                owner_await(&o, &o.n_received, 1);
                assert_string_equal(o.received[0].topic, "in/a");
                assert_string_equal(o.received[0].payload, "text");
                assert_string_equal(o.received[0].key,
                                    versions[v] == BRIDGE_MQTT_5 ? "k1" : "");
                assert_false(o.received[0].is_retained);
                assert_false(o.received[0].is_repeat);
            }
            owner_close(&o);
            if (round == 0) {
                p = mqtt_peer_tell(&m);
                mqtt_peer_say(p, &(struct mqtt_saying){.topic = "in/a",
                                                       .payload = SLICE("text"),
                                                       .key = "k1"});
                mqtt_peer_close(p);
            }
        }
    }
}

/* The client does not acknowledge dropped messages, so they come again, marked
 * as repeats. */
TEST(hears_again_what_it_dropped)
{
    struct mqtt_peer *p;

    prepare();
    o.options.keeps_session = true;
    o.filter = "in/#";
    o.drops = true;
    open_and_await();
    owner_do(&o, owner_subscribe);
    owner_await(&o, &o.n_subscribed, 1);
    p = mqtt_peer_tell(&m);
    mqtt_peer_say(p, &(struct mqtt_saying){.topic = "in/a",
                                           .payload = SLICE("text"),
                                           .correlation = SLICE("c-1"),
                                           .type = "text/plain",
                                           .key = "k1",
                                           .key_name = "id"});
    owner_pass_pause(&o);
    owner_await(&o, &o.n_received, 2);
    assert_int_equal(owner_now(&o, &o.n_lost), 1);
    assert_false(o.received[0].is_repeat);
    assert_true(o.received[1].is_repeat);
    assert_string_equal(o.received[1].payload, "text");
    assert_string_equal(o.received[1].correlation, "c-1");
    assert_string_equal(o.received[1].content_type, "text/plain");
    assert_string_equal(o.received[1].key, "k1");

    mqtt_peer_say(
        p, &(struct mqtt_saying){.topic = "in/b", .payload = SLICE("more")});
    owner_await(&o, &o.n_received, 3);
    assert_false(o.received[2].is_repeat);
    mqtt_peer_close(p);
    owner_close(&o);
}

/* The will is published when the connection is cut, and not after a polite
 * end. */
TEST(leaves_a_will)
{
    const struct mqtt_heard *h;
    struct mqtt_peer *p;

    p = mqtt_peer_hear(&m, "t/#", 1);
    prepare();
    o.options.will_topic = "t/status";
    o.options.will_payload = "offline";
    open_and_await();
    owner_do(&o, owner_drop);
    owner_await(&o, &o.n_lost, 1);
    assert_string_equal(mqtt_peer_await(p, "t/status", 1)->payload, "offline");
    owner_pass_pause(&o);
    owner_await(&o, &o.n_connected, 2);
    owner_close(&o);
    assert_true(o.n_farewells > 0);
    assert_int_equal(o.n_lost, 2);

    prepare();
    open_and_await();
    assert_int_equal(owner_say(&o, "t/after", "text", 1), STATUS_OK);
    mqtt_peer_await(p, "t/after", 1);
    assert_int_equal(mqtt_peer_count(p), 2);
    owner_close(&o);
    mqtt_peer_close(p);

    p = mqtt_peer_hear(&m, "t/#", 1);
    h = mqtt_peer_await(p, "t/status", 1);
    assert_true(h->is_retained);
    assert_int_equal(h->qos, 1);
    mqtt_peer_close(p);
}

static struct mosquittod_wish password = {.user = "tidings",
                                          .password = "right"};

/* Its file is read at each connection. */
TEST(takes_a_new_password, open_mosquitto, close_mosquitto, &password)
{
    struct mqtt_state now;

    tempdir_write(m.dir.fd, "password", "wrong\n");
    for (size_t v = 0; v < 2; v++) {
        tempdir_write(m.dir.fd, "password", "wrong\n");
        prepare();
        o.config.version = versions[v];
        strcpy(o.config.user, "tidings");
        snprintf(o.config.password_file, sizeof(o.config.password_file),
                 "%s/password", m.dir.path);
        owner_open(&o);
        owner_await_why(&o, "refused by the MQTT broker: not authorized");
        tempdir_write(m.dir.fd, "password", "right\r\nsecond line\n");
        owner_pass_pause(&o);
        owner_await(&o, &o.n_connected, 1);
        mqtt_state(o.mqtt, &now);
        assert_int_equal(now.condition, MQTT_CONNECTED);
        assert_int_equal(now.connections, 1);
        assert_string_equal(now.why.text, "");
        owner_close(&o);
    }
}

/* A file that cannot be read is no matter of trying again. */
TEST(does_not_start_without_its_files, tempdir_setup, tempdir_teardown)
{
    struct problem why = {""};

    owner_prepare(&o, 1);
    snprintf(o.config.password_file, sizeof(o.config.password_file), "%s/none",
             tempdir_path(state));
    assert_int_equal(mqtt_open(&o.mqtt, &o.options, &why), STATUS_INVALID);
    assert_non_null(strstr(why.text, "/none: No such file"));
    assert_null(o.mqtt);
    snprintf(o.config.password_file, sizeof(o.config.password_file), "%s",
             tempdir_path(state));
    assert_int_equal(mqtt_open(&o.mqtt, &o.options, &why), STATUS_INVALID);
    assert_non_null(strstr(why.text, ": Is a directory"));
    assert_null(o.mqtt);

    o.config.password_file[0] = '\0';
    o.config.is_tls = true;
    tempdir_write(tempdir_fd(state), "ca.pem", "no certificate\n");
    snprintf(o.config.ca, sizeof(o.config.ca), "%s/ca.pem",
             tempdir_path(state));
    assert_int_equal(mqtt_open(&o.mqtt, &o.options, &why), STATUS_INVALID);
    assert_non_null(strstr(why.text, "/ca.pem"));
    assert_null(o.mqtt);
}

static struct mosquittod_wish tls = {.is_tls = true};

TEST(speaks_tls, open_mosquitto, close_mosquitto, &tls)
{
    struct mqtt_peer *p;

    p = mqtt_peer_hear(&m, "t/#", 1);
    for (unsigned i = 0; i < 2; i++) { /* by its address, by its name */
        prepare();
        strcpy(o.config.host, i == 0 ? "127.0.0.1" : "localhost");
        open_and_await();
        for (unsigned n = 1; n <= 20; n++)
            assert_int_equal(owner_say(&o, "t/x", "text", 1), STATUS_OK);
        owner_await(&o, &o.n_acknowledged, 20);
        mqtt_peer_await(p, "t/x", 20 * (i + 1));
        owner_close(&o);
    }
    mqtt_peer_close(p);
}

static struct mosquittod_wish others_tls = {
    .is_tls = true, .tls_names = "DNS:other.example,IP:127.0.0.9"};

/* A certificate for another host, and one by a CA that nobody trusts. */
TEST(connects_to_no_other_host, open_mosquitto, close_mosquitto, &others_tls)
{
    prepare();
    strcpy(o.config.host, "localhost");
    owner_open(&o);
    owner_await_why(&o,
                    "TLS: the MQTT broker's certificate is not for localhost");
    owner_close(&o);

    prepare();
    owner_open(&o);
    owner_await_why(&o,
                    "TLS: the MQTT broker's certificate is not for 127.0.0.1");
    owner_close(&o);

    prepare();
    o.config.ca[0] = '\0'; /* the system's */
    owner_open(&o);
    owner_await_why(&o, "TLS: the MQTT broker's certificate is not good: ");
    assert_int_equal(owner_now(&o, &o.n_connected), 0);
    owner_close(&o);
}

static struct mosquittod_wish mutual_tls = {.is_tls = true,
                                            .asks_certificate = true};

TEST(shows_its_own_certificate, open_mosquitto, close_mosquitto, &mutual_tls)
{
    prepare();
    owner_open(&o);
    owner_await_why(&o, "certificate");
    owner_close(&o);
    assert_int_equal(o.n_connected, 0);

    prepare();
    snprintf(o.config.cert, sizeof(o.config.cert), "%s", m.certificate.cert);
    snprintf(o.config.key, sizeof(o.config.key), "%s", m.certificate.key);
    open_and_await();
    owner_close(&o);
}

static struct mosquittod_wish small_packets = {.more =
                                                   "max_packet_size 1000\n"};

/* The room is exact: one byte more and the MQTT broker would hang up. */
TEST(fits_the_largest_packet, open_mosquitto, close_mosquitto, &small_packets)
{
    const struct mqtt_property properties[] = {{"set", "demo"}};
    char text[5000];

    memset(text, 'x', sizeof(text));
    for (size_t v = 0; v < 2; v++)
        for (int qos = 0; qos <= 1; qos++) {
            prepare();
            o.config.version = versions[v];
            if (versions[v] == BRIDGE_MQTT_311)
                o.config.packet_bytes = 1000;
            open_and_await();
            o.message = (struct mqtt_message){.topic = "t/x",
                                              .qos = qos,
                                              .content_type = "text/plain",
                                              .properties = properties,
                                              .n_properties = 1};
            owner_do(&o, owner_look);
            assert_in_range(o.room, 900, 999);
            o.message.payload = (struct slice){text, o.room + 1};
            owner_do(&o, owner_publish);
            assert_int_equal(o.rc, STATUS_TOO_LARGE);
            o.message.payload.size = o.room;
            owner_do(&o, owner_publish);
            assert_int_equal(o.rc, STATUS_OK);
            /* An MQTT broker that acknowledges the second one has accepted the
             * first. */
            assert_int_equal(owner_say(&o, "t/x", "small", 1), STATUS_OK);
            owner_await(&o, &o.n_acknowledged, 2);
            assert_int_equal(owner_now(&o, &o.n_lost), 0);
            owner_close(&o);
        }
}

TEST(comes_back_when_the_mqtt_broker_does)
{
    prepare();
    open_and_await();
    mosquittod_kill9(&m);
    owner_pass_pause(&o);
    owner_await_why(&o, "Connection refused");
    assert_int_equal(owner_now(&o, &o.n_lost), 1);
    assert_int_equal(owner_say(&o, "t/x", "text", 1), STATUS_AGAIN);
    mosquittod_restart(&m);
    owner_pass_pause(&o);
    owner_await(&o, &o.n_connected, 2);
    assert_int_equal(owner_say(&o, "t/x", "text", 1), STATUS_OK);
    owner_await(&o, &o.n_acknowledged, 1);
    owner_close(&o);
}

static void *
close_owner(void *owner)
{
    owner_close(owner);
    return NULL;
}

/* An MQTT broker that stands still gets three seconds for a farewell. The
 * client pings a silent one after the keepalive of 5 s, and gives it up after
 * another one. */
TEST(does_not_wait_for_one_that_stands_still)
{
    static struct owner silent;
    pthread_t closing;

    owner_prepare(&silent, m.port);
    silent.config.keepalive_us = 5000000;
    owner_open(&silent);
    owner_await(&silent, &silent.n_connected, 1);
    prepare();
    o.options.client_id = "other-out";
    o.never_says_farewell = true;
    open_and_await();
    mosquittod_freeze(&m);

    assert_int_equal(pthread_create(&closing, NULL, close_owner, &o), 0);
    owner_await(&o, &o.n_farewells, 1);
    clock_await_waits_us(2, MQTT_FAREWELL_US); /* the other one pings */
    clock_pass_us(MQTT_FAREWELL_US);
    pthread_join(closing, NULL);

    for (int64_t us = MQTT_FAREWELL_US; us < 10 * SECOND; us += SECOND) {
        owner_do(&silent, owner_look);
        assert_int_equal(silent.n_lost, 0);
        clock_await_us(SECOND);
        clock_pass_us(SECOND);
    }
    owner_await_why(&silent, "no answer from the MQTT broker within the "
                             "keepalive");
    assert_int_equal(silent.n_lost, 1);

    mosquittod_thaw(&m);
    owner_pass_pause(&silent);
    owner_await(&silent, &silent.n_connected, 2);
    owner_close(&silent);
}
