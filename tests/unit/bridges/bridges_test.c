/*
 * All bridges of a configuration: opened, ended, reported. Their directions are
 * the doubles below.
 */
#include "broker/bridge/bridges.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/base/metrics.h"
#include "broker/bridge/inbound.h"
#include "broker/bridge/outbound.h"
#include "tests/support/jsonpath.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* Doubles: they count, and an end waits until all are at their end. */

struct outbound {
    const struct bridge_config *config;
    bool is_stopped;
};

struct inbound {
    const struct bridge_config *config;
    bool is_stopped;
};

static struct {
    unsigned n_opened, n_closed;
    unsigned fails_at;   /* which open, from 1, once; 0: none */
    unsigned n_in_fails; /* so often inbound_open fails */
    unsigned n_ending;   /* directions that were asked to end */
    unsigned n_must_end; /* so many, before one of them is waited for */
} doubles;

static enum status
open_double(struct problem *why)
{
    if (doubles.n_opened + 1 == doubles.fails_at) {
        doubles.fails_at = 0;
        return problem(why, STATUS_INVALID, "it cannot be");
    }
    doubles.n_opened++;
    return STATUS_OK;
}

static void
stop_double(bool *is_stopped)
{
    assert_true(doubles.n_ending >= doubles.n_must_end);
    *is_stopped = true;
}

void
outbound_end(struct outbound *out)
{
    doubles.n_ending += out != NULL;
}

void
inbound_end(struct inbound *in)
{
    doubles.n_ending += in != NULL;
}

enum status
outbound_open(struct outbound **out, struct registry *registry,
              struct mqtt_db *db, const struct bridge_config *config,
              struct problem *why)
{
    enum status rc = open_double(why);

    assert_non_null(registry);
    assert_non_null(db);
    if (rc)
        return rc;
    *out = calloc(1, sizeof(**out));
    (*out)->config = config;
    return STATUS_OK;
}

void
outbound_stop(struct outbound *out)
{
    if (out)
        stop_double(&out->is_stopped);
}

void
outbound_close(struct outbound *out)
{
    if (!out)
        return;
    assert_true(out->is_stopped);
    doubles.n_closed++;
    free(out);
}

void
outbound_report(struct outbound *out, const struct principal *reader,
                struct outbound_report *report)
{
    (void)reader;
    *report = (struct outbound_report){.in_flight = 3, .lag = 100};
    outbound_state(out, &report->mqtt);
}

void
outbound_state(struct outbound *out, struct mqtt_state *state)
{
    *state = (struct mqtt_state){.condition = strcmp(out->config->name, "b")
                                                  ? MQTT_CONNECTED
                                                  : MQTT_WAITING};
}

enum status
inbound_open(struct inbound **in, struct posts *posts, struct mqtt_db *db,
             const struct bridge_config *config, struct problem *why)
{
    enum status rc = STATUS_IO;

    assert_non_null(posts);
    assert_non_null(db);
    if (doubles.n_in_fails > 0)
        doubles.n_in_fails--;
    else
        rc = open_double(why);
    if (rc)
        return rc;
    *in = calloc(1, sizeof(**in));
    (*in)->config = config;
    return STATUS_OK;
}

void
inbound_stop(struct inbound *in)
{
    if (in)
        stop_double(&in->is_stopped);
}

void
inbound_close(struct inbound *in)
{
    if (!in)
        return;
    assert_true(in->is_stopped);
    doubles.n_closed++;
    free(in);
}

void
inbound_report(struct inbound *in, struct inbound_report *report)
{
    (void)in;
    *report = (struct inbound_report){.mqtt = {.condition = MQTT_CONNECTED}};
}

/* The stage */

struct stage {
    struct sets sets;
    struct bridge_input input;
    struct bridge_config configs[3];
    struct bridges *bridges;
    struct buf text;
};

static struct stage s;

