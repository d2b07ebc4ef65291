/* Bridges to MQTT brokers: sections of the file, and --mqtt. */
#include "broker/config/bridge_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/config/configured.h"

/* The least of a section. */
#define LEAST "[mqtt a]\nurl = mqtt://a.org\nout = *\n"

struct bad {
    const char *text, *problem;
};

#define REFUSE_ALL(state, bad)                                  \
    for (size_t i = 0; i < sizeof(bad) / sizeof((bad)[0]); i++) \
    refused_in_file(state, (bad)[i].text, (bad)[i].problem)

FIXTURE(tempdir_setup, tempdir_teardown);

TEST(a_section_is_a_bridge_with_defaults)
{
    struct config config;
    const struct bridge_config *b;

    read_file(state, &config, "data = x\n\n" LEAST);

    assert_int_equal(config.n_bridges, 1);
    b = &config.bridges[0];
    assert_string_equal(b->name, "a");
    assert_int_equal(b->line, 3);
    assert_string_equal(b->url, "mqtt://a.org");
    assert_string_equal(b->host, "a.org");
    assert_int_equal(b->port, 1883);
    assert_false(b->is_tls);
    assert_string_equal(b->as, "");
    assert_string_equal(b->user, "");
    assert_string_equal(b->password_file, "");
    assert_string_equal(b->ca, "");
    assert_string_equal(b->cert, "");
    assert_string_equal(b->key, "");
    assert_string_equal(b->client_id, "");
    assert_int_equal(b->version, BRIDGE_MQTT_5);
    assert_int_equal(b->keepalive_us, 30000000);
    assert_int_equal(b->retry.first_us, 500000);
    assert_int_equal(b->retry.max_us, 30000000);
    assert_int_equal(b->inflight, 100);
    assert_int_equal(b->packet_bytes, 1 << 20);
    assert_string_equal(b->prefix, "tidings");
    assert_string_equal(b->out, "*");
    assert_false(b->begins_at_start);
    assert_int_equal(b->qos, 1);
    assert_int_equal(b->form, BRIDGE_JSON);
    assert_int_equal(b->publish, BRIDGE_NOTIFICATIONS);
    assert_string_equal(b->public_url, "");
    assert_null(b->inputs);
    assert_int_equal(b->n_inputs, 0);
    config_fini(&config);
    assert_null(config.bridges);
    config_fini(&config); /* harmless twice */
}

TEST(a_section_says_everything_of_its_bridge)
{
    struct config config;
    const struct bridge_config *b;

    read_file(state, &config,
              "[mqtt b-2_x] ; the plant's\n"
              "url = mqtts://[2001:db8::1]:18883/\n"
              "as = press.7_x-y\n"
              "user = tidings\n"
              "password-file = /etc/tidings/mqtt.password\n"
              "ca = ca.pem\n"
              "cert = cert.pem\n"
              "key = key.pem\n"
              "client-id = t\n"
              "version = 3.1.1\n"
              "keepalive = 5\n"
              "retry-first = 0.001\n"
              "retry-max = 3600\n"
              "inflight = 65535\n"
              "packet-bytes = 256M\n"
              "prefix = plant/7/\n"
              "out = demo, books\n"
              "  out = a.b_c-d\n"
              "begin = start\n"
              "qos = 2\n"
              "form = xml\n"
              "publish = both\n"
              "public-url = mqtts://mqtt.example.org\n"
              "in = plant/+/changes -> plant\n"
              "in=a -> b/+/x->demo ; the last arrow counts\n"
              "in = +/+/# -> +\n"
              "in = # -> books\n");

    assert_int_equal(config.n_bridges, 1);
    b = &config.bridges[0];
    assert_string_equal(b->name, "b-2_x");
    assert_string_equal(b->url, "mqtts://[2001:db8::1]:18883");
    assert_string_equal(b->host, "2001:db8::1");
    assert_int_equal(b->port, 18883);
    assert_true(b->is_tls);
    assert_string_equal(b->as, "press.7_x-y");
    assert_string_equal(b->user, "tidings");
    assert_string_equal(b->password_file, "/etc/tidings/mqtt.password");
    assert_string_equal(b->ca, "ca.pem");
    assert_string_equal(b->cert, "cert.pem");
    assert_string_equal(b->key, "key.pem");
    assert_string_equal(b->client_id, "t");
    assert_int_equal(b->version, BRIDGE_MQTT_311);
    assert_int_equal(b->keepalive_us, 5000000);
    assert_int_equal(b->retry.first_us, 1000);
    assert_int_equal(b->retry.max_us, INT64_C(3600000000));
    assert_int_equal(b->inflight, 65535);
    assert_int_equal(b->packet_bytes, 256 << 20);
    assert_string_equal(b->prefix, "plant/7");
    assert_string_equal(b->out, "demo,books,a.b_c-d");
    assert_true(b->begins_at_start);
    assert_int_equal(b->qos, 2);
    assert_int_equal(b->form, BRIDGE_XML);
    assert_int_equal(b->publish, BRIDGE_NOTIFICATIONS | BRIDGE_CHANGES);
    assert_string_equal(b->public_url, "mqtts://mqtt.example.org");
    assert_int_equal(b->n_inputs, 4);
    assert_string_equal(b->inputs[0].filter, "plant/+/changes");
    assert_string_equal(b->inputs[0].set, "plant");
    assert_string_equal(b->inputs[1].filter, "a -> b/+/x");
    assert_string_equal(b->inputs[1].set, "demo");
    assert_string_equal(b->inputs[2].filter, "+/+/#");
    assert_string_equal(b->inputs[2].set, "+");
    assert_string_equal(b->inputs[3].filter, "#");
    assert_string_equal(b->inputs[3].set, "books");
    config_fini(&config);
}

