#include "base/thread.h"

#include <semaphore.h>
#include <signal.h>
#include <string.h>

#include "tests/clock.h"
#include "tests/test.h"

#define SECOND INT64_C(1000000)

/* The observations of a test's thread; read after thread_stop only, except for
 * the semaphores. */
struct seen {
    int64_t wait_us; /* how long each round waits */
    sem_t rounds;    /* one post per round begun */
    sem_t go;        /* a round that is_slow waits for this */
    bool is_slow;
    int n_rounds;
    char name[16];
    sigset_t mask;
};

static void
run(struct thread *t)
{
    struct seen *seen = t->user;

    pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
    pthread_sigmask(SIG_SETMASK, NULL, &seen->mask);
    while (thread_wait(t, seen->wait_us)) {
        seen->n_rounds++;
        sem_post(&seen->rounds);
        if (seen->is_slow)
            sem_wait(&seen->go);
    }
}

static void
start(struct thread *t, struct seen *seen, int64_t wait_us)
{
    memset(seen, 0, sizeof(*seen));
    seen->wait_us = wait_us;
    sem_init(&seen->rounds, 0, 0);
    sem_init(&seen->go, 0, 0);
    assert_int_equal(thread_start(t, "td-test", run, seen, NULL), STATUS_OK);
}

/* Each wait is a sign of life; a thread that hangs gives none. */
TEST(a_thread_that_hangs_is_silent)
{
    struct thread t;
    struct seen seen;

    start(&t, &seen, -1);
    seen.is_slow = true;
    clock_pass_us(2 * SECOND);
    thread_wake(&t);
    sem_wait(&seen.rounds);
    assert_int_equal(thread_silent_us(&t), 0);
    clock_pass_us(5 * SECOND);
    assert_int_equal(thread_silent_us(&t), 5 * SECOND);
    thread_show_life(&t); /* as it would itself */
    assert_int_equal(thread_silent_us(&t), 0);
    sem_post(&seen.go);
    thread_stop(&t);
}

TEST(a_wake_begins_a_round)
{
    struct thread t;
    struct seen seen;

    start(&t, &seen, -1);

    thread_wake(&t);
    sem_wait(&seen.rounds);
    thread_wake(&t);
    sem_wait(&seen.rounds);
    thread_stop(&t);

    assert_int_equal(seen.n_rounds, 2);
}

TEST(a_wake_during_a_round_is_not_lost)
{
    struct thread t;
    struct seen seen;

    start(&t, &seen, -1);
    seen.is_slow = true; /* seen by the thread after the wake */
    thread_wake(&t);
    sem_wait(&seen.rounds);

    thread_wake(&t);
    thread_wake(&t);
    sem_post(&seen.go);
    sem_wait(&seen.rounds);
    sem_post(&seen.go);
    thread_stop(&t);

    assert_int_equal(seen.n_rounds, 2); /* the two wakes are one round */
}

TEST(a_wait_ends_when_its_time_has_come)
{
    struct thread t;
    struct seen seen;

    start(&t, &seen, 20000);
    for (int i = 0; i < 2; i++) {
        clock_await_us(20000);
        clock_pass_us(19999);
        clock_await_us(1);
        assert_int_equal(sem_trywait(&seen.rounds), -1);
        clock_pass_us(1);
        sem_wait(&seen.rounds);
    }
    thread_stop(&t);
}

TEST(a_stop_ends_the_longest_wait_at_once)
{
    static const int64_t waits[] = {-1, 3600 * SECOND, INT64_MAX};

    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        struct thread t;
        struct seen seen;

        start(&t, &seen, waits[i]);
        thread_stop(&t);

        assert_int_equal(seen.n_rounds, 0);
    }
}

TEST(it_carries_its_name_and_blocks_signals_but_its_own_faults)
{
    struct thread t;
    struct seen seen;
    sigset_t before, after;

    pthread_sigmask(SIG_SETMASK, NULL, &before);

    start(&t, &seen, -1);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    thread_stop(&t);

    assert_string_equal(seen.name, "td-test");
    assert_true(sigismember(&seen.mask, SIGTERM));
    assert_true(sigismember(&seen.mask, SIGINT));
    assert_true(sigismember(&seen.mask, SIGPIPE));
    assert_false(sigismember(&seen.mask, SIGSEGV));
    assert_false(sigismember(&seen.mask, SIGABRT));
    assert_false(sigismember(&before, SIGTERM));
    assert_false(sigismember(&after, SIGTERM));
}

TEST(a_stop_without_a_start_or_twice_is_harmless)
{
    struct thread t = {.is_running = false};
    struct seen seen;

    thread_stop(&t);
    start(&t, &seen, -1);
    assert_true(t.is_running);
    thread_stop(&t);
    assert_false(t.is_running);
    thread_stop(&t);
}
