/*
 * Verification of intent: what is asked, what is an answer, which request of a
 * pair counts, how many may wait.
 */
#include "broker/hub/verify.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/hub_quiet/simulation.h"

#define CALLBACK "http://a.example/cb?x=1"
/* Nothing in it needs an escape in a form but "?" and "=", which it may have.
 */
#define ENCODED CALLBACK
#define TOPIC   "http://example.org/sets/demo/notifications"

#define DAY_US 86400000000

static void
subscribe(struct simulation *sim, const char *more)
{
    char form[1024];

    snprintf(form, sizeof(form),
             "hub.mode=subscribe&hub.topic=%%s&hub.callback=" ENCODED "%s",
             more);
    assert_int_equal(sim_form(sim, form), 202);
}

static void
unsubscribe(struct simulation *sim)
{
    assert_int_equal(
        sim_form(sim,
                 "hub.mode=unsubscribe&hub.topic=%s&hub.callback=" ENCODED),
        202);
}

FIXTURE(simulation_setup, simulation_teardown);

/* W-031, W-050, W-051, W-054, R-299 */
TEST(asks_the_callback_with_its_own_query_first)
{
    struct simulation *sim = *state;
    struct call *call;

    subscribe(sim, "&hub.lease_seconds=1000");
    call = sim_call(CALLBACK "&");

    assert_non_null(call);
    assert_int_equal(call->method, CALL_GET);
    assert_int_equal(call->max_redirects, 0);
    assert_string_equal(sim_parameter(call, "hub.mode"), "subscribe");
    assert_string_equal(sim_parameter(call, "hub.topic"), TOPIC);
    assert_string_equal(sim_parameter(call, "hub.lease_seconds"), "1000");
    assert_int_equal(strlen(sim_parameter(call, "hub.challenge")),
                     WEBSUB_CHALLENGE_SIZE);
    assert_null(sim_find(sim, CALLBACK));
}

/* W-055, R-299 */
TEST(is_active_when_any_2xx_has_the_challenge)
{
    struct simulation *sim = *state;
    struct call *call;

    subscribe(sim, "");
    call = sim_call(CALLBACK);
    sim_answer(sim, call, 206, sim_parameter(call, "hub.challenge"));

    assert_non_null(sim_find(sim, CALLBACK));
    assert_null(request_next(sim->hub, 0));
    assert_int_equal(sim_n_calls(), 0);
}

/* W-055, W-056, W-057: and nobody is asked again */
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
    struct simulation *sim = *state;
    char body[200];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct call *call;

        subscribe(sim, "");
        call = sim_call(CALLBACK);
        snprintf(body, sizeof(body), "%s%s%s", rows[i].before,
                 rows[i].has_challenge ? sim_parameter(call, "hub.challenge")
                                       : "",
                 rows[i].behind);
        sim_answer(sim, call, rows[i].status, body);

        assert_null(sim_find(sim, CALLBACK));
        assert_null(request_next(sim->hub, 0));
        sim_pass(sim, DAY_US);
        assert_int_equal(sim_n_calls(), 0);
    }
}

/* W-053, W-056 */
TEST(tries_a_few_times_when_there_is_no_answer_each_with_its_challenge)
{
    struct simulation *sim = *state;
    char first[100], second[100];

    subscribe(sim, "");
    strcpy(first, sim_parameter(sim_call(CALLBACK), "hub.challenge"));
    sim_fail(sim, sim_call(CALLBACK), CALL_UNCONNECTED);
    assert_int_equal(sim_n_calls(), 0);
    sim_pass(sim, sim->sets.config.hub_retry_first_us);
    strcpy(second, sim_parameter(sim_call(CALLBACK), "hub.challenge"));
    sim_fail(sim, sim_call(CALLBACK), CALL_TIMEOUT);
    sim_pass(sim, 2 * sim->sets.config.hub_retry_first_us);

    assert_string_not_equal(first, second);
    assert_string_not_equal(first,
                            sim_parameter(sim_call(CALLBACK), "hub.challenge"));
    sim_answer(sim, sim_call(CALLBACK), 200, first); /* W-053: used once */
    assert_null(sim_find(sim, CALLBACK));

    subscribe(sim, "");
    for (int i = 0; i < 3; i++) {
        sim_fail(sim, sim_call(CALLBACK), CALL_BROKEN);
        sim_pass(sim, 10 * sim->sets.config.hub_retry_first_us);
    }
    assert_int_equal(sim_n_calls(), 0);
    assert_null(request_next(sim->hub, 0));
}

