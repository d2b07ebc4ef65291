/* Cancelled calls: while they wait, are prepared, are under way, or are done
 * already. */
#include "broker/calls/caller_state.h"
#include "tests/test.h"
#include "tests/unit/calls/called.h"

static enum call_turn
prepare_cancelled(struct call *call)
{
    struct trial *t = list_entry(call, struct trial, call);

    t->n_prepared++;
    caller_cancel(called.caller, call);
    memset(call, 0xee, sizeof(*call)); /* it is the owner's again */
    sem_post(&all_done);
    return CALL_READY;
}

FIXTURE(called_setup, called_teardown);

TEST(a_call_is_given_up_in_its_prepare)
{
    static struct trial t[2];

    called_open(1, 1, LOOPBACK);
    trial_init_at(&t[0], 1, "/ok");
    trial_init_at(&t[1], 1, "/ok");
    t[0].call.prepare = prepare_cancelled;
    trials_start(t, 2);

    called_wait(&all_done);
    trials_await(&t[1], 1);
    assert_int_equal(t[0].place, 0);
    assert_int_equal(odd_count(&odd, &odd.n_requests), 1);
}

static void
start_and_cancel_now(void *user)
{
    struct trial *t = user;

    caller_start(called.caller, &t->call);
    caller_cancel(called.caller, &t->call);
    memset(&t->call, 0xee, sizeof(t->call));
}

TEST(a_call_is_given_up_while_it_waits_or_fails)
{
    struct trial t, other;

    called_open(1, 1, LOOPBACK);
    trial_init_at(&t, 1, "/ok");
    called_do(start_and_cancel_now, &t);
    trial_init(&t, "no URL");
    called_do(start_and_cancel_now, &t);

    trial_init_at(&other, 1, "/ok");
    trial_run(&other);
    assert_int_equal(t.place, 0);
    assert_int_equal(odd_count(&odd, &odd.n_requests), 1);
    assert_counts(0, 0);
}

/* Cut at the end of the turn in which it began to connect, when the loop is
 * about to look at its descriptor. */
static struct trial *victim;

static void
cut_at_once(struct caller *caller, void *user)
{
    unsigned under_way, waiting;

    (void)user;
    called_count(caller, &under_way, &waiting);
    if (!victim || under_way == 0)
        return;
    caller_cancel(caller, &victim->call);
    memset(&victim->call, 0xee, sizeof(victim->call));
    victim = NULL;
    sem_post(&all_done);
}

/* Cuts the victim once the kept connection of its call was closed, and the
 * caller opens another one. */
static void
cut_when_it_reconnects(struct caller *caller, void *user)
{
    const struct call_connection *p = victim ? victim->call.own.handle : NULL;

    if (p && p->connecting)
        cut_at_once(caller, user);
}

static void
start_victim(void *user)
{
    struct trial *t = user;

    victim = t;
    caller_start(called.caller, &t->call);
}

/* The first connection was kept, and its end is no end of the call. */
TEST(a_call_is_given_up_while_it_connects_again)
{
    struct caller_options options = {.connections = 4,
                                     .host_connections = 4,
                                     .on_turn = cut_when_it_reconnects};
    struct trial t, other;

    called_open_with(&options, LOOPBACK);
    for (unsigned i = 0; i < 3; i++) {
        trial_init_at(&other, 1, "/ok");
        trial_run(&other);
        assert_int_equal(other.call.failure, CALL_ANSWERED);
        trial_init_at(&t, 1, "/nothing");
        called_do(start_victim, &t);
        called_wait(&all_done);
        assert_int_equal(t.place, 0);
    }
}

TEST(a_call_is_given_up_while_it_connects)
{
    struct caller_options options = {
        .connections = 4, .host_connections = 4, .on_turn = cut_at_once};
    struct trial t, other;

    called_open_with(&options, LOOPBACK);
    for (unsigned i = 0; i < 20; i++) {
        trial_init_at(&t, 1, "/ok");
        called_do(start_victim, &t);
        called_wait(&all_done);
        assert_int_equal(t.place, 0);

        trial_init_at(&other, 2 + i % 3, "/ok");
        trial_run(&other);
        assert_int_equal(other.call.status, 200);
    }
    assert_counts(0, 0);
}

TEST(a_call_is_given_up_before_its_body_is_there)
{
    struct trial t, other;

    called_open(1, 1, LOOPBACK);
    trial_init_at(&t, 1, "/ok");
    t.call.prepare = trial_prepare_later;
    trial_start(&t);
    trial_init_at(&other, 2, "/ok");
    trial_start(&other);
    called_wait(&prepared);
    trial_cancel(&t);
    trial_go(&t, true); /* too late, and harmless */

    trials_await(&other, 1);
    assert_int_equal(t.place, 0);
}

TEST(a_call_is_given_up_under_way)
{
    static const char *const paths[] = {"/hang", "/hang-in-body",
                                        "/trickling-headers"};
    struct trial t, other;

    called_open(1, 1, LOOPBACK);
    for (unsigned i = 0; i < 3; i++) {
        trial_init_at(&t, 1, paths[i]);
        trial_start(&t);
        odd_await(&odd, &odd.n_requests, 2 * i + 1);
        trial_cancel(&t);
        odd_await(&odd, &odd.n_left, i + 1); /* its connection is closed */
        memset(&t.call, 0xee, sizeof(t.call));

        trial_init_at(&other, 2, "/ok");
        trial_run(&other);
        assert_int_equal(other.call.status, 200);
        assert_int_equal(t.place, 0);
    }
    assert_counts(0, 0);
}

TEST(a_call_that_is_done_is_given_up_harmlessly)
{
    struct trial t;

    called_open(1, 1, LOOPBACK);
    trial_init_at(&t, 1, "/ok");
    trial_cancel(&t);
    trial_run(&t);
    trial_cancel(&t);
    trial_cancel(&t);
    trial_run(&t);
    assert_int_equal(t.call.status, 200);
    assert_counts(0, 0);
}

/* A call that is done cancels the next one. Even if the next one is done as
 * well, its done() is never called. */
static struct trial mutual[2];

static void
cancel_other(struct call *call)
{
    struct trial *t = list_entry(call, struct trial, call);

    t->place = 1;
    caller_cancel(called.caller, &mutual[t == mutual].call);
    sem_post(&all_done);
}

TEST(of_two_that_give_each_other_up_one_is_done)
{
    called_open(2, 2, LOOPBACK);
    for (unsigned round = 0; round < 200; round++) {
        trial_init_at(&mutual[0], 1, "/ok");
        trial_init_at(&mutual[1], 1, "/ok");
        mutual[0].call.done = mutual[1].call.done = cancel_other;
        trials_start(mutual, 2);
        called_wait(&all_done);
        assert_counts(0, 0);
        assert_int_equal(mutual[0].place + mutual[1].place, 1);
    }
}
