/* The order in which calls get their turn. */
#include "broker/calls/caller.h"
#include "tests/test.h"
#include "tests/unit/calls/called.h"

FIXTURE(called_setup, called_teardown);

/* Limits */

TEST(a_host_has_so_many_calls_at_once_and_no_more)
{
    static struct trial t[9];

    called_open(16, 3, LOOPBACK);
    for (unsigned i = 0; i < 8; i++)
        trial_init_at(&t[i], 1, "/wait");
    trial_init_at(&t[8], 2, "/ok");
    trials_start(t, 9);

    odd_await(&odd, &odd.n_waiting, 3);
    trials_await(&t[8], 1); /* another host need not wait */
    assert_counts(3, 5);
    odd_pass(&odd, 8);
    trials_await(t, 8);
    assert_int_equal(odd_count(&odd, &odd.most_waiting), 3);
    assert_counts(0, 0);
}

/* Letters of either case, and all that an address can look like (W-161), are
 * the same host. */
TEST(spellings_of_a_host_are_one)
{
    static const char *const addresses[] = {
        "127.0.0.1",  "2130706433", "0x7F000001", "127.1",
        "0177.0.0.1", "127.0.0.1:", "127.0.0.1:0"};
    static struct trial t[4], a[7];

    called_open(16, 1, LOOPBACK);
    for (unsigned i = 0; i < 7; i++)
        trial_init(&a[i], i < 5 ? "http://%s:%u/wait" : "http://%s%u/wait",
                   addresses[i], odd.port);
    trials_start(a, 7);
    odd_await(&odd, &odd.n_waiting, 1);
    assert_counts(1, 6);
    odd_pass(&odd, 7);
    trials_await(a, 7);

    for (unsigned i = 0; i < 4; i++)
        trial_init(&t[i], "http://%s:%u/wait",
                   i % 2 ? "LocalHost" : "localhost", odd.port);
    trials_start(t, 4);

    odd_await(&odd, &odd.n_waiting, 1);
    assert_counts(1, 3);
    odd_pass(&odd, 4);
    trials_await(t, 4);
    assert_int_equal(odd_count(&odd, &odd.most_waiting), 1);
}

TEST(there_are_so_many_calls_at_once_and_no_more)
{
    static struct trial t[10];

    called_open(4, 4, LOOPBACK);
    for (unsigned i = 0; i < 10; i++)
        trial_init_at(&t[i], i, "/wait");
    trials_start(t, 10);

    odd_await(&odd, &odd.n_waiting, 4);
    assert_counts(4, 6);
    odd_pass(&odd, 10);
    trials_await(t, 10);
    assert_int_equal(odd_count(&odd, &odd.most_waiting), 4);
}

/* W-092: however many hang, the others go on. */
TEST(suspects_never_take_more_than_half)
{
    static struct trial suspect[10], sound[20];

    called_open(4, 4, LOOPBACK);
    for (unsigned i = 0; i < 10; i++) {
        trial_init_at(&suspect[i], i, "/hang");
        suspect[i].call.is_suspect = true;
    }
    trials_start(suspect, 10);
    for (unsigned i = 0; i < 20; i++)
        trial_init_at(&sound[i], i, "/ok");
    trials_start(sound, 20);

    trials_await(sound, 20);
    assert_counts(2, 8);
    for (unsigned i = 0; i < 10; i++)
        trial_cancel(&suspect[i]);
    assert_counts(0, 0);
}

/* W-092, W-057: however many named URLs hang, and however many confirmed ones,
 * the others go on; with any limits. */
TEST(the_unproven_never_take_more_than_a_quarter)
{
    static const struct {
        unsigned limit, n_held;
    } rows[] = {{8, 2 + 4}, {4, 1 + 2}, {3, 1 + 1}, {2, 1}};
    static struct trial unproven[4][10], suspect[4][10], sound[4][20];

    for (unsigned r = 0; r < 4; r++) {
        called_open(rows[r].limit, rows[r].limit, LOOPBACK);
        for (unsigned i = 0; i < 10; i++) {
            trial_init_at(&unproven[r][i], i, "/hang");
            unproven[r][i].call.is_unproven = true;
            trial_init_at(&suspect[r][i], 10 + i, "/hang");
            suspect[r][i].call.is_suspect = true;
        }
        trials_start(unproven[r], 10);
        trials_start(suspect[r], 10);
        for (unsigned i = 0; i < 20; i++)
            trial_init_at(&sound[r][i], i, "/ok");
        trials_start(sound[r], 20);

        trials_await(sound[r], 20);
        assert_counts(rows[r].n_held, 20 - rows[r].n_held);
        called_close();
    }
}

