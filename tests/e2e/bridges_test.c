/*
 * bridges_test.c - bridges to MQTT brokers as their operator meets them: what
 * is told of them, how the broker starts and ends with them, and whether what
 * the documentation shows is so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/bridge_stage.h"
#include "tests/support/certificate.h"
#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/support/samples.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define DOC  SPEC_DIR "/../../doc/"
#define GOOD "tidingsd: settings are good\n"

/* Both directions. */
#define SECTION       \
    "[mqtt plant]\n"  \
    "url = %s\n"      \
    "prefix = tell\n" \
    "out = demo\n"    \
    "in = plant/+/changes -> +\n" BRIDGE_QUICK

static struct samples now;

/* The body as a string, lent until the next call. */
static const char *
get_text(struct http *h, const char *path)
{
    static char text[16384];

    assert_int_equal(http_get(h, path), 200);
    assert_true(h->body.size < sizeof(text));
    snprintf(text, sizeof(text), "%.*s", SLICE_ARG(buf_slice(&h->body)));
    return text;
}

static void
await_ready(struct bridge_stage *s)
{
    bridge_stage_await_text(s, "bridges.0.out.state", "connected");
    bridge_stage_await_text(s, "bridges.0.in.state", "connected");
}

/* Asks until `path` answers with `part` in it. */
static void
await_part(struct http *h, const char *path, const char *part)
{
    struct patience p = {.with = part};

    while (!strstr(get_text(h, path), part))
        patience_step(&p);
}

TEST(a_broker_without_bridges_says_so, broker_setup, broker_teardown)
{
    struct broker *b = broker_of(state);
    char path[400];
    struct http h;

    http_open(&h, b->url);
    assert_string_equal(get_text(&h, "/bridges"), "{\"bridges\":[]}\n");
    assert_string_equal(http_header(&h, "Content-Type"), "application/json");
    assert_string_equal(http_header(&h, "Cache-Control"), "no-store");
    assert_string_equal(get_text(&h, "/readyz"), "ready\n");
    assert_int_equal(http_post(&h, "/bridges", "text/plain", SLICE("x")), 405);
    assert_string_equal(http_header(&h, "Allow"), "GET, HEAD");
    samples_get(&now, &h);
    samples_assert(&now, "tidings_mqtt_connected", 0);
    snprintf(path, sizeof(path), "%s/mqtt.db", b->data);
    assert_int_equal(access(path, F_OK), -1);
    http_close(&h);
}

/* From GET /bridges, /readyz and /metrics one sees what went both ways. */
TEST(a_bridge_at_work_is_told_of, NULL, bridge_stage_teardown)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    struct jsonpath j;

    bridge_stage_config(s, SECTION, s->mqtt.url);
    BRIDGE_STAGE_START(s, "--threads", "1");
    await_ready(s);
    mosquittod_await_subscription(&s->mqtt, "plant/+/changes");
    assert_string_equal(get_text(&s->http, "/readyz"), "ready\n");
    source_post(&s->http, "demo", 1, 3, 0);
    bridge_stage_await(s, "bridges.0.out.acknowledged", 1);
    s->teller = mqtt_peer_tell(&s->mqtt, NULL);
    mqtt_peer_say(s->teller,
                  &(struct mqtt_saying){
                      .topic = "plant/haven/changes",
                      .payload = SLICE("[{\"loc\":\"http://example.com/a\","
                                       "\"change\":\"created\"},{\"loc\":"
                                       "\"http://example.com/b\","
                                       "\"change\":\"created\"}]")});
    mqtt_peer_say(s->teller, &(struct mqtt_saying){.topic = "plant/x/changes",
                                                   .payload = SLICE("{")});
    bridge_stage_await(s, "bridges.0.in.posted", 1);
    bridge_stage_await(s, "bridges.0.in.rejected", 1);

    jsonpath_open(&j, slice_of(get_text(&s->http, "/bridges")));
    assert_string_equal(jsonpath_text(&j, "bridges.0.name"), "plant");
    assert_string_equal(jsonpath_text(&j, "bridges.0.url"), s->mqtt.url);
    assert_string_equal(jsonpath_text(&j, "bridges.0.prefix"), "tell");
    assert_string_equal(jsonpath_text(&j, "bridges.0.version"), "5");
    assert_int_equal(jsonpath_number(&j, "bridges.0.out.connections"), 1);
    assert_int_equal(jsonpath_number(&j, "bridges.0.out.sets"), 1);
    assert_int_equal(jsonpath_number(&j, "bridges.0.out.lag"), 0);
    assert_int_equal(jsonpath_number(&j, "bridges.0.out.setsBehind"), 0);
    assert_int_equal(jsonpath_number(&j, "bridges.0.in.received"), 2);
    assert_int_equal(jsonpath_number(&j, "bridges.0.in.entries"), 2);
    jsonpath_close(&j);
    samples_await_least(&now, &s->http, "tidings_mqtt_rejected_total", 1);
    samples_assert(&now, "tidings_mqtt_connected", 2);
    samples_assert(&now, "tidings_mqtt_connections_total", 2);
    samples_assert(&now, "tidings_mqtt_lag_entries", 0);
    samples_assert(&now, "tidings_mqtt_received_total", 2);
    samples_assert(&now, "tidings_mqtt_posted_total", 1);
    samples_assert(&now, "tidings_mqtt_rejected_total", 1);
    samples_assert(&now, "tidings_mqtt_left_out_entries_total", 0);
    assert_true(samples_value(&now, "tidings_mqtt_published_total") >= 1);
    bridge_stage_end(s);
}

