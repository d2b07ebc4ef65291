/*
 * An MQTT Client with an MQTT broker that accepts it, and then breaks the
 * protocol: the client leaves with a reason, and tries again; nothing else
 * happens.
 */
#include <stdlib.h>

#include "tests/test.h"
#include "tests/unit/mqtt/fake_mqtt.h"
#include "tests/unit/mqtt/owner.h"

FIXTURE(owner_set, owner_clear);

/* SUBACK with too few results, too many, or more than was asked for. */
TEST(takes_no_answer_that_is_none)
{
    struct owner *o = *state;

    static const struct {
        uint8_t granted[2];
        uint8_t n;
        const char *why;
    } cases[] = {
        {{0}, 0, "does not speak MQTT 5: "} /* the library knows that */,
        {{1, 1}, 2, "answered one subscription with 2 results"},
        {{2}, 1, "granted QoS 2 instead of QoS 1"},
        {{0x7f}, 1, "granted QoS 127 instead of QoS 1"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        owner_meet(o, true);
        o->filter = "a/#";
        owner_do(o, owner_subscribe);
        fake_mqtt_read(&o->fake, 0x82);
        FAKE_MQTT_SEND(&o->fake, 0x90, (uint8_t)(3 + cases[i].n),
                       o->fake.packet[0], o->fake.packet[1], 0);
        fake_mqtt_send(&o->fake, cases[i].granted, cases[i].n);
        owner_await_why(o, cases[i].why);
        assert_int_equal(owner_now(o, &o->n_subscribed), 0);
        owner_set_again(o);
    }
}

/* Packets that are none, or not the MQTT broker's to send. One is not here: a
 * property that MQTT 5 does not know makes libmosquitto 2.0.11 abort the
 * process (doc/bridging.md). */
TEST(leaves_who_breaks_the_protocol, owner_set_met, owner_clear)
{
    struct owner *o = *state;

    static const struct {
        const char *name;
        uint8_t bytes[24];
        uint8_t size;
        bool ends; /* the other side hangs up behind it */
    } cases[] = {
        {"a message at QoS 3", {0x36, 8, 0, 1, 'a', 0, 1, 0, 'h', 'i'}, 10},
        {"without a topic", {0x32, 6, 0, 0, 0, 1, 0, 'h'}, 8},
        {"by an alias, which we do not take",
         {0x32, 8, 0, 0, 0, 1, 3, 0x23, 0, 1},
         10},
        {"without a packet identifier", {0x32, 7, 0, 1, 'a', 0, 0, 0, 'h'}, 9},
        {"a topic longer than the packet", {0x32, 4, 0, 99, 'a', 'b'}, 6},
        {"a topic with a control character",
         {0x32, 7, 0, 1, 7, 0, 1, 0, 'h'},
         9},
        {"a topic that is not UTF-8", {0x32, 7, 0, 1, 0xff, 0, 1, 0, 'h'}, 9},
        {"properties longer than the packet",
         {0x32, 8, 0, 1, 'a', 0, 1, 99, 0x26, 0},
         10},
        {"properties without an end",
         {0x32, 10, 0, 1, 'a', 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff},
         12},
        {"a pair that is cut", {0x32, 9, 0, 1, 'a', 0, 1, 3, 0x26, 0, 9}, 11},
        {"a length of five bytes", {0x32, 0xff, 0xff, 0xff, 0xff, 1}, 6},
        {"a part of 256 MB",
         {0x32, 0xff, 0xff, 0xff, 0x7f, 0, 1, 'a'},
         8,
         true},
        {"CONNECT", {0x10, 2, 0, 0}, 4},
        {"SUBSCRIBE", {0x82, 5, 0, 1, 0, 0, 0}, 7},
        {"no kind at all", {0x00, 0}, 2, true},
        {"a second CONNACK", {0x20, 3, 0, 0, 0}, 5},
        {"a CONNACK that refuses", {0x20, 3, 0, 0x87, 0}, 5},
        {"an empty DISCONNECT", {0xe0, 0}, 2, true},
        {"a PUBACK that is cut", {0x40, 1, 0}, 3},
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        print_message("%s\n", cases[i].name);
        fake_mqtt_send(&o->fake, cases[i].bytes, cases[i].size);
        if (cases[i].ends)
            fake_mqtt_hang_up(&o->fake);
        owner_await(o, &o->n_lost, i + 1);
        owner_pass_pause(o);
        fake_mqtt_welcome(&o->fake, true);
        owner_await(o, &o->n_connected, i + 2);
    }
    assert_int_equal(owner_now(o, &o->n_received), 0);
    assert_int_equal(owner_now(o, &o->n_acknowledged), 0);
    assert_int_equal(owner_now(o, &o->n_subscribed), 0);
}

/* The client ignores answers to requests that it never sent. */
TEST(passes_over_answers_to_nothing, owner_set_met, owner_clear)
{
    struct owner *o = *state;

    FAKE_MQTT_SEND(&o->fake, 0x40, 2, 0, 9);          /* PUBACK */
    FAKE_MQTT_SEND(&o->fake, 0x40, 4, 0, 9, 0x87, 0); /* with a reason */
    FAKE_MQTT_SEND(&o->fake, 0x70, 2, 0, 9);          /* PUBCOMP */
    FAKE_MQTT_SEND(&o->fake, 0xb0, 4, 0, 9, 0, 0);    /* UNSUBACK */
    FAKE_MQTT_SEND(&o->fake, 0xd0, 0);                /* PINGRESP */
    assert_int_equal(owner_say(o, "a", "text", 1), STATUS_OK);
    fake_mqtt_read(&o->fake, 0x32);
    FAKE_MQTT_SEND(&o->fake, 0x40, 2, o->fake.packet[3], o->fake.packet[4]);
    FAKE_MQTT_SEND(&o->fake, 0x40, 2, o->fake.packet[3],
                   o->fake.packet[4]);                    /* twice */
    FAKE_MQTT_SEND(&o->fake, 0x30, 5, 0, 1, 'a', 0, 'e'); /* as a fence */
    owner_await(o, &o->n_received, 1);
    assert_int_equal(owner_now(o, &o->n_acknowledged), 1);
    assert_int_equal(owner_now(o, &o->n_lost), 0);
}

/* The same packet identifier again, without our PUBACK between: two messages,
 * and two acknowledgements. */
TEST(takes_messages_with_the_same_identifier, owner_set_met, owner_clear)
{
    struct owner *o = *state;

    FAKE_MQTT_SEND(&o->fake, 0x32, 7, 0, 1, 'a', 0, 1, 0, '1', /* in one go */
                   0x32, 7, 0, 1, 'a', 0, 1, 0, '2');
    owner_await(o, &o->n_received, 2);
    assert_string_equal(o->received[1].payload, "2");
    for (unsigned i = 0; i < 2; i++) {
        fake_mqtt_read(&o->fake, 0x40);
        assert_int_equal(o->fake.packet[1], 1);
    }
}

/* The library acknowledges QoS 2, which the client did not ask for, before the
 * client has the message, but releases it only after the turn that had it. */
TEST(takes_what_comes_at_qos_2)
{
    struct owner *o = *state;
    char *text;

    owner_listen();
    owner_hold(o);
    owner_open(o);
    fake_mqtt_welcome(&o->fake, true);
    FAKE_MQTT_SEND(&o->fake, 0x34, 7, 0, 1, 'a', 0, 7, 0, 'h');
    fake_mqtt_read(&o->fake, 0x50);
    FAKE_MQTT_SEND(&o->fake, 0x62, 2, 0, 7);
    owner_await_held(o);
    assert_string_equal(o->received[0].payload, "h");
    fake_mqtt_assert_silent(&o->fake);
    owner_let_go(o);
    fake_mqtt_read(&o->fake, 0x70);
    owner_set_again(o);
    text = owner_heard();
    assert_int_equal(owner_count(text, "sent a message at QoS 2"), 1);
    free(text);
}

/* A packet that comes a byte at a time is a packet. */
TEST(reads_a_byte_at_a_time, owner_set_met, owner_clear)
{
    struct owner *o = *state;
    static const uint8_t packet[] = {0x32, 0x87, 0, 0, 1, 'a', 0, 1, 0, 'h'};

    for (size_t i = 0; i < sizeof(packet); i++) {
        assert_int_equal(owner_now(o, &o->n_received), 0);
        fake_mqtt_send(&o->fake, packet + i, 1);
        owner_do(o, owner_look); /* a round, at least */
    }
    owner_await(o, &o->n_received, 1);
    assert_string_equal(o->received[0].payload, "h");
}
