/*
 * A subscription, from its confirmation on, and over a restart. Its end:
 * subscription_end_test.c.
 */
#include <stdio.h>
#include <string.h>

#include "broker/hub/hub_commands.h"
#include "tests/test.h"
#include "tests/unit/hub_quiet/simulation.h"

#define CALLBACK "http://a.example/cb"

#define DAY_US 86400000000

static void
assert_secret(const struct subscription *s, const char *secret)
{
    assert_int_equal(s->terms.secret_size, strlen(secret));
    assert_memory_equal(s->terms.secret, secret, strlen(secret));
}

/* The POST that is under way; its headers, joined. */
static struct call *
delivery(const char *callback, char headers[4096])
{
    struct call *call = sim_call(callback);

    assert_non_null(call);
    assert_int_equal(call->method, CALL_POST);
    headers[0] = '\0';
    for (size_t i = 0; call->headers && call->headers[i]; i++) {
        strcat(headers, call->headers[i]);
        strcat(headers, "\n");
    }
    return call;
}

FIXTURE(simulation_setup, simulation_teardown);

/* It begins where the topic was when the hub accepted the request, so that it
 * misses nothing between request and verification. */
TEST(begins_at_the_head_of_its_request)
{
    sim_subscribe(CALLBACK, "");
    sets_post(&sim.sets, "demo", 4, 2);
    sim_confirm(CALLBACK);

    assert_int_equal(sim_find(CALLBACK)->reader.after, 3);
}

TEST(begins_where_it_wants_to)
{
    assert_int_equal(sim_active(CALLBACK, "&after=1")->reader.after, 1);
    assert_int_equal(sim_ask(CALLBACK, "&after=4"), 410);
    assert_int_equal(sim_ask(CALLBACK, "&after=x"), 400);
}

/* W-034, W-026 */
TEST(the_key_is_the_pair_of_topic_and_callback)
{
    struct subscription *s = sim_active(CALLBACK "?x=1", "");

    sim_active(CALLBACK "?x=2", "");
    assert_int_equal(subscriptions_count(sim.hub), 2);

    sim_subscribe("HTTP://A.EXAMPLE:80/c%62?x=1", "");
    sim_confirm("HTTP://A.EXAMPLE:80/c");
    assert_int_equal(subscriptions_count(sim.hub), 2);
    assert_ptr_equal(sim_find(CALLBACK "?x=1"), s);

    sets_post(&sim.sets, "other", 1, 1);
    assert_int_equal(sim_form("hub.mode=subscribe&hub.callback=" CALLBACK
                              "?x=1&hub.topic="
                              "http://example.org/sets/other/notifications"),
                     202);
    sim_confirm(CALLBACK);
    assert_int_equal(subscriptions_count(sim.hub), 3);
}

/* W-035, W-036, W-037, W-103 */
TEST(a_renewal_replaces_all_terms_when_it_is_confirmed)
{
    struct subscription *s =
        sim_active(CALLBACK, "&hub.secret=one&change=deleted&interval=2");
    uint64_t id = s->id;

    sim_subscribe(CALLBACK, "&hub.secret=other&hub.lease_seconds=500");
    assert_secret(s, "one");
    sim_confirm(CALLBACK);
    assert_ptr_equal(sim_find(CALLBACK), s);
    assert_int_equal(s->id, id);
    assert_secret(s, "other");
    assert_null(s->terms.filter);
    assert_null(s->reader.filter);
    assert_int_equal(s->terms.interval_us, 0);
    assert_int_equal(s->lease_end_us, clock_now_us() + 500000000);
    assert_int_equal(s->reader.after, 3);

    sim_subscribe(CALLBACK, ""); /* no secret is new state, too */
    sim_confirm(CALLBACK);
    assert_secret(s, "");
    assert_null(s->signer);
    simulation_restart();
    assert_secret(sim_find(CALLBACK), "");
}