/* W-160: what may not be called is not tried again. */
TEST(an_address_that_is_refused_ends_the_request)
{
    struct simulation *sim = *state;

    subscribe(sim, "");
    sim_fail(sim, sim_call(CALLBACK), CALL_REFUSED);

    assert_null(request_next(sim->hub, 0));
    sim_pass(sim, DAY_US);
    assert_int_equal(sim_n_calls(), 0);
}

/* W-034, W-036: the newest request of a pair counts, and what an older one is
 * answered changes nothing. */
TEST(a_newer_request_replaces_the_older_one)
{
    struct simulation *sim = *state;
    char challenge[100];

    subscribe(sim, "&hub.secret=old");
    strcpy(challenge, sim_parameter(sim_call(CALLBACK), "hub.challenge"));
    subscribe(sim, "&hub.secret=new");

    assert_int_equal(sim_n_calls(), 1);
    sim_answer(sim, sim_call(CALLBACK), 200, challenge);
    assert_null(sim_find(sim, CALLBACK));

    subscribe(sim, "");
    unsubscribe(sim);
    assert_int_equal(sim_n_calls(), 1);
    assert_string_equal(sim_parameter(sim_call(CALLBACK), "hub.mode"),
                        "unsubscribe");
}

/* Both come in one turn: the same. */
TEST(of_two_requests_in_one_turn_the_second_counts)
{
    struct simulation *sim = *state;
    struct order *first, *second;

    first = sim_submit(sim, "hub.mode=subscribe&hub.topic=%s&hub.callback="
                            "http://a.example/&hub.secret=old");
    second = sim_submit(sim, "hub.mode=subscribe&hub.topic=%s&hub.callback="
                             "HTTP://A.example:80&hub.secret=newer");
    sim_turn(sim);

    assert_int_equal(sim_outcome(first), 202);
    assert_int_equal(sim_outcome(second), 202);
    assert_int_equal(sim_n_calls(), 1);
    assert_null(sim_call("http://a.example/"));
    sim_confirm(sim, "HTTP://A.example:80");
    assert_int_equal(sim_find(sim, "HTTP://A.example:80")->terms.secret_size,
                     5);
    simulation_restart(sim);
    assert_int_equal(sim_n_calls(), 0);
}

/* W-050, W-061, R-301 */
TEST(an_unsubscription_counts_when_it_is_confirmed)
{
    struct simulation *sim = *state;

    subscribe(sim, "");
    sim_confirm(sim, CALLBACK);
    unsubscribe(sim);
    sim_answer(sim, sim_call(CALLBACK), 404, "");
    assert_non_null(sim_find(sim, CALLBACK));

    unsubscribe(sim);
    assert_string_equal(sim_parameter(sim_call(CALLBACK), "hub.mode"),
                        "unsubscribe");
    sim_confirm(sim, CALLBACK);
    assert_null(sim_find(sim, CALLBACK));
    simulation_restart(sim);
    assert_null(sim_find(sim, CALLBACK));
}

/* W-062 */
TEST(an_unsubscription_of_nothing_changes_nothing)
{
    struct simulation *sim = *state;

    unsubscribe(sim);
    sim_confirm(sim, CALLBACK);

    assert_null(sim_find(sim, CALLBACK));
    assert_null(request_next(sim->hub, 0));
}

