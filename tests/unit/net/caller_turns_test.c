/* Whose turn it is to be called, and calls that are given up. */
#include "broker/net/caller.h"
#include "tests/unit/net/called.h"
#include "tests/unit/net/odd.h"

#define LOOPBACK "127.0.0.0/8"

static struct odd odd;
static sem_t all_done, prepared;

static int
setup(void **state)
{
    (void)state;
    odd_open(&odd);
    sem_init(&all_done, 0, 0);
    sem_init(&prepared, 0, 0);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    if (called.caller)
        called_close();
    odd_close(&odd);
    return 0;
}

/* A call to one of many hosts, which are all the same server. */
static void
init(struct trial *t, unsigned host, const char *path)
{
    trial_init(t, "http://127.0.1.%u:%u%s", host, odd.port, path);
}

struct trials {
    struct trial *all;
    unsigned n;
};

static void
start_all_now(void *user)
{
    struct trials *trials = user;

    for (unsigned i = 0; i < trials->n; i++)
        caller_start(called.caller, &trials->all[i].call);
}

/* In one go, so that none has its turn before all are there. */
static void
start_all(struct trial *all, unsigned n)
{
    called_do(start_all_now, &(struct trials){all, n});
}

static void
await_answers(struct trial *all, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        trial_wait(&all[i]);
        assert_int_equal(all[i].call.failure, CALL_ANSWERED);
    }
}

/* Limits */

static void
a_host_has_so_many_calls_at_once_and_no_more(void **state)
{
    static struct trial t[9];

    (void)state;
    called_open(16, 3, LOOPBACK);
    for (unsigned i = 0; i < 8; i++)
        init(&t[i], 1, "/wait");
    init(&t[8], 2, "/ok");
    start_all(t, 9);

    odd_await(&odd, &odd.n_waiting, 3);
    await_answers(&t[8], 1); /* another host need not wait */
    assert_counts(3, 5);
    odd_pass(&odd, 8);
    await_answers(t, 8);
    assert_int_equal(odd_count(&odd, &odd.most_waiting), 3);
    assert_counts(0, 0);
}

/* The default port, and letters of either case, are the same host. */
static void
spellings_of_a_host_are_one(void **state)
{
    static struct trial t[4];

    (void)state;
    called_open(16, 1, LOOPBACK);
    for (unsigned i = 0; i < 4; i++)
        trial_init(&t[i], "http://%s:%u/wait",
                   i % 2 ? "LocalHost" : "localhost", odd.port);
    start_all(t, 4);

    odd_await(&odd, &odd.n_waiting, 1);
    assert_counts(1, 3);
    odd_pass(&odd, 4);
    await_answers(t, 4);
    assert_int_equal(odd_count(&odd, &odd.most_waiting), 1);
}

static void
there_are_so_many_calls_at_once_and_no_more(void **state)
{
    static struct trial t[10];

    (void)state;
    called_open(4, 4, LOOPBACK);
    for (unsigned i = 0; i < 10; i++)
        init(&t[i], i, "/wait");
    start_all(t, 10);

    odd_await(&odd, &odd.n_waiting, 4);
    assert_counts(4, 6);
    odd_pass(&odd, 10);
    await_answers(t, 10);
    assert_int_equal(odd_count(&odd, &odd.most_waiting), 4);
}

/* W-092: however many hang, the others go on. */
static void
suspects_never_take_more_than_half(void **state)
{
    static struct trial suspect[10], sound[20];

    (void)state;
    called_open(4, 4, LOOPBACK);
    for (unsigned i = 0; i < 10; i++) {
        init(&suspect[i], i, "/hang");
        suspect[i].call.is_suspect = true;
    }
    start_all(suspect, 10);
    for (unsigned i = 0; i < 20; i++)
        init(&sound[i], i, "/ok");
    start_all(sound, 20);

    await_answers(sound, 20);
    assert_counts(2, 8);
    for (unsigned i = 0; i < 10; i++)
        trial_cancel(&suspect[i]);
    assert_counts(0, 0);
}

/* W-092: nor at their own host. */
static void
suspects_leave_room_at_their_host(void **state)
{
    static struct trial suspect[6], sound[6];

    (void)state;
    called_open(100, 4, LOOPBACK);
    for (unsigned i = 0; i < 6; i++) {
        init(&suspect[i], 1, "/hang");
        suspect[i].call.is_suspect = true;
        init(&sound[i], 1, "/ok");
    }
    start_all(suspect, 6);
    start_all(sound, 6);

    await_answers(sound, 6);
    assert_counts(2, 4);
}

/* Suspects come to their turn beside any number of others. */
static void
suspects_are_not_forgotten(void **state)
{
    static struct trial t[9];

    (void)state;
    called_open(1, 1, LOOPBACK);
    for (unsigned i = 0; i < 9; i++)
        init(&t[i], i, "/ok");
    t[8].call.is_suspect = true;
    start_all(t, 9);

    await_answers(t, 9);
    assert_true(t[8].place <= 2);
}

/* Order */

