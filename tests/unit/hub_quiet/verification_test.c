/*
 * Verification of intent: the request to the callback, its answer, which
 * request of a pair counts, how many may wait.
 */
#include "broker/hub/verification.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/hub_quiet/simulation.h"

#define CALLBACK "http://a.example/cb?x=1"
#define TOPIC    "http://example.org/sets/demo/notifications"

#define HOUR_US 3600000000 /* the hub asks three times within seconds */

static void
unsubscribe(void)
{
    assert_int_equal(sim_form("hub.mode=unsubscribe&hub.topic=" TOPIC
                              "&hub.callback=" CALLBACK),
                     202);
}

FIXTURE(simulation_setup, simulation_teardown);

/* W-031, W-050, W-051, W-054, R-299 */
TEST(asks_the_callback_with_its_own_query_first)
{
    struct call *call;

    sim_subscribe(CALLBACK, "&hub.lease_seconds=1000");
    call = sim_call(CALLBACK "&");

    assert_non_null(call);
    assert_int_equal(call->method, CALL_GET);
    assert_int_equal(call->max_redirects, 0);
    assert_string_equal(sim_parameter(call, "hub.mode"), "subscribe");
    assert_string_equal(sim_parameter(call, "hub.topic"), TOPIC);
    assert_string_equal(sim_parameter(call, "hub.lease_seconds"), "1000");
    assert_int_equal(strlen(sim_parameter(call, "hub.challenge")),
                     WEBSUB_CHALLENGE_SIZE);
    assert_null(sim_find(CALLBACK));
}

/* W-055, R-299 */
TEST(is_active_when_any_2xx_has_the_challenge)
{
    struct call *call;

    sim_subscribe(CALLBACK, "");
    call = sim_call(CALLBACK);
    sim_answer(call, 206, sim_parameter(call, "hub.challenge"));

    assert_non_null(sim_find(CALLBACK));
    assert_null(sim_waiting());
    assert_int_equal(sim_n_calls(), 0);
}

/* W-055, W-056, W-057: and the hub does not ask again */
TEST(every_other_answer_is_a_failure)
{
    static const struct {
        unsigned status;
        const char *before, *behind;
        bool has_challenge;
    } rows[] = {
        {302, "", "", true},         {404, "", "", true},
        {500, "", "", true},         {199, "", "", true},
        {200, "", "", false},        {200, "", "\n", true},
        {200, "x", "", false},       {200, " ", "", true},
        {200, "", "and more", true},
    };

    char body[200];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct call *call;

        sim_subscribe(CALLBACK, "");
        call = sim_call(CALLBACK);
        snprintf(body, sizeof(body), "%s%s%s", rows[i].before,
                 rows[i].has_challenge ? sim_parameter(call, "hub.challenge")
                                       : "",
                 rows[i].behind);
        sim_answer(call, rows[i].status, body);

        if (sim_find(CALLBACK) || sim_waiting())
            fail_msg("%u: %s", rows[i].status, body);
        quiet_pass(HOUR_US);
        assert_int_equal(sim_n_calls(), 0);
    }
}

/* W-053, W-056 */
TEST(tries_a_few_times_when_there_is_no_answer_each_with_its_challenge)
{
    char first[100], second[100];

    sim_subscribe(CALLBACK, "");
    strcpy(first, sim_parameter(sim_call(CALLBACK), "hub.challenge"));
    sim_fail(sim_call(CALLBACK), CALL_UNCONNECTED);
    assert_int_equal(sim_n_calls(), 0);
    quiet_pass(sim.sets.config.hub_retry.first_us);
    strcpy(second, sim_parameter(sim_call(CALLBACK), "hub.challenge"));
    sim_fail(sim_call(CALLBACK), CALL_TIMEOUT);
    quiet_pass(2 * sim.sets.config.hub_retry.first_us);

    assert_string_not_equal(first, second);
    assert_string_not_equal(first,
                            sim_parameter(sim_call(CALLBACK), "hub.challenge"));
    sim_answer(sim_call(CALLBACK), 200, first); /* W-053: used once */
    assert_null(sim_find(CALLBACK));

    sim_subscribe(CALLBACK, "");
    for (int i = 0; i < 3; i++) {
        sim_fail(sim_call(CALLBACK), CALL_BROKEN);
        quiet_pass(10 * sim.sets.config.hub_retry.first_us);
    }
    assert_int_equal(sim_n_calls(), 0);
    assert_null(sim_waiting());
}