/* W-036, R-302 */
TEST(a_renewal_that_fails_leaves_secret_and_lease)
{
    struct subscription *s = sim_active(CALLBACK, "&hub.secret=one");
    int64_t end_us = s->lease_end_us;

    quiet_pass(DAY_US);
    sim_subscribe(CALLBACK, "&hub.secret=other&hub.lease_seconds=500");
    sim_answer(sim_call(CALLBACK), 404, "");

    assert_ptr_equal(sim_find(CALLBACK), s);
    assert_secret(s, "one");
    assert_int_equal(s->lease_end_us, end_us);
    simulation_restart();
    assert_secret(sim_find(CALLBACK), "one");
    assert_int_equal(sim_find(CALLBACK)->lease_end_us, end_us);
}

/* W-035: a delivery in flight arrives, and the next has the new secret (W-103).
 */
TEST(a_renewal_does_not_interrupt_a_delivery)
{
    struct subscription *s = sim_active(CALLBACK, "");
    char headers[4096];
    struct call *call;

    sim_post(4, 1);
    call = delivery(CALLBACK, headers);
    assert_null(strstr(headers, "X-Hub-Signature"));
    assert_int_equal(sim_ask(CALLBACK, "&hub.secret=one"), 202);
    sim_confirm(CALLBACK "?hub.mode");
    assert_ptr_equal(sim_call(CALLBACK), call);
    sim_answer(call, 200, "");
    assert_int_equal(s->reader.after, 4);
    assert_int_equal(s->history.n_deliveries, 1);

    sim_post(5, 1);
    delivery(CALLBACK, headers);
    assert_non_null(strstr(headers, "X-Hub-Signature: sha256="));
}

TEST(a_renewal_may_go_to_another_place)
{
    struct subscription *s = sim_active(CALLBACK, "");
    char headers[4096];

    sim_subscribe(CALLBACK, "&after=1");
    sim_confirm(CALLBACK);

    assert_int_equal(s->reader.after, 1);
    delivery(CALLBACK, headers);
    assert_int_equal(s->reader.upto, 3);
}

/* W-034: a hub in a set's settings is nobody's subscription: not its lease, nor
 * its secret, nor its end. */
TEST(a_hub_of_a_set_is_another_subscription_than_its_callback)
{
    struct subscription *s =
        sim_active(CALLBACK, "&hub.secret=s&hub.lease_seconds=300");
    struct topic *topic = s->topic;
    struct hub_record record = {
        .callback = SLICE(CALLBACK),
        .kind = SUBSCRIPTION_HUB,
        .terms = {.lease_us = INT64_MAX},
        .lease_end_us = INT64_MAX,
        .after = 3,
    };
    int64_t end_us = s->lease_end_us;
    struct problem why;
    struct subscription *hub;

    assert_int_equal(subscription_confirm(topic, &record, &why), STATUS_OK);
    hub = subscription_find(topic, SUBSCRIPTION_HUB, SLICE(CALLBACK));
    assert_non_null(hub);
    assert_ptr_not_equal(hub, s);
    assert_int_equal(s->lease_end_us, end_us);
    assert_int_equal(s->terms.secret_size, 1);

    sim_subscribe(CALLBACK, "&hub.lease_seconds=300");
    sim_confirm(CALLBACK);
    assert_true(hub->lease_end_us == INT64_MAX);
    quiet_pass(301000000);
    assert_null(
        subscription_find(topic, SUBSCRIPTION_CALLBACK, SLICE(CALLBACK)));
    assert_ptr_equal(
        subscription_find(topic, SUBSCRIPTION_HUB, SLICE(CALLBACK)), hub);
}