/* W-044: also "denied" would do, silence would not. */
TEST(an_unknown_topic_is_refused_at_once)
{
    struct simulation *sim = *state;

    assert_int_equal(
        sim_form(sim, "hub.mode=subscribe&hub.callback=" ENCODED
                      "&hub.topic=http://example.org/sets/no/notifications"),
        404);
    assert_int_equal(sim_form(sim, "hub.mode=subscribe&hub.callback=" ENCODED
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
    struct simulation *sim = *state;
    int64_t begin;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[40];

        quiet->connections = 0; /* it waits for its turn */
        subscribe(sim, rows[i].asked);
        sim_pass(sim, 5000000);
        begin = clock_now_us();
        quiet->connections = UINT_MAX;
        sim_turn(sim);
        snprintf(text, sizeof(text), "%lld", (long long)rows[i].granted_s);
        assert_string_equal(
            sim_parameter(sim_call(CALLBACK), "hub.lease_seconds"), text);
        sim_pass(sim, 7000000);
        sim_confirm(sim, CALLBACK);
        assert_int_equal(sim_find(sim, CALLBACK)->lease_end_us,
                         begin + rows[i].granted_s * 1000000);
    }
}

/* W-164 */
TEST(too_many_requests_for_one_host_are_429)
{
    struct simulation *sim = *state;
    char form[300];

    for (int i = 0; i <= REQUESTS_PER_HOST; i++) {
        snprintf(form, sizeof(form),
                 "hub.mode=subscribe&hub.topic=%%s&hub.callback="
                 "http://a.example/%d",
                 i);
        assert_int_equal(sim_form(sim, form),
                         i < REQUESTS_PER_HOST ? 202 : 429);
    }
    assert_int_equal(sim_form(sim,
                              "hub.mode=subscribe&hub.topic=%s&hub.callback="
                              "http://b.example/"),
                     202);

    sim_confirm(sim, "http://a.example/0"); /* one is through */
    assert_int_equal(sim_form(sim, form), 202);
}

/* W-164, W-161: a victim is a host, whatever port and spelling is named. */
TEST(ports_and_spellings_of_a_host_share_its_limit)
{
    static const char *const hosts[] = {"192.0.2.1", "0xC0.513",
                                        "[::ffff:192.0.2.1]", "3221225985"};
    struct simulation *sim = *state;
    char form[300];

    for (int i = 0; i <= REQUESTS_PER_HOST; i++) {
        snprintf(form, sizeof(form),
                 "hub.mode=subscribe&hub.topic=%%s&hub.callback="
                 "http://%s:%d/",
                 hosts[i % 4], 1000 + i);
        assert_int_equal(sim_form(sim, form),
                         i < REQUESTS_PER_HOST ? 202 : 429);
    }
}

/* A callback of the broker itself is refused (W-028), whatever it looks like:
 * deliveries would be posts to it. */
TEST(a_callback_of_our_own_is_refused)
{
    static const char *const bad[] = {
        SETS_URL "/hub", SETS_URL "/sets/demo/changes?x", SETS_URL,
        "HTTP://EXAMPLE.org:80/%73ets/demo/changes"};
    struct simulation *sim = *state;
    char form[300];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct order *order = order_new(ORDER_SUBSCRIBE, 0);

        snprintf(form, sizeof(form),
                 "hub.mode=subscribe&hub.topic=%%s&hub.callback=%s", bad[i]);
        if (strchr(bad[i], '%')) /* sim_form takes it for its own */
            snprintf(form, sizeof(form),
                     "hub.mode=subscribe&hub.topic=%%s"
                     "&hub.callback=HTTP://EXAMPLE.org:80/"
                     "sets/demo/changes");
        assert_int_equal(sim_form(sim, form), 422);
        assert_non_null(strstr(sim_why.text, "is of this broker itself"));

        snprintf(form, sizeof(form), "callbackURI=%s", bad[i]);
        assert_int_equal(order_read_simple(order, slice_of(form), &sim_why),
                         STATUS_OK);
        strcpy(order->name, "demo");
        assert_int_equal(sim_run(sim, order), 422);
    }
    assert_int_equal(sim_n_calls(), 0);
    assert_int_equal(sim_form(sim,
                              "hub.mode=subscribe&hub.topic=%s&hub.callback="
                              "http://example.org.evil.example/hub"),
                     202);
}

/* W-164: whoever has an IPv6 address has 2^64 of them. */
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
    struct simulation *sim = *state;
    char form[300];

    for (int i = 0; i < REQUESTS_PER_FROM + 5; i++) {
        struct order *order;

        snprintf(form, sizeof(form),
                 "hub.mode=subscribe&hub.topic=%%s&hub.callback="
                 "http://h%d.example/",
                 i);
        order = sim_submit(sim, form);
        assert_non_null(order);
        if (i < REQUESTS_PER_FROM)
            snprintf(order->from, sizeof(order->from), "2001:db8:0:1::%x",
                     (unsigned)i);
        else
            strcpy(order->from, rows[i - REQUESTS_PER_FROM].from);
        sim_turn(sim);
        assert_int_equal(
            sim_outcome(order),
            i < REQUESTS_PER_FROM ? 202 : rows[i - REQUESTS_PER_FROM].status);
    }
}

/* W-164: whatever hosts they name */
TEST(too_many_requests_of_one_requester_are_429)
{
    struct simulation *sim = *state;
    char form[300];

    for (int i = 0; i <= REQUESTS_PER_FROM; i++) {
        snprintf(form, sizeof(form),
                 "hub.mode=subscribe&hub.topic=%%s&hub.callback="
                 "http://h%d.example/",
                 i);
        assert_int_equal(sim_form(sim, form),
                         i < REQUESTS_PER_FROM ? 202 : 429);
    }
}