/* W-160: the hub does not try a forbidden address again. */
TEST(an_address_that_is_refused_ends_the_request)
{
    sim_subscribe(CALLBACK, "");
    sim_fail(sim_call(CALLBACK), CALL_REFUSED);

    assert_null(sim_waiting());
    quiet_pass(HOUR_US);
    assert_int_equal(sim_n_calls(), 0);
}

/* W-034, W-036: the newest request of a pair counts, and what an older one is
 * answered changes nothing. */
TEST(a_newer_request_replaces_the_older_one)
{
    char challenge[100];

    sim_subscribe(CALLBACK, "&hub.secret=old");
    strcpy(challenge, sim_parameter(sim_call(CALLBACK), "hub.challenge"));
    sim_subscribe(CALLBACK, "&hub.secret=new");

    assert_int_equal(sim_n_calls(), 1);
    sim_answer(sim_call(CALLBACK), 200, challenge);
    assert_null(sim_find(CALLBACK));

    sim_subscribe(CALLBACK, "");
    unsubscribe();
    assert_int_equal(sim_n_calls(), 1);
    assert_string_equal(sim_parameter(sim_call(CALLBACK), "hub.mode"),
                        "unsubscribe");
}

/* Both come in one turn: the same. */
TEST(of_two_requests_in_one_turn_the_second_counts)
{
    struct command *first = sim_request("http://a.example/", "&hub.secret=old");
    struct command *second =
        sim_request("HTTP://A.example:80", "&hub.secret=newer");

    quiet_turn();

    assert_int_equal(sim_outcome(first), 202);
    assert_int_equal(sim_outcome(second), 202);
    assert_int_equal(sim_n_calls(), 1);
    assert_null(sim_call("http://a.example/"));
    sim_confirm("HTTP://A.example:80");
    assert_int_equal(sim_find("HTTP://A.example:80")->terms.secret_size, 5);
    simulation_restart();
    assert_int_equal(sim_n_calls(), 0);
}

/* W-050, W-061, R-301 */
TEST(an_unsubscription_counts_when_it_is_confirmed)
{
    sim_subscribe(CALLBACK, "");
    sim_confirm(CALLBACK);
    unsubscribe();
    sim_answer(sim_call(CALLBACK), 404, "");
    assert_non_null(sim_find(CALLBACK));

    unsubscribe();
    assert_string_equal(sim_parameter(sim_call(CALLBACK), "hub.mode"),
                        "unsubscribe");
    sim_confirm(CALLBACK);
    assert_null(sim_find(CALLBACK));
    simulation_restart();
    assert_null(sim_find(CALLBACK));
}

/* W-062 */
TEST(an_unsubscription_of_nothing_changes_nothing)
{
    unsubscribe();
    sim_confirm(CALLBACK);

    assert_null(sim_find(CALLBACK));
    assert_null(sim_waiting());
}

/* W-044: also "denied" would do, silence would not. */
TEST(an_unknown_topic_is_refused_at_once)
{
    assert_int_equal(
        sim_form("hub.mode=subscribe&hub.callback=" CALLBACK
                 "&hub.topic=http://example.org/sets/no/notifications"),
        404);
    assert_int_equal(sim_form("hub.mode=subscribe&hub.callback=" CALLBACK
                              "&hub.topic=http://other.example/feed"),
                     404);
    assert_int_equal(sim_n_calls(), 0);
}