/* W-074, R-149 */
TEST(everything_is_there_after_a_restart)
{
    struct subscription *s;
    struct terms terms;
    uint64_t id;
    int64_t end_us, created_us;

    sim_subscribe(CALLBACK "?q=%41",
                  "&hub.secret=s%20e&change=deleted&interval=1.5&after=2");
    sim_confirm(CALLBACK "?q=A");
    s = sim_find(CALLBACK "?q=A");
    assert_non_null(s);
    terms = s->terms;
    id = s->id;
    end_us = s->lease_end_us;
    created_us = s->created_us;
    simulation_restart();

    s = sim_by_id(id);
    assert_non_null(s);
    assert_string_equal(s->callback, CALLBACK "?q=A");
    assert_int_equal(s->terms.secret_size, terms.secret_size);
    assert_memory_equal(s->terms.secret, terms.secret, terms.secret_size);
    assert_string_equal(s->terms.filter, "change=deleted");
    assert_int_equal(s->terms.interval_us, 1500000);
    assert_int_equal(s->lease_end_us, end_us);
    assert_int_equal(s->created_us, created_us);
    assert_int_equal(s->reader.after, 2);
    assert_non_null(s->signer);
    assert_non_null(s->reader.filter);
    assert_ptr_equal(sim_find(CALLBACK "?q=A"),
                     subscription_find(s->topic, SUBSCRIPTION_CALLBACK,
                                       slice_of(s->callback)));

    /* Ids are never given twice. */
    assert_true(sim_active("http://b.example/", "")->id > id);
}

/* W-091: the hub repeats the range of the last try with the same bytes. */
TEST(a_delivery_in_flight_is_repeated_after_a_crash)
{
    char first[4096], second[4096];

    sim_active(CALLBACK, "");
    sim_post(4, 2);
    delivery(CALLBACK, first);
    sets_post(&sim.sets, "demo", 6, 1); /* which does not go with it */
    simulation_restart();

    delivery(CALLBACK, second);
    assert_string_equal(first, second);
    assert_int_equal(sim_find(CALLBACK)->reader.upto, 5);
}

/* The cursor is kept once a second. */
TEST(a_cursor_is_kept_within_a_second)
{
    sim_active(CALLBACK, "");
    sim_post(4, 1);
    sim_answer(sim_call(CALLBACK), 200, "");
    quiet_pass(HUB_TICK_US);
    simulation_crash();

    assert_int_equal(sim_find(CALLBACK)->reader.after, 4);
    assert_int_equal(sim_n_calls(), 0);
}

TEST(too_many_subscriptions_are_refused)
{
    clients_limit_all(&sim.hub->registry->clients, CLIENT_SUBSCRIPTIONS, 2);
    clients_limit_each(&sim.hub->registry->clients, CLIENT_SUBSCRIPTIONS,
                       CLIENT_NO_LIMIT);
    sim_active("http://a.example/", "");
    sim_subscribe("http://b.example/", "");
    sim_subscribe("http://c.example/", "");
    sim_confirm("http://b.example/");
    sim_confirm("http://c.example/"); /* one too many by now: denied */
    assert_int_equal(subscriptions_count(sim.hub), 2);
    sim_assert_denied("http://c.example/");

    assert_int_equal(sim_ask("http://d.example/", ""), 503);
    sim_active("http://a.example/", ""); /* a renewal is none */
}

/* However its port is given, a host is one; it has a place again when one of
 * its subscriptions has ended. */
TEST(a_host_has_its_share_of_subscriptions)
{
    sim.sets.config.hub_host_subscriptions = 2;
    sim.sets.config.client_share = 100;
    sim_active("http://a.example/1", "");
    sim_subscribe("http://a.example:8080/2", "");
    sim_subscribe("http://a.example/3", "");
    sim_confirm("http://a.example:8080/2");
    sim_confirm("http://a.example/3"); /* one too many by now: denied */
    assert_int_equal(subscriptions_count(sim.hub), 2);
    sim_assert_denied("http://a.example/3");

    assert_int_equal(sim_ask("http://A.example/4", ""), 429);
    sim_active("http://a.example/1", ""); /* a renewal is none */
    sim_active("http://b.example/", "");
    subscription_end(sim_find("http://a.example/1"), END_DELETED);
    sim_active("http://a.example/4", "");
    simulation_restart();
    assert_int_equal(sim_ask("http://a.example/5", ""), 429);
}

/* Makes a subscription of a client, or its renewal, active. Returns the status
 * of the request. */
static unsigned
subscribe_from(const char *from, const char *callback)
{
    struct command *command = sim_request(callback, "");
    unsigned http;

    snprintf(command->from, sizeof(command->from), "%s", from);
    quiet_turn();
    http = sim_outcome(command);
    if (http == 202)
        sim_confirm(callback);
    return http;
}

