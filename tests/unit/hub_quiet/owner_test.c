/*
 * owner_test.c - a subscription, and a request that waits, end with the token
 * that asked for them.
 */
#include <stdio.h>
#include <string.h>

#include "broker/hub/topic.h"
#include "tests/test.h"
#include "tests/unit/hub_quiet/simulation.h"

#define A "http://a.example/cb"
#define B "http://b.example/cb"
#define C "http://c.example/cb"

/* doc/security.md: what a token has opened ends with it, within so long. */
#define BOUND_US 2000000

#define REASON "the token of this subscription has ended"

/* The same, with the tokens of its data directory. */
static int
set_up(void **state)
{
    simulation_setup(state);
    assert_int_equal(tokens_open(&sim.tokens, sim.dir.path, NULL), 0);
    simulation_restart();
    return 0;
}

static void
ask_as(struct principal *p)
{
    principal_unref(sim.by);
    sim.by = p;
}

static int
tear_down(void **state)
{
    ask_as(NULL);
    simulation_teardown(state);
    tokens_close(sim.tokens);
    sim.tokens = NULL;
    return 0;
}

FIXTURE(set_up, tear_down);

static void
add(const char *name, const char *subscribe, int64_t ends_us)
{
    struct token_terms terms = {.ends_us = ends_us};
    char text[TOKEN_TEXT_SIZE];
    struct problem why = {""};

    snprintf(terms.name, sizeof(terms.name), "%s", name);
    snprintf(terms.rights.subscribe, PATTERNS_SIZE, "%s", subscribe);
    if (tokens_add(sim.tokens, NULL, &terms, text, &why))
        fail_msg("%s", why.text);
}

static void
revoke(const char *name)
{
    assert_int_equal(tokens_revoke(sim.tokens, NULL, slice_of(name), NULL),
                     STATUS_OK);
}

/* From now on the holder of that token asks; "": one without. */
static void
ask_as_holder(const char *name)
{
    ask_as(name[0] ? tokens_named(sim.tokens, slice_of(name), clock_now_us())
                   : tokens_anonymous(sim.tokens, clock_now_us()));
    assert_non_null(sim.by);
}

static void
assert_denied(const char *callback)
{
    struct call *call = sim_call(callback);

    assert_non_null(call);
    assert_string_equal(sim_parameter(call, "hub.mode"), "denied");
    assert_string_equal(sim_parameter(call, "hub.reason"), REASON);
    assert_string_equal(sim_parameter(call, "hub.topic"),
                        "http://example.org/sets/demo/notifications");
    sim_answer(call, 200, "");
    assert_null(sim_find(callback));
}

/* The next look of the hub is over. */
static void
look(void)
{
    quiet_pass(HUB_TICK_US);
}

TEST(ends_with_its_token)
{
    add("press", "demo", INT64_MAX);
    add("wire", "*", INT64_MAX);
    ask_as_holder("press");
    sim_active(A, "");
    sim_subscribe(B, "");
    ask_as_holder("wire");
    sim_active(C, "");
    sim_command(COMMAND_SHOW, sim_find(A)->id, "");
    assert_non_null(strstr(sim_text, "\"owner\":\"press\""));
    sim_command(COMMAND_LIST, 0, "");
    assert_non_null(strstr(sim_text, "\"owner\":\"wire\""));

    revoke("press");
    look();
    assert_denied(A);
    assert_denied(B);
    assert_int_equal(sim_n_calls(), 0);
    assert_non_null(sim_find(C));
    simulation_restart();
    assert_int_equal(subscriptions_count(sim.hub), 1);
    assert_int_equal(sim_n_calls(), 0);
}

/* Whether the token is revoked or expires just after a look of the hub. */
TEST(ends_within_two_seconds)
{
    add("press", "demo", INT64_MAX);
    ask_as_holder("press");
    sim_active(A, "");
    look();
    revoke("press");
    quiet_pass(BOUND_US);
    assert_denied(A);

    add("wire", "demo", clock_now_us() + HUB_TICK_US + 1);
    ask_as_holder("wire");
    sim_active(B, "");
    look();
    assert_non_null(sim_find(B));
    quiet_pass(BOUND_US);
    assert_denied(B);
}

/* Nothing else goes to the callbacks: no delivery, no verification. */
TEST(ends_at_the_start_if_its_token_ended_before)
{
    add("press", "demo", INT64_MAX);
    ask_as_holder("press");
    sim_active(A, "");
    sim_subscribe(B, "");
    sets_post(&sim.sets, "demo", 4, 1);
    revoke("press");
    simulation_crash();

    assert_int_equal(sim_n_calls(), 2);
    assert_denied(A);
    assert_denied(B);
    simulation_restart();
    assert_int_equal(sim_n_calls(), 0);
}