/* W-070, W-071, W-054, R-300 */
TEST(the_lease_is_between_its_bounds_and_counts_from_the_verification)
{
    static const struct {
        const char *asked;
        int64_t granted_s;
    } rows[] = {{"", 864000},
                {"&hub.lease_seconds=1", 300},
                {"&hub.lease_seconds=301", 301},
                {"&hub.lease_seconds=315360000", 2678400},
                {"&hub.lease_seconds=99999999999999999999999", 2678400}};

    int64_t begin;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[40];

        quiet->connections = 0; /* it waits for its turn */
        sim_subscribe(CALLBACK, rows[i].asked);
        quiet_pass(5000000);
        begin = clock_now_us();
        quiet->connections = UINT_MAX;
        quiet_turn();
        snprintf(text, sizeof(text), "%lld", (long long)rows[i].granted_s);
        assert_string_equal(
            sim_parameter(sim_call(CALLBACK), "hub.lease_seconds"), text);
        quiet_pass(7000000);
        sim_confirm(CALLBACK);
        assert_int_equal(sim_find(CALLBACK)->lease_end_us,
                         begin + rows[i].granted_s * 1000000);
    }
}

/* W-164 */
TEST(too_many_requests_for_one_host_are_429)
{
    char url[60];

    for (int i = 0; i <= VERIFICATIONS_PER_HOST; i++) {
        snprintf(url, sizeof(url), "http://a.example/%d", i);
        assert_int_equal(sim_ask(url, ""),
                         i < VERIFICATIONS_PER_HOST ? 202 : 429);
    }
    assert_int_equal(sim_ask("http://b.example/", ""), 202);

    sim_confirm("http://a.example/0"); /* one is through */
    assert_int_equal(sim_ask(url, ""), 202);
}

/* W-164, W-161: a victim is a host, under any port and spelling. */
TEST(ports_and_spellings_of_a_host_share_its_limit)
{
    static const char *const hosts[] = {"192.0.2.1", "0xC0.513",
                                        "[::ffff:192.0.2.1]", "3221225985"};
    char url[60];

    for (int i = 0; i <= VERIFICATIONS_PER_HOST; i++) {
        snprintf(url, sizeof(url), "http://%s:%d/", hosts[i % 4], 1000 + i);
        assert_int_equal(sim_ask(url, ""),
                         i < VERIFICATIONS_PER_HOST ? 202 : 429);
    }
}

/* A callback of the broker itself is refused in every spelling (W-028):
 * deliveries would be posts to it. */
TEST(a_callback_of_our_own_is_refused)
{
    static const char *const bad[] = {
        SETS_URL "/hub", SETS_URL "/sets/demo/changes?x", SETS_URL,
        "HTTP://EXAMPLE.org:80/%73ets/demo/changes"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (sim_ask(bad[i], "") != 422 ||
            !strstr(sim_why.text, "is of this broker itself"))
            fail_msg("%s: %s", bad[i], sim_why.text);
        if (sim_ask_simply(bad[i]) != 422)
            fail_msg("%s: %s", bad[i], sim_why.text);
    }
    assert_int_equal(sim_n_calls(), 0);
    assert_int_equal(sim_ask("http://example.org.evil.example/hub", ""), 202);
}

/* Submits a request for the host h`nth`, from an address that may have a %x. */
static struct command *
request_from(const char *from, unsigned nth)
{
    struct command *command;
    char url[60];

    snprintf(url, sizeof(url), "http://h%u.example/", nth);
    command = sim_request(url, "");
    assert_non_null(command);
    snprintf(command->from, sizeof(command->from), from, nth);
    return command;
}

/* Makes as many requests as one requester may have. */
static void
use_up_requests(const char *from)
{
    static struct command *commands[VERIFICATIONS_PER_FROM];

    for (unsigned i = 0; i < VERIFICATIONS_PER_FROM; i++)
        commands[i] = request_from(from, i);
    quiet_turn();
    for (unsigned i = 0; i < VERIFICATIONS_PER_FROM; i++)
        assert_int_equal(sim_outcome(commands[i]), 202);
}