/* One owner takes its share, of all and of those at a host; others have the
 * rest, also after a restart, and everything when it has ended. */
TEST(an_owner_has_its_share_of_subscriptions)
{
    static const struct {
        const char *callbacks; /* a %u for the how-manieth */
        const char *why;
        uint64_t of_all, of_host;
        unsigned share, others; /* the others ask for 3 each */
    } rows[] = {
        {"http://h%u.example/", "as one client may have: 5", 20, 20, 5, 15},
        {"http://a.example/%u", "as one client may have: 21", 1000, 24, 21, 2},
    };

    char url[60];
    unsigned i;

    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        sim.sets.config.hub_subscriptions = rows[r].of_all;
        sim.sets.config.hub_host_subscriptions = rows[r].of_host;
        simulation_restart();
        for (i = 0; i < rows[r].share; i++) {
            snprintf(url, sizeof(url), rows[r].callbacks, i);
            assert_int_equal(subscribe_from("192.0.2.1", url), 202);
        }
        for (int again = 0; again < 2; again++) {
            snprintf(url, sizeof(url), rows[r].callbacks, 99);
            assert_int_equal(subscribe_from("192.0.2.1", url), 429);
            assert_non_null(strstr(sim_why.text, rows[r].why));
            simulation_restart();
        }
        for (i = 0; i < rows[r].others; i++) {
            char from[20];

            snprintf(from, sizeof(from), "192.0.2.%u", 2 + i / 3);
            snprintf(url, sizeof(url), rows[r].callbacks, 30 + i);
            assert_int_equal(subscribe_from(from, url), 202);
        }
        while (sim_next(0))
            subscription_end(sim_next(0), END_UNSUBSCRIBED);
        snprintf(url, sizeof(url), rows[r].callbacks, 99);
        assert_int_equal(subscribe_from("192.0.2.1", url), 202);
        subscription_end(sim_find(url), END_UNSUBSCRIBED);
        quiet_turn();
    }
}

/* A renewal by another owner moves the place, if that has room for it. */
TEST(a_renewal_by_another_owner_needs_its_place)
{
    char url[60];

    sim.sets.config.hub_subscriptions = 20;
    simulation_restart();
    for (unsigned i = 0; i < 10; i++) {
        snprintf(url, sizeof(url), "http://h%u.example/", i);
        assert_int_equal(subscribe_from(i < 5 ? "192.0.2.1" : "192.0.2.2", url),
                         202);
    }
    assert_int_equal(subscribe_from("192.0.2.2", "http://h0.example/"), 202);
    sim_assert_denied("http://h0.example/");
    sim_answer(sim_call("http://h0.example/"), 200, "");
    assert_string_equal(sim_find("http://h0.example/")->terms.owner.requester,
                        "192.0.2.1");
    assert_int_equal(subscribe_from("192.0.2.3", "http://h0.example/"), 202);
    assert_int_equal(subscribe_from("192.0.2.1", "http://another.example/"),
                     202);
    assert_int_equal(subscriptions_count(sim.hub), 11);
}

/* The owner of a token has its place under its name, wherever it asks. */
TEST(calls_are_made_on_behalf_of_the_owner)
{
    static const struct rights rights = {.subscribe = "*"};
    struct clients *clients = &sim.hub->registry->clients;
    struct client *press = client_of_owner(clients, SLICE("press"));

    sim.by = principal_new(SLICE("press"), &rights, INT64_MAX);
    for (int again = 0; again < 2; again++) {
        sim_subscribe(CALLBACK, "");
        assert_ptr_equal(sim_call(CALLBACK)->owner, press);
        assert_int_equal(client_held(press, CLIENT_VERIFICATIONS), 1);
        sim_confirm(CALLBACK);
        assert_int_equal(client_held(press, CLIENT_VERIFICATIONS), 0);
        assert_int_equal(client_held(press, CLIENT_SUBSCRIPTIONS), 1);
        sim_post(4, 1);
        assert_ptr_equal(sim_call(CALLBACK)->owner, press);
        simulation_restart();
        assert_ptr_equal(sim_call(CALLBACK)->owner, press);
        sim_answer(sim_call(CALLBACK), 200, "");
        subscription_end(sim_find(CALLBACK), END_DELETED);
        quiet_turn();
        assert_ptr_equal(sim_call(CALLBACK)->owner, press);
        assert_int_equal(client_held(press, CLIENT_DENIALS), 1);
        sim_answer(sim_call(CALLBACK), 200, "");
        assert_int_equal(client_held(press, CLIENT_DENIALS), 0);
        assert_int_equal(client_held(press, CLIENT_SUBSCRIPTIONS), 0);
    }
    client_unref(press);
    principal_unref(sim.by);
    sim.by = NULL;
}