TEST(a_bridge_publishes_of_the_sets_that_it_names)
{
    struct config config;

    read_file(state, &config,
              LEAST "[mqtt b]\nurl = mqtt://b.org\nout = demo,books\n"
                    "[mqtt c]\nurl = mqtt://c.org\nin = x -> demo\n");

    assert_true(bridge_publishes(&config.bridges[0], "demo"));
    assert_true(bridge_publishes(&config.bridges[0], "anything"));
    assert_true(bridge_publishes(&config.bridges[1], "demo"));
    assert_true(bridge_publishes(&config.bridges[1], "books"));
    assert_false(bridge_publishes(&config.bridges[1], "book"));
    assert_false(bridge_publishes(&config.bridges[1], "demo,books"));
    assert_false(bridge_publishes(&config.bridges[1], "emo"));
    assert_false(bridge_publishes(&config.bridges[2], "demo"));
    config_fini(&config);
}

TEST(the_option_mqtt_is_a_bridge_of_all_sets_before_the_others)
{
    struct config config;

    READ(&config, "--mqtt", "mqtts://mqtt.example.org");
    assert_int_equal(config.n_bridges, 1);
    assert_string_equal(config.bridges[0].name, "mqtt");
    assert_int_equal(config.bridges[0].line, 0);
    assert_string_equal(config.bridges[0].url, "mqtts://mqtt.example.org");
    assert_int_equal(config.bridges[0].port, 8883);
    assert_true(config.bridges[0].is_tls);
    assert_string_equal(config.bridges[0].out, "*");
    assert_string_equal(config.bridges[0].prefix, "tidings");
    assert_int_equal(config.bridges[0].qos, 1);
    assert_int_equal(config.bridges[0].form, BRIDGE_JSON);
    config_fini(&config);

    READ(
        &config, "--mqtt=mqtt://b.org", "--config",
        configured_write(state, "mqtt = mqtt://c.org\n" LEAST "in = x -> y\n"));
    assert_int_equal(config.n_bridges, 2);
    assert_string_equal(config.bridges[0].url, "mqtt://b.org");
    assert_int_equal(config.bridges[0].n_inputs, 0);
    assert_string_equal(config.bridges[1].name, "a");
    assert_int_equal(config.bridges[1].n_inputs, 1);
    config_fini(&config);

    REFUSED("--mqtt: \"\" is not an mqtt:// or mqtts:// URL", "--mqtt=");
    REFUSED("--mqtt: \"localhost\" is not an mqtt:// or mqtts:// URL", "--mqtt",
            "localhost");
    refused_in_file(
        state, "\nmqtt = ws://a.org\n",
        "2: mqtt: \"ws://a.org\" is not an mqtt:// or mqtts:// URL");
    refused_in_file(
        state,
        "mqtt = mqtt://a.org\n\n[mqtt mqtt]\nurl = mqtt://b.org\nout=*\n",
        "3: [mqtt mqtt]: is a bridge of the name mqtt, as --mqtt");
}

