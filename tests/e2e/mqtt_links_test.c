/*
 * mqtt_links_test.c - who finds a set finds its channels at MQTT brokers
 * . The bridges go to a port where nobody listens: what is named
 * does not depend on who can be reached just now.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/schema.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define REL "urn:tidings:1:mqtt"

struct channel {
    const char *href, *type;
};

/* The links of that relation in the set's JSON and in its Capability List are
 * `channels`, in that order. */
static void
assert_channels(struct http *h, const char *set, const struct channel *channels,
                size_t n)
{
    char path[200];
    struct jsonpath j;
    struct xpath x;
    size_t found = 0;

    snprintf(path, sizeof(path), "/sets/%s", set);
    assert_int_equal(http_get(h, path), 200);
    jsonpath_open(&j, buf_slice(&h->body));
    for (size_t i = 0; i < jsonpath_count(&j, "links"); i++) {
        snprintf(path, sizeof(path), "links.%zu.rel", i);
        if (strcmp(jsonpath_text(&j, path), REL))
            continue;
        assert_in_range(found, 0, n - 1);
        snprintf(path, sizeof(path), "links.%zu.href", i);
        assert_string_equal(jsonpath_text(&j, path), channels[found].href);
        snprintf(path, sizeof(path), "links.%zu.type", i);
        assert_string_equal(jsonpath_text(&j, path), channels[found].type);
        found++;
    }
    assert_int_equal(found, n);
    jsonpath_close(&j);

    snprintf(path, sizeof(path), "/sets/%s/capabilitylist.xml", set);
    assert_int_equal(http_get(h, path), 200);
    assert_valid(buf_slice(&h->body));
    xpath_open(&x, buf_slice(&h->body));
    assert_xpath_count(&x, "/*/rs:ln[@rel='" REL "']", n);
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "/*/rs:ln[@rel='" REL "'][%zu]/@href",
                 i + 1);
        assert_xpath_text(&x, path, channels[i].href);
        snprintf(path, sizeof(path), "/*/rs:ln[@rel='" REL "'][%zu]/@type",
                 i + 1);
        assert_xpath_text(&x, path, channels[i].type);
    }
    xpath_close(&x);
}

TEST(each_set_names_the_bridges_that_tell_of_it, tempdir_setup,
     tempdir_teardown)
{
    static const char *const text = "[mqtt all]\n"
                                    "url = mqtt://127.0.0.1:1\n"
                                    "out = *\n"
                                    "[mqtt some]\n"
                                    "url = mqtt://127.0.0.1:1\n"
                                    "public-url = mqtts://mqtt.example.org\n"
                                    "prefix = plant & co\n"
                                    "form = xml\n"
                                    "out = demo\n"
                                    "[mqtt secret]\n"
                                    "url = mqtt://127.0.0.1:1\n"
                                    "prefix = secret\n"
                                    "public-url = none\n"
                                    "out = *\n"
                                    "[mqtt inwards]\n"
                                    "url = mqtt://127.0.0.1:1\n"
                                    "in = demo/# -> demo\n";

    static const struct channel of_demo[] = {
        {"mqtt://127.0.0.1:1/tidings/demo/notifications", "application/json"},
        {"mqtts://mqtt.example.org/plant%20%26%20co/demo/notifications",
         "application/xml"},
    };
    static const struct channel of_books[] = {
        {"mqtt://127.0.0.1:1/tidings/books/notifications", "application/json"},
    };
    char path[300];
    struct broker b;
    struct http h;

    snprintf(path, sizeof(path), "%s/t.ini", tempdir_path(state));
    tempdir_write(tempdir_fd(state), "t.ini", text);
    broker_open(&b, "--config", path, NULL);
    http_open(&h, b.url);
    source_post(&h, "demo", 1, 1, 0);
    source_post(&h, "books", 1, 1, 0);

    assert_channels(&h, "demo", of_demo, 2);
    assert_channels(&h, "books", of_books, 1);
    http_close(&h);
    broker_close(&b);
}

TEST(the_option_mqtt_is_named_by_every_set)
{
    static const struct channel channels[] = {
        {"mqtt://127.0.0.1:1/tidings/demo/notifications", "application/json"},
    };
    struct broker b;
    struct http h;

    broker_open(&b, "--mqtt", "mqtt://127.0.0.1:1", NULL);
    http_open(&h, b.url);
    source_post(&h, "demo", 1, 1, 0);
    assert_channels(&h, "demo", channels, 1);

    /* Without a bridge nothing is named. */
    http_close(&h);
    broker_close(&b);
    broker_open(&b, NULL);
    http_open(&h, b.url);
    source_post(&h, "demo", 1, 1, 0);
    assert_channels(&h, "demo", NULL, 0);
    http_close(&h);
    broker_close(&b);
}
