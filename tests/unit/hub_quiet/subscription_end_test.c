/*
 * A subscription ends with its lease, its callback or its set; it does not end
 * by redelivery.
 */
#include <stdio.h>

#include "broker/sets/set_change.h"
#include "tests/test.h"
#include "tests/unit/hub_quiet/simulation.h"

#define CALLBACK "http://a.example/cb"
#define TOPIC    "http://example.org/sets/demo/notifications"

#define DAY_US 86400000000

FIXTURE(simulation_setup, simulation_teardown);

/* W-072, R-300 */
TEST(ends_with_its_lease)
{
    sim_active(CALLBACK, "&hub.lease_seconds=300");
    quiet_pass(299000000);
    assert_non_null(sim_find(CALLBACK));
    quiet_pass(2000000);
    assert_null(sim_find(CALLBACK));

    sim_post(4, 1);
    assert_int_equal(sim_n_calls(), 0);
    simulation_restart();
    assert_null(sim_find(CALLBACK));
}

/* W-072: a delivery that keeps failing ends with the lease, too: no retry is
 * left then. */
TEST(no_retry_outlives_the_lease)
{
    unsigned n_tries = 0;

    sim_active(CALLBACK, "&hub.lease_seconds=300");
    sim_post(4, 1);
    for (int s = 0; s < 302; s++) {
        if (sim_call(CALLBACK)) {
            sim_answer(sim_call(CALLBACK), 500, "");
            n_tries++;
        }
        quiet_pass(1000000);
    }
    assert_true(n_tries > 2);
    assert_null(sim_find(CALLBACK));
    quiet_pass(DAY_US);
    assert_int_equal(sim_n_calls(), 0);
}

/* W-072: the hub notices within an hour that the wall clock was set forward. A
 * clock that was set back does not end a lease early. */
TEST(a_lease_goes_by_the_wall_clock)
{
    const int64_t lease_us = 3 * 3600000000; /* the hub looks three times */
    struct subscription *s = sim_active(CALLBACK, "&hub.lease_seconds=10800");

    quiet_set_clock(s->lease_end_us - lease_us - DAY_US);
    quiet_pass(lease_us);
    assert_non_null(sim_find(CALLBACK));
    quiet_set_clock(s->lease_end_us);
    assert_true(subscription_is_over(s));
    quiet_pass(3600000000);
    assert_null(sim_find(CALLBACK));
}

/* W-072 */
TEST(a_lease_that_ended_while_there_was_no_broker_is_over)
{
    sim_active(CALLBACK, "&hub.lease_seconds=300");
    sets_post(&sim.sets, "demo", 4, 1);
    hub_close(sim.hub);
    quiet_set_clock(clock_now_us() + 301000000);
    simulation_reopen();

    assert_null(sim_find(CALLBACK));
    assert_int_equal(sim_n_calls(), 0);
}

/* W-086 */
TEST(gone_ends_it)
{
    sim_active(CALLBACK, "");
    sim_post(4, 1);
    sim_answer(sim_call(CALLBACK), 410, "");

    assert_null(sim_find(CALLBACK));
    assert_int_equal(sim_n_calls(), 0); /* and its callback gets no denial */
    simulation_restart();
    assert_null(sim_find(CALLBACK));
}

static bool is_removed;

static void
on_removed(struct set_change *change, void *user)
{
    (void)user;
    assert_int_equal(change->post.status, STATUS_OK);
    set_change_free(change);
    __atomic_store_n(&is_removed, true, __ATOMIC_RELEASE);
}

static void
remove_set(void)
{
    struct problem why = {""};

    __atomic_store_n(&is_removed, false, __ATOMIC_RELEASE);
    assert_int_equal(set_change_remove(sets_find(&sim.sets, "demo"), NULL,
                                       on_removed, NULL, &why),
                     STATUS_OK);
    log_wake(sim.sets.registry->log);
    AWAIT(__atomic_load_n(&is_removed, __ATOMIC_ACQUIRE));
}

/* W-042, W-044: a subscription that still waits is denied as well. */
TEST(a_removed_set_ends_what_belongs_to_it)
{
    sim_active(CALLBACK, "");
    sim_subscribe("http://b.example/", "");
    remove_set();
    hub_sets_changed(sim.hub);
    quiet_turn();

    assert_int_equal(subscriptions_count(sim.hub), 0);
    assert_true(list_is_empty(&sim.hub->topics));
    assert_int_equal(sim_n_calls(), 2);
    sim_assert_denied(CALLBACK);
    sim_assert_denied("http://b.example/");
    simulation_restart();
    assert_int_equal(sim_n_calls(), 0);
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
TEST(a_removed_set_ends_many_in_several_turns)
{
    sim_make_active(sim_active(CALLBACK, "")->topic, 1, HUB_ENDS_AT_ONCE + 100);
    remove_set();
    n_left = subscriptions_count(sim.hub);
    end_turn = quiet->options.on_turn;
    quiet->options.on_turn = count_ended;
    hub_sets_changed(sim.hub);
    quiet_turn();

    assert_int_equal(most_ended, HUB_ENDS_AT_ONCE);
    assert_int_equal(subscriptions_count(sim.hub), 0);
    assert_true(list_is_empty(&sim.hub->topics));
    simulation_restart();
    assert_int_equal(subscriptions_count(sim.hub), 0);
}

/* W-042, W-044: a set that was made again under the same name is another topic.
 * The hub denies at the start subscriptions that the end of the old set had
 * left. */
TEST(what_belonged_to_a_removed_set_is_not_the_new_ones)
{
    sim_active(CALLBACK, "");
    sim_subscribe("http://b.example/", "");
    remove_set();
    sets_post(&sim.sets, "demo", 1, 9);
    simulation_restart();

    assert_int_equal(subscriptions_count(sim.hub), 0);
    assert_int_equal(sim_n_calls(), 2);
    sim_assert_denied(CALLBACK);
    sim_assert_denied("http://b.example/");
    sim_answer(sim_call(CALLBACK), 200, "");
    sim_active(CALLBACK, "");
    simulation_restart(); /* and the rows are gone */
    assert_int_equal(subscriptions_count(sim.hub), 1);
}

/* A delivery that was cut does not come back, either. */
TEST(redelivery_goes_back_and_cuts_what_is_in_flight)
{
    struct subscription *s = sim_active(CALLBACK, "");

    sim_post(4, 1);
    assert_int_equal(sim_n_calls(), 1);
    assert_int_equal(sim_command(COMMAND_REDELIVER, s->id, "0"), 200);

    assert_int_equal(sim_n_calls(), 1);
    assert_int_equal(sim_call(CALLBACK)->method, CALL_POST);
    assert_int_equal(s->reader.after, 0);
    assert_int_equal(s->reader.upto, 4);
    assert_int_equal(sim_command(COMMAND_REDELIVER, s->id, "9"), 410);
    assert_int_equal(sim_command(COMMAND_REDELIVER, s->id, "x"), 400);
    assert_int_equal(sim_command(COMMAND_REDELIVER, s->id + 1, "0"), 404);
}