TEST(an_address_is_a_scheme_a_host_and_maybe_a_port)
{
    static const char *const wrong[] = {
        "mqtt://",     "mqtt:///",        "mqtt://:1883",    "mqtt://a:",
        "mqtt://a:0",  "mqtt://a:65536",  "mqtt://a:x",      "mqtt://a:1x",
        "mqtt://a:-1", "mqtt://a:000001", "mqtt://a b",      "mqtt://a\\b",
        "mqtt://::1",  "mqtt://[::1",     "mqtt://[::1]x",   "mqtt://[a.org]:1",
        "mqtt://[]",   "mqtt://a&b",      "mqtt://\xc3\xa4",
    };

    static const struct {
        const char *url, *problem;
    } told[] = {
        {"http://a.org", "\"http://a.org\" is not an mqtt:// or mqtts:// URL"},
        {"MQTT://a.org", "\"MQTT://a.org\" is not an mqtt:// or mqtts:// URL"},
        {"mqtt://a.org/x", "\"mqtt://a.org/x\" has a path: what topics begin "
                           "with is the key prefix of a section [mqtt NAME]"},
        {"mqtt://a.org?x", "\"mqtt://a.org?x\" has a query or a fragment: what "
                           "is to be set has a key of its own in a section "
                           "[mqtt NAME]"},
        {"mqtt://me:secret@a.org", "has something before an @: a section [mqtt "
                                   "NAME] has the keys user and password-file "
                                   "for that"},
        {"me:secret@a.org", "has something before an @: a section [mqtt NAME] "
                            "has the keys user and password-file for that"},
    };
    struct config config;
    char want[300], url[600];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct problem why = {""};
        enum config_wish wish;

        if (configured_read(&config, &wish, &why, ARGV("--mqtt", wrong[i])) !=
            STATUS_INVALID)
            fail_msg("%s was accepted", wrong[i]);
        assert_non_null(strstr(why.text, "has something else than HOST or "
                                         "HOST:PORT behind mqtt://"));
    }
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        snprintf(want, sizeof(want), "--mqtt: %s", told[i].problem);
        REFUSED(want, "--mqtt", told[i].url);
    }
    memset(url, 'a', sizeof(url));
    memcpy(url, "mqtt://", 7);
    url[sizeof(url) - 1] = '\0';
    REFUSED("--mqtt: is longer than 511 bytes", "--mqtt", url);

    READ(&config, "--mqtt", "mqtt://a-b_c.D9:65535/");
    assert_string_equal(config.bridges[0].url, "mqtt://a-b_c.D9:65535");
    assert_int_equal(config.bridges[0].port, 65535);
    config_fini(&config);
}

TEST(sections_are_told_from_what_they_are_not)
{
    static const struct bad bad[] = {
        {"data = a\n[broker\n",
         "2: [broker: a section is [mqtt NAME], nothing behind it"},
        {"[mqtt a] url = x\n",
         "1: [mqtt a] url = x: a section is [mqtt NAME], nothing behind it"},
        {"[broker]\ndata = a\n",
         "1: [broker]: there is no such section; a bridge to an MQTT broker "
         "is [mqtt NAME]"},
        {"data = a\n\n  [br\x1b[oker] ; empty\n",
         "3: [br?[oker]: there is no such section; a bridge to an MQTT "
         "broker is [mqtt NAME]"},
        {"\xef\xbb\xbf[]\n",
         "1: []: there is no such section; a bridge to an MQTT broker is "
         "[mqtt NAME]"},
        {"[mqtt]\n",
         "1: [mqtt]: has no name; a bridge to an MQTT broker is [mqtt "
         "NAME]"},
        {"[mqtt A]\n", "1: [mqtt A]: a name has a-z 0-9 _ and - only"},
        {"[mqtt a b]\n", "1: [mqtt a b]: a name has a-z 0-9 _ and - only"},
        {"[mqtt aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab]\n",
         "1: [mqtt aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab]: a name has at most "
         "32 characters"},
        {LEAST "[mqtt a]\nurl = mqtt://b.org\nout = *\n",
         "4: [mqtt a]: is there twice, first in line 1"},
        /* Of two errors the message names the first. */
        {"[mqtt a]\nurl = mqtt://a.org\n[broker]\n",
         "1: [mqtt a]: has neither out nor in: nothing would go either way"},
    };

    REFUSE_ALL(state, bad);
}

