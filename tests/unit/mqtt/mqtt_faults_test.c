/* Why there is no connection: an MQTT broker that answers wrongly, or that
 * there is none. */
#include <stdio.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/mqtt/fake_mqtt.h"
#include "tests/unit/mqtt/fake_names.h" /* "unknown.test", "several.test" */
#include "tests/unit/mqtt/owner.h"

FIXTURE(owner_set, owner_clear);

/* CONNACK with each reason that an operator can do something about; the MQTT
 * broker's own text stands behind it, made harmless. An answer of MQTT 3.1.1 to
 * MQTT 5, or nothing that MQTT is. DISCONNECT, behind a welcome. */
TEST(says_why_it_is_not_connected)
{
#define REFUSED    "refused by the MQTT broker: "
#define GONE       "disconnected by the MQTT broker: "
#define NO(code)   {0x20, 3, 0, code, 0}, 5
#define NO_3(code) {0x20, 2, 0, code}, 4

    enum { SHUT = 1, WELCOME = 2, VERSION_3 = 4 };

    static const struct {
        uint8_t bytes[12];
        size_t size;
        const char *words;
        unsigned how;
    } rows[] = {
        {NO(0x86), REFUSED "bad user name or password"},
        {NO(0x87), REFUSED "not authorized"},
        {NO(0x85), REFUSED "client identifier not valid"},
        {NO(0x84), "version not supported (version = 3.1.1 may help)"},
        {NO(0x89), REFUSED "server busy"},
        {NO(0xee), REFUSED "unknown reason"},
        {{0x20, 9, 0, 0x97, 6, 0x1f, 0, 3, 'n', 'o', '!'},
         11,
         REFUSED "quota exceeded: \"no!\""},
        {NO_3(1), "version not supported (version = 5 may help)", VERSION_3},
        {NO_3(2), REFUSED "client identifier not valid", VERSION_3},
        {NO_3(3), REFUSED "server unavailable", VERSION_3},
        {NO_3(4), REFUSED "bad user name or password", VERSION_3},
        {NO_3(5), REFUSED "not authorized", VERSION_3},
        {NO_3(0), "does not speak MQTT 5: "},
        /* libmosquitto 2.0.11 knows that answer, 2.0.21 calls it malformed */
        {NO_3(1), "version = 3.1.1"},
        {"HTTP/1.1", 8, "instead of an answer", SHUT},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 1}, 6, "does not speak MQTT 5: "},
        {{0},
         0,
         "instead of an answer (it may want mqtts://, or version = 3.1.1)",
         SHUT},
    };
    struct owner *o = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("%s\n", rows[i].words);
        if (rows[i].how & WELCOME)
            owner_meet(o, true);
        else
            owner_ask(o, !(rows[i].how & VERSION_3));
        fake_mqtt_send(&o->fake, rows[i].bytes, rows[i].size);
        if (rows[i].how & SHUT)
            fake_mqtt_hang_up(&o->fake);
        if (rows[i].how & WELCOME)
            owner_await(o, &o->n_lost, 1);
        owner_await_why(o, rows[i].words);
        if (!(rows[i].how & WELCOME))
            assert_int_equal(
                owner_now(o, &o->n_connected) + owner_now(o, &o->n_lost), 0);
        owner_set_again(o);
    }
}

/* MQTT 5, sections 3.2.2.2 and 3.14.2.1: the reasons of CONNACK and DISCONNECT,
 * each by its name. */
TEST(names_each_reason)
{
    enum { CONNACK = 1, DISCONNECT = 2 };

    static const struct {
        uint8_t code;
        unsigned packets;
        const char *words;
    } rows[] = {
        {0x80, 3, "no reason is given"},
        {0x81, 3, "malformed packet"},
        {0x82, 3, "protocol error"},
        {0x83, 3, "implementation specific error"},
        {0x84, CONNACK, "protocol version not supported"},
        {0x85, CONNACK, "client identifier not valid"},
        {0x86, CONNACK, "bad user name or password"},
        {0x87, 3, "not authorized"},
        {0x88, CONNACK, "server unavailable"},
        {0x89, 3, "server busy"},
        {0x8a, CONNACK, "banned"},
        {0x8b, DISCONNECT, "server shutting down"},
        {0x8c, CONNACK, "bad authentication method"},
        {0x8d, DISCONNECT, "keep alive timeout"},
        {0x8e, DISCONNECT,
         "the session was taken over by another client of that id"},
        {0x8f, DISCONNECT, "topic filter not valid"},
        {0x90, 3, "topic name not valid"},
        {0x93, DISCONNECT, "receive maximum exceeded"},
        {0x94, DISCONNECT, "topic alias not valid"},
        {0x95, 3, "packet too large"},
        {0x96, DISCONNECT, "message rate too high"},
        {0x97, 3, "quota exceeded"},
        {0x98, DISCONNECT, "administrative action"},
        {0x99, 3, "payload format not valid"},
        {0x9a, 3, "retained messages not supported"},
        {0x9b, 3, "QoS not supported"},
        {0x9c, 3, "use another server"},
        {0x9d, 3, "server moved"},
        {0x9e, DISCONNECT, "shared subscriptions not supported"},
        {0x9f, 3, "connection rate exceeded"},
        {0xa0, DISCONNECT, "maximum connect time"},
        {0xa1, DISCONNECT, "subscription identifiers not supported"},
        {0xa2, DISCONNECT, "wildcard subscriptions not supported"},
    };
    struct owner *o = *state;
    char words[160];

    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        bool is_end = i % 2;
        uint8_t code = rows[i / 2].code;

        if (!(rows[i / 2].packets & (is_end ? DISCONNECT : CONNACK)))
            continue;
        if (is_end)
            owner_meet(o, true);
        else
            owner_ask(o, true);
        if (is_end)
            FAKE_MQTT_SEND(&o->fake, 0xe0, 1, code);
        else
            FAKE_MQTT_SEND(&o->fake, 0x20, 3, 0, code, 0);
        snprintf(words, sizeof(words), "%s%s", is_end ? GONE : REFUSED,
                 rows[i / 2].words);
        owner_await_why(o, words);
        owner_set_again(o);
    }
}

TEST(says_that_nobody_is_there)
{
    struct owner *o = *state;
    unsigned port = o->fake.port;

    fake_mqtt_close(&o->fake);
    owner_open(o);
    owner_await_why(o, "cannot connect to 127.0.0.1 port ");
    owner_await_why(o, ": Connection refused");
    owner_close(o);

    owner_prepare(o, port);
    strcpy(o->config.host, "unknown.test");
    owner_open(o);
    owner_await_why(o, "no address is known for unknown.test: Name or ");
    owner_close(o);

    owner_prepare(o, port); /* for the end */
    fake_mqtt_open(&o->fake);
}

TEST(tries_all_addresses)
{
    struct owner *o = *state;

    strcpy(o->config.host, "several.test");
    owner_meet(o, true);
}
