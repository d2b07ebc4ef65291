/* The loop of a thread: alarms, tasks and wakes of other threads, jobs, its
 * end. */
#include "base/loop.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "tests/clock.h"
#include "tests/test.h"

static struct loop *loop;
static char story[200];

static void
add_to_story(const char *word)
{
    strncat(story, word, sizeof(story) - strlen(story) - 1);
}

/* Time goes on whenever nothing is ready. */
static bool
is_idle(void *user)
{
    (void)user;
    return true;
}

static void
open_loop(const struct loop_calls *calls)
{
    static const struct loop_calls none;

    loop = loop_new(calls ? calls : &none, story);
    assert_non_null(loop);
}

static int
set_stage(void **state)
{
    (void)state;
    story[0] = '\0';
    clock_skip_waits(is_idle, NULL);
    return 0;
}

static int
clear_stage(void **state)
{
    (void)state;
    clock_skip_waits(NULL, NULL);
    assert_true(loop_free(loop));
    loop = NULL;
    return 0;
}

FIXTURE(set_stage, clear_stage);

/* Alarms */

#define ALARMS 20000

static struct timed {
    struct alarm alarm;
    unsigned n_rings;
    bool is_cleared;
} timed[ALARMS];

static unsigned n_rung, n_expected;
static int64_t last_at_us;

static void
ring_timed(struct alarm *alarm)
{
    struct timed *t = list_entry(alarm, struct timed, alarm);

    assert_false(t->is_cleared);
    assert_true(alarm->at_us >= last_at_us);
    assert_true(alarm->at_us <= clock_steady_us());
    last_at_us = alarm->at_us;
    t->n_rings++;
    if (++n_rung == n_expected)
        loop_end(loop);
}

static uint32_t
scattered(uint32_t i)
{
    i *= 2654435761u;
    return i ^ i >> 15;
}

/* All of them within 100 ms, a third set again, a tenth cleared. */
TEST(alarms_ring_once_and_in_order)
{
    int64_t base_us = last_at_us = clock_steady_us();

    open_loop(NULL);
    n_rung = 0;
    n_expected = ALARMS;
    for (uint32_t i = 0; i < ALARMS; i++) {
        timed[i] = (struct timed){.alarm.ring = ring_timed};
        loop_set_alarm(loop, &timed[i].alarm, base_us + scattered(i) % 100000);
    }
    for (uint32_t i = 0; i < ALARMS; i += 3)
        loop_set_alarm(loop, &timed[i].alarm,
                       base_us + scattered(i + 7) % 100000);
    for (uint32_t i = 0; i < ALARMS; i += 10) {
        timed[i].is_cleared = true;
        loop_clear_alarm(loop, &timed[i].alarm);
        loop_clear_alarm(loop, &timed[i].alarm);
        n_expected--;
    }

    loop_run(loop);

    for (unsigned i = 0; i < ALARMS; i++)
        assert_int_equal(timed[i].n_rings, !timed[i].is_cleared);
}

static void
end_loop(struct task *task)
{
    (void)task;
    loop_end(loop);
}

static struct task ending;

static void
ring_again(struct alarm *alarm)
{
    if (list_entry(alarm, struct timed, alarm)->n_rings++ == 0)
        loop_post(loop, &ending);
    loop_set_alarm(loop, alarm, 0); /* is long past */
}

/* An alarm that is always due leaves the others their share. */
TEST(an_alarm_may_be_set_as_it_rings)
{
    open_loop(NULL);
    ending.run = end_loop;
    timed[0] = (struct timed){.alarm.ring = ring_again};
    loop_set_alarm(loop, &timed[0].alarm, 0);
    assert_int_equal(timed[0].n_rings, 0);

    loop_run(loop);

    assert_true(timed[0].n_rings > 0);
}

static struct alarm late, soon;

static void
ring_soon(struct alarm *alarm)
{
    assert_ptr_equal(alarm, &soon);
    loop_end(loop);
}

static void
set_soon(struct task *task)
{
    (void)task;
    loop_set_alarm(loop, &soon, clock_steady_us() + 1000);
}

/* The loop would sleep for the first alarm: one that is set then shortens the
 * sleep. A cleared one ends it for nothing. */