/* "a" has both directions, "b" only publishes, "c" only listens. */
static int
set_stage(void **state)
{
    memset(&s, 0, sizeof(s));
    memset(&doubles, 0, sizeof(doubles));
    tempdir_setup(state);
    sets_configure(&s.sets, tempdir_path(state));
    for (size_t i = 0; i < 3; i++) {
        s.configs[i].name[0] = (char)('a' + i);
        if (i < 2)
            memcpy(s.configs[i].out, "*", 2);
        if (i != 1)
            s.configs[i].inputs = &s.input;
        s.configs[i].n_inputs = i != 1;
    }
    s.sets.config.bridges = s.configs;
    s.sets.config.n_bridges = 3;
    sets_open(&s.sets);
    buf_init(&s.text, 65536);
    return 0;
}

static void
close_all(void)
{
    bridges_close(s.bridges);
    s.bridges = NULL;
}

static int
clear_stage(void **state)
{
    close_all();
    buf_fini(&s.text);
    sets_close(&s.sets);
    return tempdir_teardown(state);
}

static void
open_all(void)
{
    struct problem why = {""};

    if (bridges_open(&s.bridges, &s.sets.posts, NULL, &why))
        fail_msg("%s", why.text);
}

static const char *
text_of(void)
{
    buf_add(&s.text, "", 1);
    assert_false(s.text.failed);
    return s.text.data;
}

FIXTURE(set_stage, clear_stage);

/* Tests */

TEST(each_section_has_the_directions_that_it_says)
{
    struct jsonpath j;

    open_all();
    assert_int_equal(doubles.n_opened, 4);
    bridges_write(s.bridges, NULL, &s.text);

    jsonpath_open(&j, buf_slice(&s.text));
    assert_int_equal(jsonpath_count(&j, "bridges"), 3);
    assert_string_equal(jsonpath_text(&j, "bridges.0.name"), "a");
    assert_true(jsonpath_has(&j, "bridges.0.out"));
    assert_true(jsonpath_has(&j, "bridges.0.in"));
    assert_true(jsonpath_has(&j, "bridges.1.out"));
    assert_false(jsonpath_has(&j, "bridges.1.in"));
    assert_false(jsonpath_has(&j, "bridges.2.out"));
    assert_true(jsonpath_has(&j, "bridges.2.in"));
    jsonpath_close(&j);
    close_all();
    assert_int_equal(doubles.n_closed, 4);
}

static const struct bridging no_bridges;

TEST(without_a_section_nothing_is_made)
{
    registry_set_bridging(s.sets.registry, &no_bridges);
    open_all();

    assert_no_file(tempdir_fd(state), "mqtt.db");
    bridges_write(s.bridges, NULL, &s.text);
    bridges_warn(s.bridges, &s.text);
    bridges_measure(s.bridges);
    bridges_stop(s.bridges);
    assert_string_equal(text_of(), "{\"bridges\":[]}\n");
}

/* One after the other their farewells would add up. */
TEST(all_end_at_the_same_time_and_only_once)
{
    open_all();
    doubles.n_must_end = 4;

    bridges_stop(s.bridges);
    bridges_stop(s.bridges);
    bridges_write(s.bridges, NULL,
                  &s.text); /* they can be asked all the same */
    assert_int_equal(doubles.n_closed, 4);
    assert_int_equal(doubles.n_ending, 4);
    close_all();
}

TEST(one_that_cannot_be_opened_is_named_and_the_others_are_closed)
{
    struct problem why = {""};

    doubles.fails_at = 3;

    assert_int_equal(bridges_open(&s.bridges, &s.sets.posts, NULL, &why),
                     STATUS_INVALID);
    assert_string_equal(why.text, "bridge b: it cannot be");
    assert_null(s.bridges);
    assert_int_equal(doubles.n_closed, 2);
}

/* A reload */

/* "a" is the same, "b" is another one, "c" is gone, "d" is new. */
static struct bridging
make_next(struct bridge_config next[3])
{
    memcpy(next, s.configs, 3 * sizeof(*next));
    memcpy(next[1].out, "one", sizeof("one"));
    next[2] = (struct bridge_config){.name = "d", .out = "*"};
    next[0].line = 7; /* where it stands is no matter */
    return (struct bridging){next, 3};
}