TEST(ends_when_its_token_expires)
{
    add("press", "demo", clock_now_us() + 10 * HUB_TICK_US);
    ask_as_holder("press");
    sim_active(A, "");
    for (int i = 0; i < 9; i++)
        look();
    assert_non_null(sim_find(A));
    look();
    look();
    assert_denied(A);
}

/* The name counts, and its right: a new secret is the same holder. */
TEST(goes_on_while_a_token_of_that_name_has_the_right)
{
    char text[TOKEN_TEXT_SIZE];

    add("press", "demo", INT64_MAX);
    ask_as_holder("press");
    sim_active(A, "");
    assert_int_equal(
        tokens_rotate(sim.tokens, NULL, SLICE("press"), 0, text, NULL),
        STATUS_OK);
    look();
    revoke("press");
    add("press", "d*", INT64_MAX);
    look();
    simulation_crash();
    assert_non_null(sim_find(A));
    assert_int_equal(sim_n_calls(), 0);

    revoke("press");
    add("press", "other", INT64_MAX);
    look();
    assert_denied(A);
}

/* A renewal by another holder moves the subscription to that one. */
TEST(belongs_to_the_last_who_was_verified)
{
    add("press", "demo", INT64_MAX);
    add("wire", "demo", INT64_MAX);
    ask_as_holder("press");
    sim_active(A, "");
    ask_as_holder("wire");
    sim_active(A, "");
    revoke("press");
    look();
    assert_non_null(sim_find(A));
    revoke("wire");
    look();
    assert_denied(A);
}

/* The first token ends openness. Clients without one keep the topics that
 * everyone may subscribe to. */
TEST(subscriptions_of_an_open_broker_are_those_of_everyone)
{
    ask_as_holder("");
    sim_active(A, "");
    add("everyone", "d*", INT64_MAX);
    look();
    assert_non_null(sim_find(A));
    ask_as_holder("");
    sim_active(B, "");
    revoke("everyone");
    look();
    assert_denied(A);
    assert_denied(B);
}

TEST(the_first_token_ends_subscriptions_of_an_open_broker)
{
    ask_as_holder("");
    sim_active(A, "");
    sim_subscribe(B, "");
    simulation_restart();
    sim_confirm(B);
    look();
    assert_int_equal(subscriptions_count(sim.hub), 2);
    add("root", "*", INT64_MAX);
    look();
    assert_denied(A);
    assert_denied(B);
}

/* Principals that no table knows: their end is kept with the subscription. */
TEST(owners_without_a_token_end_when_it_is_time)
{
    static const struct rights rights = {.subscribe = "*"};

    add("root", "*", INT64_MAX);
    ask_as(tokens_operator(sim.tokens));
    sim_active(A, "");
    ask_as(principal_new(SLICE("jwt:ada"), &rights,
                         clock_now_us() + 10 * HUB_TICK_US));
    sim_active(B, "");
    sim_subscribe(C, "");
    simulation_crash();
    sim_confirm(C);
    for (int i = 0; i < 9; i++)
        look();
    assert_int_equal(subscriptions_count(sim.hub), 3);
    look();
    look();
    assert_denied(B);
    assert_denied(C);
    assert_non_null(sim_find(A));
}

/* The key that signed it was withdrawn, for instance. */
TEST(owners_without_a_token_may_end_earlier)
{
    static const struct rights rights = {.subscribe = "*"};

    add("root", "*", INT64_MAX);
    ask_as(principal_new(SLICE("jwt:ada"), &rights,
                         clock_now_us() + 10 * HUB_TICK_US));
    sim_active(A, "");
    sim_subscribe(B, "");
    principal_end(sim.by, 0);
    look();
    assert_denied(A);
    assert_denied(B);
    simulation_restart();
    assert_int_equal(subscriptions_count(sim.hub), 0);
}

static void (*end_turn)(struct caller *caller, void *user);
static size_t n_left, most_ended;

static void
count_ended(struct caller *caller, void *user)
{
    size_t n = subscriptions_count(sim.hub);

    if (n_left - n > most_ended)
        most_ended = n_left - n;
    n_left = n;
    end_turn(caller, user);
}

/* However many there are, no turn takes long. */
TEST(many_end_in_several_turns)
{
    sim_make_active(sim_active(A, "")->topic, 1, HUB_ENDS_AT_ONCE + 100);
    add("root", "*", INT64_MAX);
    n_left = subscriptions_count(sim.hub);
    end_turn = quiet->options.on_turn;
    quiet->options.on_turn = count_ended;
    look();
    quiet_turn();
    assert_int_equal(n_left, 0);
    assert_int_equal(most_ended, HUB_ENDS_AT_ONCE);
}