/* W-164: an IPv6 network of 2^64 addresses is one requester. */
TEST(a_network_of_ipv6_is_one_requester)
{
    static const struct {
        const char *from;
        unsigned status;
    } rows[] = {
        {"2001:db8:0:1::ffff", 429}, {"2001:db8:0:2::1", 202},
        {"::ffff:192.0.2.1", 202},   {"::ffff:192.0.2.2", 202},
        {"192.0.2.3", 202},
    };

    use_up_requests("2001:db8:0:1::%x");
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct command *command =
            request_from(rows[i].from, VERIFICATIONS_PER_FROM + i);

        quiet_turn();
        if (sim_outcome(command) != rows[i].status)
            fail_msg("%s", rows[i].from);
    }
}

/* W-164: whichever hosts they name */
TEST(too_many_requests_of_one_requester_are_429)
{
    use_up_requests("192.0.2.1");
    assert_int_equal(sim_ask("http://another.example/", ""), 429);
}

/* W-074, W-031: it was answered 202. */
TEST(a_request_is_verified_after_a_restart)
{
    char challenge[100];

    sim_subscribe(CALLBACK,
                  "&hub.secret=s&hub.lease_seconds=400&change=deleted&"
                  "interval=0.25&after=1");
    strcpy(challenge, sim_parameter(sim_call(CALLBACK), "hub.challenge"));
    simulation_restart();

    assert_string_not_equal(sim_parameter(sim_call(CALLBACK), "hub.challenge"),
                            challenge);
    sim_confirm(CALLBACK);
    assert_int_equal(sim_find(CALLBACK)->terms.secret_size, 1);
    assert_int_equal(sim_find(CALLBACK)->terms.interval_us, 250000);
    assert_string_equal(sim_find(CALLBACK)->terms.filter, "change=deleted");
    assert_int_equal(sim_find(CALLBACK)->terms.lease_us, 400000000);
}

/* W-032, W-036: the hub promises nothing that it has not kept, and an older
 * request goes on.
 */
TEST(a_request_that_cannot_be_kept_is_503_and_never_was)
{
    char challenge[100];

    sim_subscribe(CALLBACK, "&hub.secret=old");
    strcpy(challenge, sim_parameter(sim_call(CALLBACK), "hub.challenge"));
    sim_use_up_disk();
    assert_non_null(strstr(sim_why.text, "full"));
    assert_int_equal(sim_ask(CALLBACK, "&hub.secret=new"), 503);

    /* The older one is still asked, and it is what counts, also when there is
     * room again. */
    sim_fill_disk(false);
    quiet_pass(3000000);
    assert_string_equal(sim_parameter(sim_call(CALLBACK), "hub.challenge"),
                        challenge);
    sim_confirm(CALLBACK);
    assert_int_equal(sim_find(CALLBACK)->terms.secret_size, 3);
    assert_memory_equal(sim_find(CALLBACK)->terms.secret, "old", 3);
    simulation_restart();
    assert_non_null(sim_find(CALLBACK));
    assert_null(sim_call(CALLBACK "&hub.mode"));
}

/* W-041, W-042, R-303 */
TEST(a_denied_callback_is_told_why)
{
    struct subscription *s;

    sim_subscribe(CALLBACK, "");
    sim_confirm(CALLBACK);
    s = sim_find(CALLBACK);
    assert_int_equal(sim_command(COMMAND_END, s->id, NULL), 204);

    assert_null(sim_find(CALLBACK));
    sim_assert_denied(CALLBACK);
    assert_string_not_equal(sim_parameter(sim_call(CALLBACK), "hub.reason"),
                            "");
    sim_fail(sim_call(CALLBACK), CALL_UNCONNECTED);
    quiet_pass(sim.sets.config.hub_retry.first_us);
    sim_answer(sim_call(CALLBACK), 500, "");
    quiet_pass(HOUR_US);
    assert_int_equal(sim_n_calls(), 0);
}

/* W-042: also one that waits. */
TEST(a_request_can_be_ended_by_the_operator)
{
    sim_subscribe(CALLBACK, "");
    assert_int_equal(sim_command(COMMAND_END, sim_waiting()->id, NULL), 204);

    assert_int_equal(sim_n_calls(), 1);
    sim_assert_denied(CALLBACK);
    simulation_restart();
    assert_int_equal(sim_n_calls(), 0);
}
