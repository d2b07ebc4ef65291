/*
 * The report on a subscription: its state, its lag, its failures.
 */
#include <stdio.h>
#include <string.h>

#include "broker/hub/hub_commands.h"
#include "tests/test.h"
#include "tests/unit/hub_quiet/simulation.h"

#define HOST     "http://a.example"
#define CALLBACK HOST "/cb"
#define TOPIC    "http://example.org/sets/demo/notifications"

FIXTURE(simulation_setup, simulation_teardown);

/* W-029, W-166: a callback's URL is a secret, too, but for its host. */
TEST(a_report_tells_all_but_the_secrets)
{
    struct subscription *s =
        sim_active(CALLBACK, "&hub.secret=geheim&tag=a&interval=0.5");

    sim_subscribe("http://b.example/", "&hub.secret=geheim");
    assert_int_equal(sim_command(COMMAND_SHOW, s->id, NULL), 200);
    assert_non_null(strstr(sim_text, "\"callback\":\"" HOST "\""));
    assert_non_null(strstr(sim_text, "\"topic\":\"" TOPIC "\""));
    assert_non_null(strstr(sim_text, "\"state\":\"active\""));
    assert_non_null(strstr(sim_text, "\"leaseEnd\":\"2027-01-25T08:00:00Z\""));
    assert_non_null(strstr(sim_text, "\"lag\":0,\"delivering\":false"));
    assert_non_null(strstr(sim_text, "\"filter\":\"tag=a\",\"interval\":0.5"));
    assert_non_null(strstr(sim_text, "\"hasSecret\":true"));

    assert_int_equal(sim_command(COMMAND_LIST, 0, NULL), 200);
    assert_non_null(
        strstr(sim_text, "\"state\":\"pending\",\"mode\":\"subscribe\""));
    assert_null(strstr(sim_text, "geheim"));
    assert_null(strstr(sim_text, CALLBACK));
}

/* The subscriptions of a callback, as sim_text. */
static unsigned
list_of(const char *callback)
{
    struct command *command = command_new(COMMAND_LIST, strlen(callback));

    snprintf(command->name, sizeof(command->name), "demo");
    command->request.callback = command_keep(command, slice_of(callback));
    return sim_run(command);
}

/* W-034: the list of one callback has its subscription and pending requests. */
TEST(a_report_of_a_callback_has_what_is_its)
{
    uint64_t id = sim_active(CALLBACK, "")->id;
    char first[50], waits[50];
    const char *at = sim_text;
    unsigned n = 0;

    sim_active(HOST "/cb/other", "");
    sim_subscribe(CALLBACK, "");
    snprintf(first, sizeof(first), "{\"subscriptions\":[{\"id\":%u,",
             (unsigned)id);
    snprintf(waits, sizeof(waits), "{\"id\":%u,", (unsigned)sim_waiting()->id);
    assert_int_equal(list_of("http://A.example:80/c%62"), 200);
    assert_memory_equal(sim_text, first, strlen(first));
    assert_non_null(strstr(sim_text, waits));
    for (; (at = strstr(at, "{\"id\":")); n++)
        at++;
    assert_int_equal(n, 2);
    assert_int_equal(list_of(HOST "/cb/none"), 200);
    assert_string_equal(sim_text, "{\"subscriptions\":[]}\n");
}

/* Changes that do not pass the filter are no lag. */
TEST(a_report_tells_no_lag_where_nothing_passes)
{
    struct subscription *s = sim_active(CALLBACK, "&tag=none");

    sim_post(4, 2);
    assert_int_equal(sim_command(COMMAND_SHOW, s->id, NULL), 200);

    assert_non_null(strstr(sim_text, "\"lag\":0,\"delivering\":false"));
}

/* Nor what happened to other sets, in the log that all share. */
TEST(a_report_tells_no_lag_of_framework_events_of_others)
{
    struct subscription *s;

    sets_post(&sim.sets, "other", 0, 1);
    sets_post(&sim.sets, "other", 1, 1);
    assert_int_equal(sim_form("hub.mode=subscribe&hub.callback=" CALLBACK
                              "&hub.topic=" SETS_URL
                              "/sets/demo/framework-notifications"),
                     202);
    sim_confirm(CALLBACK);
    s = sim_next(0);
    assert_int_equal(s->topic->kind, TOPIC_FRAMEWORK);
    sets_rotate(&sim.sets, "other");
    sets_post(&sim.sets, "other", 2, 1);
    sets_post(&sim.sets, "other", 3, 1);
    quiet_turn();
    assert_int_equal(sim_command(COMMAND_SHOW, s->id, NULL), 200);

    assert_non_null(strstr(sim_text, "\"lag\":0,\"delivering\":false"));
}

TEST(a_report_tells_what_fails)
{
    struct subscription *s = sim_active(CALLBACK, "");

    sim_post(4, 2);
    sim_answer(sim_call(CALLBACK), 503, "");
    assert_int_equal(sim_command(COMMAND_SHOW, s->id, NULL), 200);

    assert_non_null(strstr(sim_text, "\"lag\":2,\"delivering\":true,"
                                     "\"nextTry\":\"2027-01-15T08:00:0"));
    assert_non_null(strstr(sim_text, "\"attempts\":1,\"failures\":1"));
    assert_non_null(strstr(sim_text, "\"lastStatus\":503"));
}
