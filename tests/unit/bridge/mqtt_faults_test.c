/* Why there is no connection: an MQTT broker that answers wrongly, or that
 * there is none. */
#include <string.h>

#include "tests/test.h"
#include "tests/unit/bridge/fake_mqtt.h"
#include "tests/unit/bridge/fake_names.h" /* "unknown.test", "several.test" */
#include "tests/unit/bridge/owner.h"

/* CONNACK with each reason an operator can do something about. */
TEST(says_why_it_was_refused)
{
    static const struct {
        bool is_5;
        uint8_t code;
        const char *words;
    } cases[] = {
        {true, 0x86, "refused by the MQTT broker: bad user name or password"},
        {true, 0x87, "refused by the MQTT broker: not authorized"},
        {true, 0x85, "refused by the MQTT broker: client identifier not valid"},
        {true, 0x84, "version not supported (version = 3.1.1 may help)"},
        {true, 0x89, "refused by the MQTT broker: server busy"},
        {true, 0xee, "refused by the MQTT broker: a reason nobody knows"},
        {false, 1, "version not supported (version = 5 may help)"},
        {false, 2, "refused by the MQTT broker: client identifier not valid"},
        {false, 3, "refused by the MQTT broker: server unavailable"},
        {false, 4, "refused by the MQTT broker: bad user name or password"},
        {false, 5, "refused by the MQTT broker: not authorized"},
    };
    struct fake_mqtt f;
    struct owner o;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake_mqtt_open(&f);
        owner_prepare(&o, f.port);
        o.config.version = cases[i].is_5 ? BRIDGE_MQTT_5 : BRIDGE_MQTT_311;
        owner_open(&o);
        fake_mqtt_accept(&f);
        fake_mqtt_read(&f, 0x10);
        if (cases[i].is_5)
            FAKE_MQTT_SEND(&f, 0x20, 3, 0, cases[i].code, 0);
        else
            FAKE_MQTT_SEND(&f, 0x20, 2, 0, cases[i].code);
        owner_await_why(&o, cases[i].words);
        assert_int_equal(o.n_connected + o.n_lost, 0);
        owner_part(&o, &f);
    }
}

/* What the MQTT broker says itself stands behind it, made harmless. */
TEST(quotes_a_refusal)
{
    struct fake_mqtt f;
    struct owner o;

    fake_mqtt_open(&f);
    owner_prepare(&o, f.port);
    owner_open(&o);
    fake_mqtt_accept(&f);
    fake_mqtt_read(&f, 0x10);
    FAKE_MQTT_SEND(&f, 0x20, 9, 0, 0x97, 6, 0x1f, 0, 3, 'n', 'o', '!');
    owner_await_why(&o, "refused by the MQTT broker: quota exceeded: \"no!\"");
    owner_part(&o, &f);
}

/* Of MQTT 3.1.1, or nothing that MQTT is. */
TEST(says_that_it_was_not_understood)
{
    static const struct {
        uint8_t bytes[9];
        size_t size;
        const char *words;
    } cases[] = {
        {{0x20, 2, 0, 0}, 4, "does not speak MQTT 5: "},
        {{0x20, 2, 0, 1}, 4, "version = 3.1.1 may help"},
        {"HTTP/1.1", 8, "instead of an answer"},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 1}, 6, "does not speak MQTT 5: "},
        {{0},
         0,
         "instead of an answer (it may want mqtts://, or version = 3.1.1)"},
    };
    struct fake_mqtt f;
    struct owner o;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake_mqtt_open(&f);
        owner_prepare(&o, f.port);
        owner_open(&o);
        fake_mqtt_accept(&f);
        fake_mqtt_read(&f, 0x10);
        fake_mqtt_send(&f, cases[i].bytes, cases[i].size);
        if (cases[i].size == 0 || cases[i].bytes[0] == 'H')
            fake_mqtt_hang_up(&f);
        owner_await_why(&o, cases[i].words);
        owner_part(&o, &f);
    }
}

/* MQTT 5: DISCONNECT of the MQTT broker. */
TEST(says_why_it_was_disconnected)
{
    static const struct {
        uint8_t code;
        const char *words;
    } cases[] = {
        {0x8e, "session taken over: another client has the same client id"},
        {0x95, "packet too large"},
        {0x8b, "server shutting down"},
        {0x98, "administrative action"},
    };
    struct fake_mqtt f;
    struct owner o;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake_mqtt_open(&f);
        owner_prepare(&o, f.port);
        owner_open(&o);
        fake_mqtt_welcome(&f, true);
        FAKE_MQTT_SEND(&f, 0xe0, 1, cases[i].code);
        owner_await(&o, &o.n_lost, 1);
        owner_await_why(&o, cases[i].words);
        owner_part(&o, &f);
    }
}

TEST(says_that_nobody_is_there)
{
    struct fake_mqtt f;
    struct owner o;

    fake_mqtt_open(&f);
    fake_mqtt_close(&f);
    owner_prepare(&o, f.port);
    owner_open(&o);
    owner_await_why(&o, "cannot connect to 127.0.0.1 port ");
    owner_await_why(&o, ": Connection refused");
    owner_close(&o);

    owner_prepare(&o, f.port);
    strcpy(o.config.host, "unknown.test");
    owner_open(&o);
    owner_await_why(&o, "no address is known for unknown.test: Name or ");
    owner_close(&o);
}

TEST(tries_all_addresses)
{
    struct fake_mqtt f;
    struct owner o;

    fake_mqtt_open(&f);
    owner_prepare(&o, f.port);
    strcpy(o.config.host, "several.test");
    owner_open(&o);
    fake_mqtt_welcome(&f, true);
    owner_await(&o, &o.n_connected, 1);
    owner_part(&o, &f);
}