/* It is a warning, not a reason: posts are taken. */
TEST(an_mqtt_broker_that_goes_away_is_told_of_until_it_is_back, NULL,
     bridge_stage_teardown)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);

    bridge_stage_config(s, SECTION, s->mqtt.url);
    BRIDGE_STAGE_START(s, "--threads", "1");
    await_ready(s);
    mosquittod_stop(&s->mqtt);
    await_part(&s->http, "/readyz",
               "warning: bridge plant, out: not connected "
               "since 20");
    await_part(&s->http, "/readyz",
               "warning: bridge plant, in: not connected "
               "since 20");
    assert_int_equal(strncmp(get_text(&s->http, "/readyz"), "ready\n", 6), 0);
    source_post(&s->http, "demo", 1, 5, 0);
    bridge_stage_await(s, "bridges.0.out.lag", 5);
    bridge_stage_await(s, "bridges.0.out.slowest.lag", 5);
    bridge_stage_await(s, "bridges.0.out.setsBehind", 1);
    samples_await_least(&now, &s->http, "tidings_mqtt_failures_total", 2);
    samples_assert(&now, "tidings_mqtt_connected", 0);
    samples_assert(&now, "tidings_mqtt_lag_entries", 5);

    mosquittod_restart(&s->mqtt);
    await_ready(s);
    samples_await_least(&now, &s->http, "tidings_mqtt_connections_total", 4);
    samples_await_most(&now, &s->http, "tidings_mqtt_lag_entries", 0);
    samples_assert(&now, "tidings_mqtt_connected", 2);
    samples_assert(&now, "tidings_mqtt_connections_total", 4);
    assert_string_equal(get_text(&s->http, "/readyz"), "ready\n");
    bridge_stage_end(s);
}

/* Nobody is there: the broker starts, and ends, all the same. */
TEST(an_mqtt_broker_that_cannot_be_reached_hinders_neither_start_nor_end, NULL,
     bridge_stage_teardown)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    struct jsonpath j;

    mosquittod_stop(&s->mqtt);
    bridge_stage_config(s, "%s", "");
    BRIDGE_STAGE_START(s, "--mqtt", s->mqtt.url);
    source_post(&s->http, "demo", 1, 1, 0);
    await_part(&s->http, "/readyz",
               "warning: bridge mqtt, out: not connected "
               "since 20");
    await_part(&s->http, "/bridges", "\"why\":\"");
    jsonpath_open(&j, slice_of(get_text(&s->http, "/bridges")));
    assert_string_equal(jsonpath_text(&j, "bridges.0.name"), "mqtt");
    assert_string_equal(jsonpath_text(&j, "bridges.0.prefix"), "tidings");
    assert_int_equal(jsonpath_number(&j, "bridges.0.out.connections"), 0);
    assert_false(jsonpath_has(&j, "bridges.0.in"));
    jsonpath_close(&j);
    bridge_stage_end(s);
}