/* W-092: nor at their own host. */
TEST(suspects_and_the_unproven_leave_room_at_their_host)
{
    static const struct {
        bool is_suspect, is_unproven;
        unsigned n_held;
    } rows[] = {{true, false, 2}, {false, true, 1}};
    static struct trial hanging[2][6], sound[2][6];

    for (unsigned r = 0; r < 2; r++) {
        called_open(100, 4, LOOPBACK);
        for (unsigned i = 0; i < 6; i++) {
            trial_init_at(&hanging[r][i], 1, "/hang");
            hanging[r][i].call.is_suspect = rows[r].is_suspect;
            hanging[r][i].call.is_unproven = rows[r].is_unproven;
            trial_init_at(&sound[r][i], 1, "/ok");
        }
        trials_start(hanging[r], 6);
        trials_start(sound[r], 6);

        trials_await(sound[r], 6);
        assert_counts(rows[r].n_held, 6 - rows[r].n_held);
        called_close();
    }
}

/* Suspects get their turn beside any number of others. */
TEST(suspects_are_not_forgotten)
{
    static struct trial t[9];

    called_open(1, 1, LOOPBACK);
    for (unsigned i = 0; i < 9; i++)
        trial_init_at(&t[i], i, "/ok");
    t[8].call.is_suspect = true;
    trials_start(t, 9);

    trials_await(t, 9);
    assert_true(t[8].place <= 2);
}

/* Order */

TEST(hosts_take_turns)
{
    static const struct {
        unsigned host, place;
    } all[] = {{1, 1}, {1, 4}, {1, 6}, {1, 7}, {2, 2}, {2, 5}, {3, 3}};
    static struct trial t[7];

    called_open(1, 1, LOOPBACK);
    for (unsigned i = 0; i < 7; i++)
        trial_init_at(&t[i], all[i].host, "/ok");
    trials_start(t, 7);

    trials_await(t, 7);
    for (unsigned i = 0; i < 7; i++)
        assert_int_equal(t[i].place, all[i].place);
}

static unsigned n_left;

static void
start_again(struct call *call)
{
    assert_int_equal(call->failure, CALL_ANSWERED);
    if (n_left-- > 0)
        caller_start(called.caller, call);
    else
        sem_post(&all_done);
}

TEST(done_may_start_the_same_call_again)
{
    struct trial t;

    called_open(1, 1, LOOPBACK);
    n_left = 99;
    trial_init_at(&t, 1, "/ok");
    t.call.done = start_again;
    trial_start(&t);
    called_wait(&all_done);

    assert_int_equal(odd_count(&odd, &odd.n_requests), 100);
    assert_int_equal(odd_count(&odd, &odd.n_connections), 1);
}

/* Preparing */

static enum call_turn
prepare_ready(struct call *call)
{
    static const char *const headers[] = {"X-Made: late", NULL};
    struct trial *t = list_entry(call, struct trial, call);

    t->n_prepared++;
    call->headers = headers;
    call->body = SLICE("made late");
    return CALL_READY;
}

/* Though the first has room for more. */
TEST(a_host_gives_one_call_then_the_next_host)
{
    static struct trial t[4];

    called_open(2, 2, LOOPBACK);
    for (unsigned i = 0; i < 4; i++) {
        trial_init_at(&t[i], i == 3 ? 2 : 1, "/ok");
        t[i].call.prepare = trial_prepare_later;
    }
    trials_start(t, 4);

    called_wait(&prepared);
    called_wait(&prepared);
    assert_counts(2, 2);
    assert_int_equal(t[0].n_prepared, 1);
    assert_int_equal(t[3].n_prepared, 1);
}

static enum call_turn
prepare_not(struct call *call)
{
    list_entry(call, struct trial, call)->n_prepared++;
    return CALL_NOT;
}