static void
hosts_take_turns(void **state)
{
    static const struct {
        unsigned host, place;
    } all[] = {{1, 1}, {1, 4}, {1, 6}, {1, 7}, {2, 2}, {2, 5}, {3, 3}};
    static struct trial t[7];

    (void)state;
    called_open(1, 1, LOOPBACK);
    for (unsigned i = 0; i < 7; i++)
        init(&t[i], all[i].host, "/ok");
    start_all(t, 7);

    await_answers(t, 7);
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

static void
done_may_start_the_same_call_again(void **state)
{
    struct trial t;

    (void)state;
    called_open(1, 1, LOOPBACK);
    n_left = 99;
    init(&t, 1, "/ok");
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

static enum call_turn
prepare_later(struct call *call)
{
    list_entry(call, struct trial, call)->n_prepared++;
    sem_post(&prepared);
    return CALL_LATER;
}

/* Though the first has room for more. */
static void
a_host_gives_one_call_then_the_next_host(void **state)
{
    static struct trial t[4];

    (void)state;
    called_open(2, 2, LOOPBACK);
    for (unsigned i = 0; i < 4; i++) {
        init(&t[i], i == 3 ? 2 : 1, "/ok");
        t[i].call.prepare = prepare_later;
    }
    start_all(t, 4);

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

static void
the_body_is_made_when_its_turn_has_come(void **state)
{
    static struct trial t[2];

    (void)state;
    called_open(1, 1, LOOPBACK);
    init(&t[0], 1, "/wait");
    init(&t[1], 2, "/ok");
    t[1].call.method = CALL_POST;
    t[1].call.prepare = prepare_ready;
    start_all(t, 2);
    odd_await(&odd, &odd.n_waiting, 1);
    assert_counts(1, 1);
    assert_int_equal(t[1].n_prepared, 0);

    odd_pass(&odd, 1);
    await_answers(t, 2);
    assert_int_equal(t[1].n_prepared, 1);
    assert_true(odd_was_sent(&odd, "\r\nX-Made: late\r\n"));
    assert_true(odd_was_sent(&odd, "\r\n\r\nmade late"));
}

static void
go_now(void *user)
{
    struct trial *t = user;

    caller_go(called.caller, &t->call, true);
}

static void
leave_now(void *user)
{
    struct trial *t = user;

    caller_go(called.caller, &t->call, false);
}

static void
what_is_made_later_keeps_its_turn(void **state)
{
    static struct trial t[3];

    (void)state;
    called_open(1, 1, LOOPBACK);
    for (unsigned i = 0; i < 3; i++)
        init(&t[i], i, "/ok");
    t[0].call.prepare = t[1].call.prepare = prepare_later;
    start_all(t, 3);
    called_wait(&prepared);
    assert_counts(1, 2);

    called_do(go_now, &t[0]);
    await_answers(t, 1);
    called_wait(&prepared);
    called_do(leave_now, &t[1]); /* which has its turn now */
    await_answers(&t[2], 1);
    assert_int_equal(t[1].place, 0);
    assert_counts(0, 0);
}

static void
what_is_not_to_be_called_gives_its_turn_back(void **state)
{
    static struct trial t[3];

    (void)state;
    called_open(1, 1, LOOPBACK);
    for (unsigned i = 0; i < 3; i++)
        init(&t[i], i, "/ok");
    t[0].call.prepare = t[1].call.prepare = prepare_not;
    start_all(t, 3);

    await_answers(&t[2], 1);
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

    t->call.began_us -= 2 * t->call.timeout_us;
    caller_go(called.caller, &t->call, true);
}

/* How long we take to make a body is not held against who gets it. */
static void
time_runs_from_when_it_can_be_sent(void **state)
{
    static struct trial t[1];

    (void)state;
    called_open(1, 1, LOOPBACK);
    init(&t[0], 1, "/ok");
    t[0].call.prepare = prepare_later;
    trial_start(&t[0]);
    called_wait(&prepared);
    called_do(go_late, &t[0]);

    await_answers(t, 1);
    assert_int_equal(odd_count(&odd, &odd.n_requests), 1);
}

/* Giving up */

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

static void
a_call_is_given_up_in_its_prepare(void **state)
{
    static struct trial t[2];

    (void)state;
    called_open(1, 1, LOOPBACK);
    init(&t[0], 1, "/ok");
    init(&t[1], 1, "/ok");
    t[0].call.prepare = prepare_cancelled;
    start_all(t, 2);

    called_wait(&all_done);
    await_answers(&t[1], 1);
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

static void
a_call_is_given_up_while_it_waits_or_fails(void **state)
{
    struct trial t, other;

    (void)state;
    called_open(1, 1, LOOPBACK);
    init(&t, 1, "/ok");
    called_do(start_and_cancel_now, &t);
    trial_init(&t, "no URL");
    called_do(start_and_cancel_now, &t);

    init(&other, 1, "/ok");
    trial_run(&other);
    assert_int_equal(t.place, 0);
    assert_int_equal(odd_count(&odd, &odd.n_requests), 1);
    assert_counts(0, 0);
}

static void
a_call_is_given_up_before_its_body_is_there(void **state)
{
    struct trial t, other;

    (void)state;
    called_open(1, 1, LOOPBACK);
    init(&t, 1, "/ok");
    t.call.prepare = prepare_later;
    trial_start(&t);
    init(&other, 2, "/ok");
    trial_start(&other);
    called_wait(&prepared);
    trial_cancel(&t);
    called_do(go_now, &t); /* too late, and harmless */

    await_answers(&other, 1);
    assert_int_equal(t.place, 0);
}

static void
a_call_is_given_up_under_way(void **state)
{
    static const char *const paths[] = {"/hang", "/hang-in-body",
                                        "/trickling-headers"};
    struct trial t, other;

    (void)state;
    called_open(1, 1, LOOPBACK);
    for (unsigned i = 0; i < 3; i++) {
        init(&t, 1, paths[i]);
        trial_start(&t);
        odd_await(&odd, &odd.n_requests, 2 * i + 1);
        trial_cancel(&t);
        odd_await(&odd, &odd.n_left, i + 1); /* its connection is closed */
        memset(&t.call, 0xee, sizeof(t.call));

        init(&other, 2, "/ok");
        trial_run(&other);
        assert_int_equal(other.call.status, 200);
        assert_int_equal(t.place, 0);
    }
    assert_counts(0, 0);
}

static void
a_call_that_is_done_is_given_up_harmlessly(void **state)
{
    struct trial t;

    (void)state;
    called_open(1, 1, LOOPBACK);
    init(&t, 1, "/ok");
    trial_cancel(&t);
    trial_run(&t);
    trial_cancel(&t);
    trial_cancel(&t);
    trial_run(&t);
    assert_int_equal(t.call.status, 200);
    assert_counts(0, 0);
}

/* One that is done gives the next one up, which may be done as well, and not
 * yet told: it is not told then. */
static struct trial mutual[2];

static void
cancel_other(struct call *call)
{
    struct trial *t = list_entry(call, struct trial, call);

    t->place = 1;
    caller_cancel(called.caller, &mutual[t == mutual].call);
    sem_post(&all_done);
}

static void
of_two_that_give_each_other_up_one_is_done(void **state)
{
    (void)state;
    called_open(2, 2, LOOPBACK);
    for (unsigned round = 0; round < 200; round++) {
        init(&mutual[0], 1, "/ok");
        init(&mutual[1], 1, "/ok");
        mutual[0].call.done = mutual[1].call.done = cancel_other;
        start_all(mutual, 2);
        called_wait(&all_done);
        assert_counts(0, 0);
        assert_int_equal(mutual[0].place + mutual[1].place, 1);
    }
}

/* Many */

static void
of_many_calls_each_is_done_once(void **state)
{
    static const char *const paths[] = {"/ok",        "/empty", "/nothing",
                                        "/reset",     "/short", "/closed",
                                        "/status/500"};
    static struct trial t[300];
    struct trials all = {t, 300};
    int n = 0;

    (void)state;
    called_open(32, 3, LOOPBACK);
    for (unsigned i = 0; i < all.n; i++) {
        init(&t[i], 1 + i % 17, paths[i % 7]);
        t[i].call.is_suspect = i % 3 == 0;
        t[i].call.method = i % 2 ? CALL_POST : CALL_GET;
        t[i].call.body = SLICE("body");
    }
    called_do(start_all_now, &all);
    for (unsigned i = 0; i < all.n; i++) {
        bool is_broken = i % 7 == 2 || i % 7 == 3 || i % 7 == 4;

        trial_wait(&t[i]);
        assert_int_equal(t[i].call.failure,
                         is_broken ? CALL_BROKEN : CALL_ANSWERED);
    }
    assert_counts(0, 0);
    for (unsigned i = 0; i < all.n; i++) {
        sem_getvalue(&t[i].done, &n);
        assert_int_equal(n, 0);
    }
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_host_has_so_many_calls_at_once_and_no_more),
        TEST(spellings_of_a_host_are_one),
        TEST(there_are_so_many_calls_at_once_and_no_more),
        TEST(suspects_never_take_more_than_half),
        TEST(suspects_leave_room_at_their_host),
        TEST(suspects_are_not_forgotten),
        TEST(hosts_take_turns),
        TEST(a_host_gives_one_call_then_the_next_host),
        TEST(done_may_start_the_same_call_again),
        TEST(the_body_is_made_when_its_turn_has_come),
        TEST(what_is_made_later_keeps_its_turn),
        TEST(what_is_not_to_be_called_gives_its_turn_back),
        TEST(time_runs_from_when_it_can_be_sent),
        TEST(a_call_is_given_up_in_its_prepare),
        TEST(a_call_is_given_up_while_it_waits_or_fails),
        TEST(a_call_is_given_up_before_its_body_is_there),
        TEST(a_call_is_given_up_under_way),
        TEST(a_call_that_is_done_is_given_up_harmlessly),
        TEST(of_two_that_give_each_other_up_one_is_done),
        TEST(of_many_calls_each_is_done_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