/* W-074, W-031: it was answered 202. */
TEST(a_request_is_verified_after_a_restart)
{
    struct simulation *sim = *state;
    char challenge[100];

    subscribe(sim, "&hub.secret=s&hub.lease_seconds=400&change=deleted&"
                   "interval=0.25&after=1");
    strcpy(challenge, sim_parameter(sim_call(CALLBACK), "hub.challenge"));
    simulation_restart(sim);

    assert_string_not_equal(sim_parameter(sim_call(CALLBACK), "hub.challenge"),
                            challenge);
    sim_confirm(sim, CALLBACK);
    assert_int_equal(sim_find(sim, CALLBACK)->terms.secret_size, 1);
    assert_int_equal(sim_find(sim, CALLBACK)->terms.interval_us, 250000);
    assert_string_equal(sim_find(sim, CALLBACK)->terms.filter,
                        "change=deleted");
    assert_int_equal(sim_find(sim, CALLBACK)->terms.lease_us, 400000000);
}

/* W-032, W-036: nothing is told that is not kept, and an older request goes on.
 */
TEST(a_request_that_cannot_be_kept_is_503_and_never_was)
{
    struct simulation *sim = *state;
    char challenge[100];
    char form[3000];

    subscribe(sim, "&hub.secret=old");
    strcpy(challenge, sim_parameter(sim_call(CALLBACK), "hub.challenge"));
    sim_fill_disk(sim, true);
    for (int i = 0; i < 40; i++) {
        snprintf(form, sizeof(form),
                 "hub.mode=subscribe&hub.topic=%%s&hub.callback="
                 "http://b.example/%0150d",
                 i);
        if (sim_form(sim, form) == 503)
            break;
        assert_int_not_equal(i, 39);
    }
    assert_non_null(strstr(sim_why.text, "full"));
    assert_int_equal(sim_form(sim, "hub.mode=subscribe&hub.topic=%s&"
                                   "hub.callback=" ENCODED "&hub.secret=new"),
                     503);

    /* The older one is still asked, and it is what counts, also when there is
     * room again. */
    sim_fill_disk(sim, false);
    sim_pass(sim, 3000000);
    assert_string_equal(sim_parameter(sim_call(CALLBACK), "hub.challenge"),
                        challenge);
    sim_confirm(sim, CALLBACK);
    assert_int_equal(sim_find(sim, CALLBACK)->terms.secret_size, 3);
    assert_memory_equal(sim_find(sim, CALLBACK)->terms.secret, "old", 3);
    simulation_restart(sim);
    assert_non_null(sim_find(sim, CALLBACK));
    assert_null(sim_call(CALLBACK "&hub.mode"));
}

/* W-041, W-042, R-303 */
TEST(a_denied_callback_is_told_why)
{
    struct simulation *sim = *state;
    struct subscription *s;

    subscribe(sim, "");
    sim_confirm(sim, CALLBACK);
    s = sim_find(sim, CALLBACK);
    assert_int_equal(sim_order(sim, ORDER_END, s->id, NULL), 204);

    assert_null(sim_find(sim, CALLBACK));
    assert_string_equal(sim_parameter(sim_call(CALLBACK), "hub.mode"),
                        "denied");
    assert_string_equal(sim_parameter(sim_call(CALLBACK), "hub.topic"), TOPIC);
    assert_string_not_equal(sim_parameter(sim_call(CALLBACK), "hub.reason"),
                            "");
    sim_fail(sim, sim_call(CALLBACK), CALL_UNCONNECTED);
    sim_pass(sim, sim->sets.config.hub_retry_first_us);
    sim_answer(sim, sim_call(CALLBACK), 500, "");
    sim_pass(sim, DAY_US);
    assert_int_equal(sim_n_calls(), 0);
}

/* W-042: also one that waits. */
TEST(a_request_can_be_ended_by_the_operator)
{
    struct simulation *sim = *state;

    subscribe(sim, "");
    assert_int_equal(
        sim_order(sim, ORDER_END, request_next(sim->hub, 0)->id, NULL), 204);

    assert_int_equal(sim_n_calls(), 1);
    assert_string_equal(sim_parameter(sim_call(CALLBACK), "hub.mode"),
                        "denied");
    simulation_restart(sim);
    assert_int_equal(sim_n_calls(), 0);
}