/* A password is in no answer and no log, also when it is wrong. */
TEST(a_password_is_told_to_nobody, NULL, bridge_stage_teardown)
{
    struct bridge_stage *s = bridge_stage_begin(
        state, &(struct mosquittod_wish){.user = "karin", .password = "other"});

    tempdir_write(s->dir.fd, "password", "fjordsecret\n");
    bridge_stage_config(s,
                        SECTION "user = karin\npassword-file = %s/password\n",
                        s->mqtt.url, s->dir.path);
    BRIDGE_STAGE_START(s, "--threads", "1");
    await_part(&s->http, "/bridges", "\"why\":\"");
    bridge_stage_await_said(s, "cannot connect to the MQTT broker");
    assert_null(strstr(get_text(&s->http, "/bridges"), "fjordsecret"));
    assert_null(strstr(get_text(&s->http, "/bridges"), "karin"));
    assert_null(strstr(get_text(&s->http, "/readyz"), "fjordsecret"));
    bridge_stage_end(s);
    assert_false(broker_said(&s->broker, "fjordsecret"));
}

/* Exit status 2 where a setting is wrong, 1 where the directory is. */
TEST(a_bridge_that_cannot_be_opened_ends_the_start, NULL, bridge_stage_teardown)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    char data[300], said[4096];

    snprintf(data, sizeof(data), "%s/data", s->dir.path);
    bridge_stage_config(s, SECTION "password-file = %s/none\nuser = a\n",
                        s->mqtt.url, s->dir.path);
    assert_int_equal(broker_run(said, sizeof(said), "--config", s->config,
                                "--data", data, "--listen", "127.0.0.1:0",
                                NULL),
                     2);
    assert_non_null(strstr(said, "plant"));
    assert_non_null(strstr(said, "/none: No such file or directory"));

    bridge_stage_config(s, SECTION, s->mqtt.url);
    tempdir_write(s->dir.fd, "data/mqtt.db",
                  "this is no database, but it is "
                  "long enough to be taken for one");
    assert_int_equal(broker_run(said, sizeof(said), "--config", s->config,
                                "--data", data, "--listen", "127.0.0.1:0",
                                NULL),
                     1);
    assert_non_null(strstr(said, "cannot start"));
    assert_non_null(strstr(said, "mqtt.db"));
}

/* doc/mqtt.ini, as it is. */
TEST(the_example_of_a_configuration_is_good, NULL, bridge_stage_teardown)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    char said[4096], data[300];

    snprintf(data, sizeof(data), "%s/data", s->dir.path);
    assert_int_equal(broker_run(said, sizeof(said), "--check", "--config",
                                DOC "mqtt.ini", "--data", data, NULL),
                     0);
    assert_string_equal(said, GOOD);
}

/* Copies the lines of doc/bridging.md from the first one that is `begin` to the
 * next empty one, each without its indent, `from` replaced by `with`. */
static void
copy_block(FILE *to, const char *begin, const char *from, const char *with)
{
    FILE *doc = fopen(DOC "bridging.md", "re");
    char line[512];
    bool is_in = false;
    unsigned n = 0;

    assert_non_null(doc);
    while (fgets(line, sizeof(line), doc)) {
        char *at = strstr(line, from);

        is_in = is_in ? line[0] == ' ' : !n && !strcmp(line, begin);
        if (!is_in)
            continue;
        if (at)
            fprintf(to, "%.*s%s%s", (int)(at - line) - 4, line + 4, with,
                    at + strlen(from));
        else
            fputs(line + 4, to);
        n++;
    }
    fclose(doc);
    assert_true(n > 0);
}

/* The section with every key that doc/bridging.md shows. */
TEST(the_section_of_the_documentation_is_good, NULL, bridge_stage_teardown)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    char said[4096], data[300];
    struct certificate c;
    FILE *config = fopen(s->config, "we");

    assert_non_null(config);
    snprintf(data, sizeof(data), "%s/data", s->dir.path);
    certificate_make(&c, s->dir.path, NULL); /* ca.pem, cert.pem, key.pem */
    tempdir_write(s->dir.fd, "password", "p\n");
    copy_block(config, "    [mqtt plant]\n", "/etc/tidings", s->dir.path);
    fclose(config);

    assert_int_equal(broker_run(said, sizeof(said), "--check", "--config",
                                s->config, "--data", data, NULL),
                     0);
    assert_string_equal(said, GOOD);
}
