/* Links to the channels of a set at MQTT brokers. */
#include "broker/sets/set_links.h"

#include <stdio.h>
#include <string.h>

#include "proto/uri.h"
#include "tests/support/set_changes.h"
#include "tests/test.h"
#include "tests/unit/sets/stage.h"

/* The bridges of the registry; the set "demo" exists. */
static struct bridge_config bridges[4];
static struct set *set;

static void
open_with(size_t n)
{
    memset(bridges, 0, sizeof(bridges));
    for (size_t i = 0; i < n; i++) {
        memcpy(bridges[i].name, "x", sizeof("x"));
        bridges[i].line = 1;
        assert_int_equal(options_take(&bridge_options, NULL, &bridges[i], NULL),
                         STATUS_OK);
        assert_int_equal(bridge_read_url("mqtts://a.org:1", &bridges[i], NULL),
                         STATUS_OK);
        memcpy(bridges[i].out, "*", 2);
    }
    s.config.bridges = bridges;
    s.config.n_bridges = n;
    sets_open(&s);
    set = sets_post(&s, "demo", 1, 1);
}

static void
assert_linked(size_t i, const char *text, const char *type)
{
    struct mqtt_links mqtt;

    set_links_mqtt(set, &mqtt);
    assert_in_range(i, 0, mqtt.n - 1);
    assert_int_equal(mqtt.links[i].size, strlen(text));
    assert_memory_equal(mqtt.links[i].text, text, strlen(text));
    assert_string_equal(mqtt.links[i].type, type);
}

FIXTURE(stage_configure, stage_close);

/* */
TEST(names_the_topic_at_each_mqtt_broker_that_is_told)
{
    struct mqtt_links mqtt;

    open_with(3);
    memcpy(bridges[1].out, "other", 6);
    memcpy(bridges[2].prefix, "x", 2);
    bridges[2].form = BRIDGE_XML;

    set_links_mqtt(set, &mqtt);
    assert_int_equal(mqtt.n, 2);
    assert_linked(0, "mqtts://a.org:1/tidings/demo/notifications",
                  "application/json");
    assert_linked(1, "mqtts://a.org:1/x/demo/notifications", "application/xml");
}

TEST(names_the_public_address_or_none)
{
    struct mqtt_links mqtt;

    open_with(1);
    memcpy(bridges[0].public_url, "mqtt://b.org", 13);
    assert_linked(0, "mqtt://b.org/tidings/demo/notifications",
                  "application/json");
    memcpy(bridges[0].public_url, "none", 5);
    set_links_mqtt(set, &mqtt);
    assert_int_equal(mqtt.n, 0);
}

static void
add_token(const char *name, const char *subscribe)
{
    struct token_terms terms = {.ends_us = INT64_MAX};
    char text[TOKEN_TEXT_SIZE];

    snprintf(terms.name, sizeof(terms.name), "%s", name);
    snprintf(terms.rights.subscribe, PATTERNS_SIZE, "%s", subscribe);
    assert_int_equal(tokens_add(s.registry->tokens, NULL, &terms, text, NULL),
                     STATUS_OK);
}

/* The first is the operator's, which publishes no private set. */
TEST(names_what_a_bridge_may_publish)
{
    static const struct {
        const char *name, *subscribe; /* a token that is made */
        size_t of_public, of_private; /* links of the set then */
    } rows[] = {
        {"root", "*", 1, 0},
        {"press", "demo", 2, 0},
        {"all", "*", 3, 1},
        {"everyone", "*", 4, 1},
    };
    struct tokens *tokens;
    struct mqtt_links mqtt;
    struct set *plans;

    open_with(4);
    memcpy(bridges[1].as, "press", 6);
    memcpy(bridges[2].as, "all", 4);
    memcpy(bridges[3].as, "everyone", 9);
    set_changes_put(&s, "plans", "{\"private\":true}");
    plans = sets_find(&s, "plans");
    set_links_mqtt(set, &mqtt);
    assert_int_equal(mqtt.n, 1); /* without tokens at all */
    assert_int_equal(tokens_open(&tokens, s.config.data, NULL), STATUS_OK);
    s.registry->tokens = tokens;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        add_token(rows[i].name, rows[i].subscribe);
        set_links_mqtt(set, &mqtt);
        assert_int_equal(mqtt.n, rows[i].of_public);
        set_links_mqtt(plans, &mqtt);
        assert_int_equal(mqtt.n, rows[i].of_private);
    }
    assert_int_equal(tokens_revoke(tokens, NULL, SLICE("all"), NULL),
                     STATUS_OK);
    set_links_mqtt(plans, &mqtt);
    assert_int_equal(mqtt.n, 0);
    tokens_close(tokens);
}

/* Where there are no notifications none are named. */
TEST(names_the_topics_of_single_changes_where_only_they_are_published)
{
    open_with(2);
    bridges[0].publish = BRIDGE_CHANGES;
    bridges[1].publish |= BRIDGE_CHANGES;
    assert_linked(0, "mqtts://a.org:1/tidings/demo/changes/+",
                  "application/json");
    assert_linked(1, "mqtts://a.org:1/tidings/demo/notifications",
                  "application/json");
}

/* Every byte of a topic comes back by decoding the path; slashes separate. */
TEST(encodes_the_prefix_level_by_level)
{
    static const char prefix[] = "/a b//?\"<&>%'~\xc3\xa4;$";

    char decoded[200];
    struct mqtt_links mqtt;
    struct slice path;

    open_with(1);
    memcpy(bridges[0].prefix, prefix, sizeof(prefix));
    assert_linked(0,
                  "mqtts://a.org:1//a%20b//%3F%22%3C%26%3E%25%27~%C3%A4%3B%24/"
                  "demo/notifications",
                  "application/json");

    set_links_mqtt(set, &mqtt);
    path = (struct slice){mqtt.links[0].text + strlen("mqtts://a.org:1/"),
                          mqtt.links[0].size - strlen("mqtts://a.org:1/")};
    assert_int_equal(uri_decode(path, decoded),
                     strlen(prefix) + strlen("/demo/notifications"));
    assert_memory_equal(decoded, prefix, strlen(prefix));
    assert_int_equal(
        uri_check((struct slice){mqtt.links[0].text, mqtt.links[0].size},
                  "href", NULL),
        STATUS_OK);
}

/* MQTT_LINK_MAX: the longest address, prefix and name. */
TEST(has_room_for_the_longest)
{
    char name[SET_NAME_MAX + 1];
    struct bridge_config *bridge;
    struct mqtt_links mqtt;

    open_with(1);
    memset(name, 'n', sizeof(name));
    name[SET_NAME_MAX] = '\0';
    set = sets_post(&s, name, 1, 1);
    bridge = &bridges[0];
    memset(bridge->public_url, 'u', sizeof(bridge->public_url) - 1);
    memset(bridge->prefix, '%', sizeof(bridge->prefix) - 1);

    set_links_mqtt(set, &mqtt);
    assert_int_equal(mqtt.links[0].size, 511 + 1 + 3 * 255 + 1 + 64 + 14);
    assert_true(mqtt.links[0].size < MQTT_LINK_MAX);
}

/* a part of an archive says in its address which lists it has. */
TEST(names_the_lists_of_a_part_of_the_archive)
{
    struct link_text link;

    open_with(0);
    link = set_link_range(set, LINK_LISTS, 1001, 2000);

    assert_string_equal(link.text, SETS_URL "/sets/demo/changelist-archive/"
                                            "000000001001-000000002000.xml");
    assert_int_equal(link.size, strlen(link.text));
}