TEST(a_key_in_the_wrong_place_is_told_the_right_one)
{
    static const struct bad bad[] = {
        {LEAST "rotate-age = 5\n",
         "4: rotate-age: is the broker's, not the bridge's: it has to stand "
         "before the first section"},
        {"qos = 1\n",
         "1: qos: is a bridge's: it has to stand in a section [mqtt NAME]"},
        {LEAST "pasword-file = x\n",
         "4: pasword-file: there is no such option; did you mean "
         "password-file?"},
        {LEAST "nonsense = x\n", "4: nonsense: there is no such option"},
        {LEAST "qos = 1\nqos = 1\n", "5: qos: is there twice, first in line 4"},
        {LEAST "qos\n", "4: this is not NAME = VALUE"},
        {LEAST "user = \"me\"\n", "4: user: a value has no quotes around it"},
    };

    REFUSE_ALL(state, bad);
}

/* Each section has its own. */
TEST(two_sections_have_the_same_keys)
{
    struct config config;

    read_file(state, &config,
              LEAST "qos = 0\n[mqtt b]\nqos = 2\nurl = mqtt://a.org\n"
                    "prefix = b\nout = demo\n");

    assert_int_equal(config.n_bridges, 2);
    assert_int_equal(config.bridges[0].qos, 0);
    assert_int_equal(config.bridges[1].qos, 2);
    assert_string_equal(config.bridges[0].prefix, "tidings");
    assert_string_equal(config.bridges[1].prefix, "b");
    config_fini(&config);
}

TEST(a_bad_value_is_told_with_its_line)
{
    static const struct {
        const char *line, *problem;
    } bad[] = {
        {"qos = 3", "qos: \"3\" is not 0, 1 or 2"},
        {"qos = 0|1", "qos: \"0|1\" is not 0, 1 or 2"},
        {"version = 4", "version: \"4\" is not 5 or 3.1.1"},
        {"form = JSON", "form: \"JSON\" is not json or xml"},
        {"begin = later", "begin: \"later\" is not now or start"},
        {"publish = all",
         "publish: \"all\" is not notifications, changes or both"},
        {"publish =", "publish: \"\" is not notifications, changes or both"},
        {"keepalive = 4", "keepalive: 4 is not between 5 and 65535"},
        {"inflight = 0", "inflight: 0 is not between 1 and 65535"},
        {"packet-bytes = 1023",
         "packet-bytes: 1023 is not between 1K and 256M"},
        {"user = \xff", "user: \"?\" is not UTF-8 without control characters"},
        {"as = td_0123456789ab_"
         "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
         "as: is not the name of a token (tidingsd token list), which has 1 to "
         "64 of a-z 0-9 . _ -; the token itself does not belong here"},
        {"as =", "as: is not the name of a token (tidingsd token list), which "
                 "has 1 to 64 of a-z 0-9 . _ -; the token itself does not "
                 "belong here"},
        {"client-id = a\x01", "client-id: \"a?\" is not UTF-8 without control "
                              "characters"},
        {"client-id =", "client-id: is empty"},
        {"prefix = a/#", "prefix: \"a/#\" is not what topics can begin with: "
                         "it has + or #, or nothing but slashes"},
        {"prefix = //", "prefix: \"//\" is not what topics can begin with: it "
                        "has + or #, or nothing but slashes"},
        {"prefix = $SYS", "prefix: \"$SYS\": topics that begin with $ are the "
                          "MQTT broker's own"},
        {"public-url = http://a.org", "public-url: \"http://a.org\" is not an "
                                      "mqtt:// or mqtts:// URL"},
        {"out = demo", "out: * is all sets: nothing can stand beside it"},
        {"out = *", "out: * is all sets: nothing can stand beside it"},
        {"out = Demo", "out: \"Demo\" is neither * nor the name of a set"},
        {"out = ,", "out: \"\" is neither * nor the name of a set"},
        {"in = a", "in: \"a\" is not FILTER -> SET, such as plant/+/changes -> "
                   "plant"},
        {"in = a/#/b -> c", "in: \"a/#/b\" is not a filter of MQTT: levels "
                            "with / between them; + is a level, # the last "
                            "one"},
        {"in = -> c", "in: \"\" is not a filter of MQTT: levels with / between "
                      "them; + is a level, # the last one"},
        {"in = a -> B", "in: \"B\" is neither + nor the name of a set"},
        {"in = a ->", "in: \"\" is neither + nor the name of a set"},
        {"in = a/# -> +", "in: the set + is the level at the first + of the "
                          "filter: \"a/#\" has none"},
        {"in = $share/g/a -> b", "in: \"$share/g/a\": a bridge has no shared "
                                 "subscriptions"},
    };
    static const struct bad lines[] = {
        {LEAST "in = a -> b\nin = a -> c\n",
         "5: in: the filter \"a\" is there twice"},
        {"[mqtt a]\nout = b\nout = a, b\n", "3: out: b is there twice"},
        {"[mqtt a]\nout = b, *\n",
         "2: out: * is all sets: nothing can stand beside it"},
    };
    char text[300], want[300];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), LEAST "%s\n", bad[i].line);
        snprintf(want, sizeof(want), "4: %s", bad[i].problem);
        refused_in_file(state, text, want);
    }
    REFUSE_ALL(state, lines);
}