TEST(a_reload_opens_what_differs_and_leaves_the_rest)
{
    struct bridge_config configs[3];
    struct bridging next = make_next(configs);

    open_all();
    assert_int_equal(bridges_reload(s.bridges, &next, NULL), STATUS_OK);
    assert_int_equal(doubles.n_opened, 4 + 2);
    assert_int_equal(doubles.n_closed, 2);
    assert_ptr_equal(registry_bridging(s.sets.registry), &next);

    assert_int_equal(bridges_reload(s.bridges, &next, NULL), STATUS_OK);
    assert_int_equal(doubles.n_opened, 4 + 2);
    bridges_warn(s.bridges, &s.text);
    assert_int_equal(strncmp(text_of(), "warning: bridge b, out: ", 24), 0);

    assert_int_equal(bridges_reload(s.bridges, &no_bridges, NULL), STATUS_OK);
    assert_int_equal(doubles.n_closed, 4 + 2);
    close_all();
}

TEST(a_reload_that_fails_leaves_the_earlier_bridges)
{
    struct bridge_config configs[3];
    struct bridging next = make_next(configs);
    struct problem why = {""};

    open_all();
    doubles.fails_at = 6;
    assert_int_equal(bridges_reload(s.bridges, &next, &why), STATUS_INVALID);
    assert_string_equal(why.text, "bridge d: it cannot be");
    assert_ptr_not_equal(registry_bridging(s.sets.registry), &next);
    assert_int_equal(doubles.n_opened, 4 + 1 + 2);
    assert_int_equal(doubles.n_closed, 3);
    close_all();
    assert_int_equal(doubles.n_closed, 4 + 1 + 2);
}

/* "a" can begin neither with the new section nor with the earlier one. */
TEST(a_reload_begins_what_could_not_begin_again_before)
{
    struct bridge_config configs[3];
    struct bridging next = {configs, 3};
    const struct bridging *earlier;
    struct jsonpath j;

    memcpy(configs, s.configs, sizeof(configs));
    memcpy(configs[0].out, "one", sizeof("one"));
    open_all();
    earlier = registry_bridging(s.sets.registry);
    doubles.n_in_fails = 2;
    assert_int_equal(bridges_reload(s.bridges, &next, NULL), STATUS_IO);

    assert_int_equal(bridges_reload(s.bridges, earlier, NULL), STATUS_OK);
    bridges_write(s.bridges, NULL, &s.text);
    jsonpath_open(&j, buf_slice(&s.text));
    assert_true(jsonpath_has(&j, "bridges.0.out"));
    assert_true(jsonpath_has(&j, "bridges.0.in"));
    assert_true(jsonpath_has(&j, "bridges.1.out"));
    assert_true(jsonpath_has(&j, "bridges.2.in"));
    jsonpath_close(&j);
    close_all();
    assert_int_equal(doubles.n_closed, doubles.n_opened);
}

TEST(warnings_name_those_that_do_not_work)
{
    open_all();
    bridges_warn(s.bridges, &s.text);

    assert_string_equal(text_of(), "warning: bridge b, out: not connected "
                                   "since 1970-01-01T00:00:00Z\n");
}

static void
assert_gauge(const char *metrics, const char *line)
{
    if (!strstr(metrics, line))
        fail_msg("no line \"%s\"", line);
}

TEST(gauges_are_sums)
{
    struct buf text;

    open_all();
    bridges_measure(s.bridges);
    buf_init(&text, (size_t)1 << 20);
    metrics_write(&text);
    buf_add(&text, "", 1);

    assert_gauge(text.data, "\ntidings_mqtt_in_flight 6\n");
    assert_gauge(text.data, "\ntidings_mqtt_lag_entries 200\n");
    buf_fini(&text);
}
