/* Why there is no connection: an MQTT broker that answers wrongly, or that
 * there is none. */
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
#define NO(code)   {0x20, 3, 0, code, 0}, 5
#define NO_3(code) {0x20, 2, 0, code}, 4
#define END(code)  {0xe0, 1, code}, 3

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
        {END(0x8e), "session taken over: another client has the same client id",
         WELCOME},
        {END(0x95), "packet too large", WELCOME},
        {END(0x8b), "server shutting down", WELCOME},
        {END(0x98), "administrative action", WELCOME},
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