TEST(keys_that_do_not_go_together_are_told)
{
    static const struct bad bad[] = {
        {"[mqtt a]\nout = *\n", "1: [mqtt a]: url is missing"},
        {"[mqtt a]\nurl = mqtt://a\n", "1: [mqtt a]: has neither out nor in: "
                                       "nothing would go either way"},
        {LEAST "password-file = x\nversion = 3.1.1\n",
         "4: [mqtt a]: password-file has no user with it, which version 3.1.1 "
         "wants"},
        {LEAST "keepalive = 5.5\n",
         "4: [mqtt a]: keepalive has to be whole seconds"},
        {LEAST "qos = 0\nretry-first = 31\n",
         "5: [mqtt a]: retry-first is longer than retry-max"},
        {LEAST "retry-max = 0.1\n",
         "1: [mqtt a]: retry-first is longer than retry-max"},
        {LEAST "ca = x\n",
         "4: [mqtt a]: ca is for TLS only: url has to begin with mqtts://"},
        {LEAST "cert = x\nkey = y\n",
         "4: [mqtt a]: cert is for TLS only: url has to begin with mqtts://"},
        {LEAST "key = y\n",
         "4: [mqtt a]: key is for TLS only: url has to begin with mqtts://"},
        {"[mqtt a]\nurl=mqtts://a\nout=*\ncert = x\n",
         "4: [mqtt a]: cert has no key with it"},
        {"[mqtt a]\nurl=mqtts://a\nout=*\nkey = x\n[mqtt b]\n",
         "4: [mqtt a]: key has no cert with it"},
    };

    REFUSE_ALL(state, bad);
}

/* Each would write the positions of the other, or disconnect it. */
TEST(bridges_that_would_be_in_each_others_way_are_refused)
{
    struct config config;

    refused_in_file(
        state, LEAST "[mqtt b]\nurl = mqtts://A.org:1883\nout = demo\n",
        "4: [mqtt b]: tells mqtts://A.org:1883 on topics with the prefix "
        "tidings, and would overwrite positions and status of [mqtt a] "
        "(line 1)");
    refused_in_file(
        state, "mqtt = mqtt://a.org\n" LEAST,
        "2: [mqtt a]: tells mqtt://a.org on topics with the prefix "
        "tidings, and would overwrite positions and status of --mqtt");
    refused_in_file(
        state,
        LEAST "client-id = me\n"
              "[mqtt b]\nurl = mqtt://a.org\nin=x->y\nclient-id = me\n",
        "5: [mqtt b]: has at mqtt://a.org the client-id \"me\", and each "
        "would disconnect the other: [mqtt a] (line 1)");

    read_file(state, &config,
              LEAST "client-id = me\n"
                    "[mqtt b]\nurl = mqtt://a.org\nprefix = b\nout = *\n"
                    "[mqtt c]\nurl = mqtt://a.org:1884\nout = *\n"
                    "client-id = me\n"
                    "[mqtt d]\nurl = mqtt://a.org\nin = x -> y\n");
    assert_int_equal(config.n_bridges, 4);
    config_fini(&config);
}