TEST(an_earlier_alarm_is_not_kept_waiting)
{
    int64_t now_us = clock_steady_us();
    struct alarm cleared = {.ring = ring_soon};
    struct task setter = {.run = set_soon};

    open_loop(NULL);
    late = soon = (struct alarm){.ring = ring_soon};
    loop_set_alarm(loop, &late, now_us + 3600000000);
    loop_set_alarm(loop, &soon, now_us + 7200000000);
    loop_set_alarm(loop, &cleared, now_us + 500);
    loop_clear_alarm(loop, &cleared);
    loop_post(loop, &setter); /* runs after the first look at the alarms */

    loop_run(loop);

    assert_in_range(clock_steady_us() - now_us, 1000, 3000);
}

/* Wakes and tasks of other threads */

static atomic_uint n_made, n_seen;

static void
on_wake(void *user)
{
    assert_ptr_equal(user, story);
    atomic_store(&n_seen, atomic_load(&n_made));
    if (atomic_load(&n_seen) == 4000)
        loop_end(loop);
}

static void *
make_and_wake(void *user)
{
    (void)user;
    for (unsigned i = 0; i < 1000; i++) {
        atomic_fetch_add(&n_made, 1);
        loop_wake(loop);
    }
    return NULL;
}

TEST(no_wake_is_lost)
{
    static const struct loop_calls calls = {.on_wake = on_wake};
    pthread_t threads[4];

    clock_skip_waits(NULL, NULL);
    n_made = 0;
    open_loop(&calls);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_and_wake, NULL),
                         0);
    loop_run(loop);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(n_seen, 4000);
}

static struct numbered {
    struct task task;
    unsigned thread, number;
} posted[4][500];

static unsigned next_of[4], n_posted;

static void
run_numbered(struct task *task)
{
    struct numbered *n = list_entry(task, struct numbered, task);

    assert_int_equal(n->number, next_of[n->thread]++);
    if (++n_posted == 2000)
        loop_end(loop);
}

static void *
post_numbered(void *user)
{
    struct numbered *all = user;

    for (unsigned i = 0; i < 500; i++)
        loop_post(loop, &all[i].task);
    return NULL;
}

TEST(tasks_run_in_the_order_of_their_thread)
{
    pthread_t threads[4];

    clock_skip_waits(NULL, NULL);
    open_loop(NULL);
    n_posted = 0;
    for (unsigned i = 0; i < 4; i++) {
        next_of[i] = 0;
        for (unsigned k = 0; k < 500; k++)
            posted[i][k] = (struct numbered){{.run = run_numbered}, i, k};
        assert_int_equal(
            pthread_create(&threads[i], NULL, post_numbered, posted[i]), 0);
    }
    loop_run(loop);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(n_posted, 2000);
}

/* Turns */

static bool
on_turn(void *user)
{
    (void)user;
    add_to_story("turn ");
    if (strlen(story) < 15)
        return true;
    loop_end(loop);
    return false;
}

TEST(a_turn_that_has_more_to_do_is_followed_by_another)
{
    static const struct loop_calls calls = {.on_turn = on_turn};
    int64_t now_us = clock_steady_us();

    open_loop(&calls);
    late = (struct alarm){.ring = ring_soon};
    loop_set_alarm(loop, &late, now_us + 3600000000);
    loop_run(loop);
    assert_string_equal(story, "turn turn turn ");
    assert_int_equal(clock_steady_us(), now_us);
}

/* Jobs */

static struct busy {
    struct job job;
    pthread_t worker;
} busy[50];

static unsigned n_busy;

static void
work_busy(struct job *job)
{
    list_entry(job, struct busy, job)->worker = pthread_self();
}

static void
done_busy(struct job *job)
{
    assert_false(pthread_equal(list_entry(job, struct busy, job)->worker,
                               pthread_self()));
    if (++n_busy == 50)
        loop_end(loop);
}

TEST(jobs_are_done_elsewhere_and_reported_here)
{
    clock_skip_waits(NULL, NULL);
    n_busy = 0;
    open_loop(NULL);
    for (unsigned i = 0; i < 50; i++) {
        busy[i].job = (struct job){work_busy, done_busy, NULL};
        loop_work(loop, &busy[i].job);
    }
    loop_run(loop);
    assert_int_equal(n_busy, 50);
}

/* A job, and its result. */
struct errand {
    struct job job;
    sem_t begun;
    bool is_worked; /* not atomic: the loop sees it when the job is done */
    bool is_done;
};

static void
work_errand(struct job *job)
{
    struct errand *e = list_entry(job, struct errand, job);

    sem_post(&e->begun);
    for (unsigned i = 0; i < 1000; i++)
        sched_yield();
    e->is_worked = true;
}

static void
done_errand(struct job *job)
{
    list_entry(job, struct errand, job)->is_done = true;
}