/* W-036: the first request for a callback is unproven; a renewal is judged by
 * what its deliveries came to. */
TEST(a_renewal_takes_the_turn_of_its_deliveries)
{
    sim_subscribe(CALLBACK, "");
    assert_true(sim_call(CALLBACK)->is_unproven);
    sim_confirm(CALLBACK);
    sim_subscribe(CALLBACK, "");
    assert_false(sim_call(CALLBACK)->is_unproven);
    assert_false(sim_call(CALLBACK)->is_suspect);
    assert_true(sim_call(CALLBACK)->is_once);
    sim_confirm(CALLBACK);

    sim_post(4, 1);
    sim_fail(sim_call(CALLBACK), CALL_TIMEOUT);
    sim_subscribe(CALLBACK, "");
    assert_false(sim_call(CALLBACK)->is_unproven);
    assert_true(sim_call(CALLBACK)->is_suspect);
}

/* */
TEST(a_simple_subscription_is_verified_unless_it_is_trusted)
{
    static const char *const callbacks[] = {"http://a.example/",
                                            "http://b.example/"};

    for (int is_trusted = 0; is_trusted < 2; is_trusted++) {
        sim.sets.config.hub_trust_simple = is_trusted;
        assert_int_equal(sim_ask_simply(callbacks[is_trusted]), 202);
        if (!is_trusted)
            sim_confirm(callbacks[is_trusted]);
        assert_int_equal(sim_n_calls(), 0);
        assert_true(sim_find(callbacks[is_trusted])->terms.is_simple);
    }
    simulation_restart();
    assert_true(sim_find("http://b.example/")->terms.is_simple);
    assert_int_equal(sim_n_calls(), 0);
}

/* Found by id and by pair, with holes, page by page, after a restart. */
TEST(many_are_found_by_id_and_by_pair)
{
    enum { MANY = 3 * REPORT_PAGE + 30, LEFT = MANY / 3 };

    struct topic *topic = sim_active("http://h0.example/cb", "")->topic;
    unsigned n = 0, n_pages = 0;
    uint64_t id = 0;
    char callback[60];
    const char *next;

    sim_make_active(topic, 1, MANY);
    for (unsigned i = 0; i < MANY; i++) {
        struct subscription *s = sim_next(id);

        id = s->id;
        if (i % 3 != 0)
            subscription_end(s, END_UNSUBSCRIBED);
    }
    quiet_turn();
    simulation_restart();
    assert_int_equal(subscriptions_count(sim.hub), LEFT);
    topic = sim_next(0)->topic;
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(callback, sizeof(callback), "HTTP://H%u.example:80/cb", i);
        assert_true(!subscription_find(topic, SUBSCRIPTION_CALLBACK,
                                       slice_of(callback)) == (i % 3 != 0));
    }

    for (id = 0;; id = strtoull(next + 8, NULL, 10)) {
        assert_int_equal(sim_command(COMMAND_LIST, id, NULL), 200);
        n_pages++;
        for (const char *at = sim_text; (at = strstr(at, "{\"id\":")); at++)
            n++;
        next = strstr(sim_text, ",\"next\":");
        if (!next)
            break;
        /* The last one of a page may end before the next page is asked for. */
        subscription_end(sim_by_id(strtoull(next + 8, NULL, 10)),
                         END_UNSUBSCRIBED);
    }
    assert_int_equal(n, LEFT);
    assert_int_equal(n_pages, 2);
}