TEST(the_body_is_made_when_its_turn_has_come)
{
    static struct trial t[2];

    called_open(1, 1, LOOPBACK);
    trial_init_at(&t[0], 1, "/wait");
    trial_init_at(&t[1], 2, "/ok");
    t[1].call.method = CALL_POST;
    t[1].call.prepare = prepare_ready;
    trials_start(t, 2);
    odd_await(&odd, &odd.n_waiting, 1);
    assert_int_equal(t[1].n_prepared, 0);
    assert_counts(1, 1); /* on the thread that prepares: behind that look */

    odd_pass(&odd, 1);
    trials_await(t, 2);
    assert_int_equal(t[1].n_prepared, 1);
    assert_true(odd_was_sent(&odd, "\r\nX-Made: late\r\n"));
    assert_true(odd_was_sent(&odd, "\r\n\r\nmade late"));
}

TEST(what_is_made_later_keeps_its_turn)
{
    static struct trial t[3];

    called_open(1, 1, LOOPBACK);
    for (unsigned i = 0; i < 3; i++)
        trial_init_at(&t[i], i, "/ok");
    t[0].call.prepare = t[1].call.prepare = trial_prepare_later;
    trials_start(t, 3);
    called_wait(&prepared);
    assert_counts(1, 2);

    trial_go(&t[0], true);
    trials_await(t, 1);
    called_wait(&prepared);
    trial_go(&t[1], false); /* which has its turn now */
    trials_await(&t[2], 1);
    assert_int_equal(t[1].place, 0);
    assert_counts(0, 0);
}

TEST(what_is_not_to_be_called_gives_its_turn_back)
{
    static struct trial t[3];

    called_open(1, 1, LOOPBACK);
    for (unsigned i = 0; i < 3; i++)
        trial_init_at(&t[i], i, "/ok");
    t[0].call.prepare = t[1].call.prepare = prepare_not;
    trials_start(t, 3);

    trials_await(&t[2], 1);
    assert_int_equal(t[0].n_prepared, 1);
    assert_int_equal(t[0].place, 0);
    assert_int_equal(t[1].place, 0);
    assert_counts(0, 0);
}

/* It has been made for longer than the call may take. */
static void
go_late(void *trial)
{
    struct trial *t = trial;

    t->call.own.began_us -= 2 * t->call.timeout_us;
    caller_go(called.caller, &t->call, true);
}

/* How long we take to make a body is not held against who gets it. */
TEST(time_runs_from_when_it_can_be_sent)
{
    static struct trial t[1];

    called_open(1, 1, LOOPBACK);
    trial_init_at(&t[0], 1, "/ok");
    t[0].call.prepare = trial_prepare_later;
    trial_start(&t[0]);
    called_wait(&prepared);
    called_do(go_late, &t[0]);

    trials_await(t, 1);
    assert_int_equal(odd_count(&odd, &odd.n_requests), 1);
}

/* Many */

TEST(of_many_calls_each_is_done_once)
{
    enum { MANY = 300 };

    static const char *const paths[] = {"/ok",        "/empty", "/nothing",
                                        "/reset",     "/short", "/closed",
                                        "/status/500"};
    static struct trial t[MANY];
    int n = 0;

    called_open(32, 3, LOOPBACK);
    for (unsigned i = 0; i < MANY; i++) {
        trial_init_at(&t[i], 1 + i % 17, paths[i % 7]);
        t[i].call.is_suspect = i % 3 == 0;
        t[i].call.method = i % 2 ? CALL_POST : CALL_GET;
        t[i].call.body = SLICE("body");
    }
    trials_start(t, MANY);
    for (unsigned i = 0; i < MANY; i++) {
        bool is_broken = i % 7 == 2 || i % 7 == 3 || i % 7 == 4;

        trial_wait(&t[i]);
        assert_int_equal(t[i].call.failure,
                         is_broken ? CALL_BROKEN : CALL_ANSWERED);
    }
    assert_counts(0, 0);
    for (unsigned i = 0; i < MANY; i++) {
        sem_getvalue(&t[i].done, &n);
        assert_int_equal(n, 0);
    }
}

/* A caller that may not call keeps its calls. */
static atomic_bool may;

static bool
may_call(void *user)
{
    (void)user;
    return atomic_load(&may);
}

TEST(calls_wait_until_they_may_be_made)
{
    struct caller_options options = {
        .connections = 4, .host_connections = 4, .may_call = may_call};
    static struct trial t;

    atomic_store(&may, false);
    called_open_with(&options, LOOPBACK);
    trial_init_at(&t, 1, "/ok");
    trials_start(&t, 1);
    assert_counts(0, 1);
    caller_wake(called.caller);
    assert_counts(0, 1);

    atomic_store(&may, true);
    caller_wake(called.caller);
    trials_await(&t, 1);
    assert_int_equal(t.call.status, 200);
}