TEST(a_job_that_is_dropped_is_over_and_reports_nothing)
{
    static struct errand errands[40];

    open_loop(NULL);
    for (unsigned i = 0; i < 40; i++) {
        errands[i] = (struct errand){.job = {work_errand, done_errand, NULL}};
        sem_init(&errands[i].begun, 0, 0);
        loop_drop_job(&errands[i].job); /* the loop does not have it */
        loop_work(loop, &errands[i].job);
        if (i % 2 == 0)
            sem_wait(&errands[i].begun);
        loop_drop_job(&errands[i].job);
        errands[i].is_worked = false; /* nobody writes it any more */
    }
    loop_end(loop);
    loop_run(loop);
    for (unsigned i = 0; i < 40; i++) {
        assert_false(errands[i].is_worked);
        assert_false(errands[i].is_done);
    }
}

/* The end */

static void
run_task(struct task *task)
{
    (void)task;
    add_to_story("task ");
}

static struct task tasks[4] = {
    {.run = run_task}, {.run = run_task}, {.run = run_task}, {.run = run_task}};

static void
post_in_work(struct job *job)
{
    (void)job;
    loop_post(loop, &tasks[2]);
}

static void
done_at_end(struct job *job)
{
    (void)job;
    add_to_story("job ");
}

static struct job job_at_end = {post_in_work, done_at_end, NULL};

static void
ring_never(struct alarm *alarm)
{
    (void)alarm;
    fail_msg("an alarm rang after the end");
}

static void
work_and_end(struct task *task)
{
    (void)task;
    loop_end(loop);
    loop_work(loop, &job_at_end);
    loop_post(loop, &tasks[1]);
    add_to_story("end ");
}

/* A task that comes even later runs when the loop is freed. */
TEST(the_end_waits_for_tasks_and_jobs)
{
    struct alarm never = {.ring = ring_never};

    clock_skip_waits(NULL, NULL);
    open_loop(NULL);
    ending.run = work_and_end;
    loop_post(loop, &tasks[0]);
    loop_post(loop, &ending);
    loop_set_alarm(loop, &never, clock_steady_us() + 3600000000);
    loop_run(loop);
    assert_memory_equal(story, "task end ", 9);
    assert_non_null(strstr(story, "job "));
    assert_int_equal(strlen(story), strlen("task end task task job "));

    loop_post(loop, &tasks[3]);
    assert_true(loop_free(loop));
    loop = NULL;
    assert_string_equal(story + strlen("task end task task job "), "task ");
}

TEST(a_held_wake_comes_at_the_end_or_before_another)
{
    static const struct loop_calls calls = {NULL, NULL};
    struct loop *other = loop_new(&calls, NULL);
    struct task task = {.run = run_task};

    assert_non_null(other);
    open_loop(NULL);
    loop_turn(loop, false);
    loop_hold_wakes();
    loop_post(loop, &tasks[0]);
    loop_turn(loop, false);
    assert_string_equal(story, "");
    loop_post(other, &task);
    loop_turn(loop, false);
    assert_string_equal(story, "task ");
    loop_turn(other, false);
    assert_string_equal(story, "task ");
    loop_release_wakes();
    loop_turn(other, false);
    assert_string_equal(story, "task task ");
    assert_true(loop_free(other));
}

struct several_posts {
    struct task tasks[20];
    struct loop *loop;
};

static void
run_nothing(struct task *task)
{
    (void)task;
}

static void
end_loop_of_posts(struct task *task)
{
    loop_end(list_entry(task, struct several_posts, tasks[19])->loop);
}

static void *
post_several(void *user)
{
    struct several_posts *posts = user;

    for (unsigned i = 0; i < 20; i++)
        loop_post(posts->loop, &posts->tasks[i]);
    return NULL;
}

/* The wake of an earlier task may let the loop run the last one: the thread
 * that posts it is still in loop_post when the owner frees the loop. */
TEST(a_loop_is_freed_behind_the_last_post)
{
    static const struct loop_calls calls = {NULL, NULL};

    for (unsigned i = 0; i < 500; i++) {
        struct several_posts posts;
        pthread_t thread;

        for (unsigned n = 0; n < 20; n++)
            posts.tasks[n].run = n < 19 ? run_nothing : end_loop_of_posts;
        posts.loop = loop_new(&calls, NULL);
        assert_non_null(posts.loop);
        assert_int_equal(pthread_create(&thread, NULL, post_several, &posts),
                         0);
        loop_run(posts.loop);
        assert_true(loop_free(posts.loop));
        pthread_join(thread, NULL);
    }
}