/* The load that a configuration may cause is limited. */
TEST(there_is_an_end_to_bridges_inputs_and_names)
{
    struct config config;
    char *text = calloc(1, 65536), want[200];
    size_t n = 0;

    assert_non_null(text);
    for (int i = 0; i < BRIDGES_MAX; i++)
        n += (size_t)sprintf(text + n,
                             "[mqtt b%d]\nurl = mqtt://b%d\nout = *\n", i, i);
    read_file(state, &config, text);
    assert_int_equal(config.n_bridges, BRIDGES_MAX);
    config_fini(&config);
    REFUSED("--mqtt: there are 16 bridges already, which is the limit",
            "--mqtt", "mqtt://x", "--config", configured_write(state, text));
    sprintf(text + n, "[mqtt x]\n");
    refused_in_file(
        state, text,
        "49: [mqtt x]: there are 16 bridges already, which is the limit");

    n = (size_t)sprintf(text, "[mqtt a]\nurl = mqtt://a\n");
    for (int i = 0; i < BRIDGE_INPUT_MAX; i++)
        n += (size_t)sprintf(text + n, "in = a/%d/# -> b\n", i);
    read_file(state, &config, text);
    assert_int_equal(config.bridges[0].n_inputs, BRIDGE_INPUT_MAX);
    config_fini(&config);
    sprintf(text + n, "in = x -> b\n");
    refused_in_file(state, text, "67: in: is there more than 64 times");

    /* 63 names of 64 bytes and a comma each fill it but for one byte. */
    n = (size_t)sprintf(text, "[mqtt a]\nurl = mqtt://a\n");
    for (int i = 0; i < 63; i++)
        n += (size_t)sprintf(text + n, "out = %064d\n", i);
    read_file(state, &config, text);
    assert_int_equal(strlen(config.bridges[0].out), 63 * 65 - 1);
    assert_true(bridge_publishes(
        &config.bridges[0], "000000000000000000000000000000000000000000000000"
                            "0000000000000062"));
    config_fini(&config);
    sprintf(text + n, "out = %064d\n", 63);
    snprintf(want, sizeof(want),
             "66: out: all names together are longer than 4095 bytes");
    refused_in_file(state, text, want);
    free(text);
}

/* A reload replaces a bridge whose section differs: in each key, and only then.
 */
TEST(sections_are_the_same_if_all_keys_are)
{
    static const char *const others[] = {
        "[mqtt b]\nurl = mqtts://a.org\nout = *\n",
        "[mqtt a]\nurl = mqtts://b.org\nout = *\n",
        "[mqtt a]\nurl = mqtts://a.org\nout = b\n",
        "[mqtt a]\nurl = mqtts://a.org\nin = f -> s\n",
    };
    static const char *const keys[] = {
        "as = t",
        "as = everyone",
        "user = u",
        "password-file = p\nuser = v",
        "ca = c",
        "cert = c\nkey = k",
        "client-id = i",
        "version = 3.1.1",
        "keepalive = 31",
        "retry-first = 1",
        "retry-max = 31",
        "inflight = 99",
        "packet-bytes = 2M",
        "prefix = p",
        "begin = start",
        "qos = 2",
        "form = xml",
        "publish = both",
        "public-url = none",
        "in = f -> s",
        "in = f -> t",
        "in = g -> s",
    };

    enum { N_OTHERS = sizeof(others) / sizeof(others[0]) };

    enum { N_KEYS = sizeof(keys) / sizeof(keys[0]) };

    enum { N = 1 + N_OTHERS + N_KEYS };
    struct config all[N], again;
    char text[300];

    for (size_t i = 0; i < N_OTHERS; i++)
        read_file(state, &all[i], others[i]);
    for (size_t i = 0; i < N_KEYS; i++) {
        snprintf(text, sizeof(text),
                 "[mqtt a]\nurl = mqtts://a.org\nout = *\n%s\n", keys[i]);
        read_file(state, &all[N_OTHERS + i], text);
    }
    snprintf(text, sizeof(text), "[mqtt a]\nurl = mqtts://a.org\nout = *\n");
    read_file(state, &all[N - 1], text);
    snprintf(text, sizeof(text),
             "\n\n[mqtt a]\nout = *\nurl = mqtts://a.org\n");
    read_file(state, &again, text);

    assert_true(bridge_is_same(again.bridges, all[N - 1].bridges));
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++)
            if (bridge_is_same(all[i].bridges, all[j].bridges) != (i == j))
                fail_msg("section %zu and section %zu", i, j);
    for (size_t i = 0; i < N; i++)
        config_fini(&all[i]);
    config_fini(&again);
}
