/* The packets of an MQTT Client, byte by byte. */
#include <stdio.h>
#include <string.h>

#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/mqtt/fake_mqtt.h"
#include "tests/unit/mqtt/owner.h"

static void
publish(struct fake_mqtt *f, unsigned is_5, uint8_t mid)
{
    if (is_5)
        FAKE_MQTT_SEND(f, 0x32, 8, 0, 1, 'a', 0, mid, 0, 'h', 'i');
    else
        FAKE_MQTT_SEND(f, 0x32, 7, 0, 1, 'a', 0, mid, 'h', 'i');
}

FIXTURE(owner_set, owner_clear);

/* In both versions the client acknowledges nothing before `turn` has returned;
 * then it does. It never acknowledges messages that a turn has dropped. */
TEST(acknowledges_only_after_the_turn)
{
    struct owner *o = *state;

    for (unsigned is_5 = 0; is_5 <= 1; is_5++)
        for (unsigned drops = 0; drops <= 1; drops++) {
            o->config.version = is_5 ? BRIDGE_MQTT_5 : BRIDGE_MQTT_311;
            o->drops = drops;
            owner_hold(o);
            owner_open(o);
            fake_mqtt_welcome(&o->fake, is_5);
            publish(&o->fake, is_5, 7);
            owner_await_held(o);
            assert_string_equal(o->received[0].payload, "hi");
            fake_mqtt_assert_silent(&o->fake);

            owner_let_go(o);
            if (drops) {
                fake_mqtt_assert_end(&o->fake);
            } else {
                fake_mqtt_read(&o->fake, 0x40);
                assert_int_equal(o->fake.packet[1], 7);
            }
            owner_set_again(o);
        }
}

static bool
has_bytes(const struct fake_mqtt *f, const uint8_t *bytes, size_t size)
{
    return memmem(f->packet, f->size, bytes, size) != NULL;
}

/* The contents of CONNECT: the version, the flags, the keepalive, the session's
 * expiry, the client's id, the will, user and password. */
TEST(says_who_it_is)
{
    struct owner *o = *state;
    static const uint8_t never[] = {0x11, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t status[] = "\0\001s\0\007offline\0\004user";

    for (unsigned is_5 = 0; is_5 <= 1; is_5++)
        for (unsigned keeps = 0; keeps <= 1; keeps++) {
            o->config.keepalive_us = 300 * 1000000ll;
            strcpy(o->config.user, "user");
            o->options.keeps_session = keeps;
            o->options.will_topic = "s";
            o->options.will_payload = "offline";
            owner_ask(o, is_5);
            assert_int_equal(o->fake.packet[6], is_5 ? 5 : 4);
            /* User name, will retained at QoS 1, will, clean start */
            assert_int_equal(o->fake.packet[7],
                             0x80 | 0x20 | 0x08 | 0x04 | (keeps ? 0 : 0x02));
            assert_int_equal(o->fake.packet[8] << 8 | o->fake.packet[9], 300);
            assert_int_equal(has_bytes(&o->fake, never, sizeof(never)),
                             is_5 && keeps);
            assert_true(
                has_bytes(&o->fake, (const uint8_t *)"\0\010test-out", 10));
            assert_true(has_bytes(&o->fake, status, sizeof(status) - 1));
            owner_set_again(o);
        }
}

/* The password is the first line of its file, which may have none. */
TEST(sends_the_first_line_as_password)
{
    static const struct {
        const char *file, *end; /* of CONNECT, the user before it */
        size_t size;
    } rows[] = {
        {"secret\nsecond line\n", "user\0\6secret", 12},
        {"", "user\0\0", 6},
    };
    struct owner *o = *state;
    struct tempdir dir;

    tempdir_open(&dir);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tempdir_write(dir.fd, "password", rows[i].file);
        strcpy(o->config.user, "user");
        snprintf(o->config.password_file, sizeof(o->config.password_file),
                 "%s/password", dir.path);
        owner_ask(o, true);
        assert_int_equal(o->fake.packet[7] & 0xc0, 0xc0);
        assert_memory_equal(o->fake.packet + o->fake.size - rows[i].size,
                            rows[i].end, rows[i].size);
        owner_set_again(o);
    }
    tempdir_close(&dir);
}

/* CONNACK's properties. */
TEST(keeps_to_what_the_mqtt_broker_takes)
{
    struct owner *o = *state;

    owner_ask(o, true);
    /* Receive Maximum 3, Maximum QoS 1, no retained messages, packets of 50, a
     * keepalive of 9 s */
    FAKE_MQTT_SEND(&o->fake, 0x20, 18, 0, 0, 15, 0x21, 0, 3, 0x24, 1, 0x25, 0,
                   0x27, 0, 0, 0, 50, 0x13, 0, 9);
    owner_await(o, &o->n_connected, 1);
    o->message = (struct mqtt_message){.topic = "a", .qos = 1};
    owner_do(o, owner_look);
    assert_int_equal(o->window, 3);
    assert_int_equal(o->keepalive_us, 9000000);
    assert_false(o->takes_retained);
    assert_int_equal(o->room, 50 - 2 - 3 - 2 - 1);
    assert_int_equal(owner_say(o, "a", "text", 2), STATUS_UNSUPPORTED);
    o->message = (struct mqtt_message){.topic = "a", .is_retained = true};
    owner_do(o, owner_publish);
    assert_int_equal(o->rc, STATUS_UNSUPPORTED);
    assert_int_equal(owner_say(o, "a/#", "text", 1), STATUS_INVALID);
    assert_int_equal(owner_say(o, "a", "text", 1), STATUS_OK);
    fake_mqtt_read(&o->fake, 0x32);
}

/* More than the library's own 20 are on their way at once. */
TEST(has_as_many_in_flight_as_it_may, owner_set_met, owner_clear)
{
    struct owner *o = *state;

    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(owner_say(o, "a", "text", 1), STATUS_OK);
        fake_mqtt_read(&o->fake, 0x32);
    }
    assert_int_equal(owner_now(o, &o->n_acknowledged), 0);
}

/* The DUP flag, until the first message without it. */
TEST(tells_repeats)
{
    struct owner *o = *state;

    owner_open(o);
    fake_mqtt_welcome(&o->fake, true);
    FAKE_MQTT_SEND(&o->fake, 0x3a, 7, 0, 1, 'a', 0, 1, 0, '1');
    FAKE_MQTT_SEND(&o->fake, 0x3a, 7, 0, 1, 'a', 0, 2, 0, '2');
    FAKE_MQTT_SEND(&o->fake, 0x32, 7, 0, 1, 'a', 0, 3, 0, '3');
    owner_await(o, &o->n_received, 3);
    assert_true(o->received[0].is_repeat);
    assert_true(o->received[1].is_repeat);
    assert_false(o->received[2].is_repeat);
}
