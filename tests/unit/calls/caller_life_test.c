/* The thread of a caller: its beginning and end, and descriptors. Tasks, jobs,
 * alarms: tests/unit/base/loop_test.c. */
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "broker/calls/caller_state.h"
#include "tests/test.h"
#include "tests/unit/calls/called.h"

/* Beginning and end */

static char story[200]; /* the caller's thread, then the test's */

static void
tell(const char *word)
{
    strncat(story, word, sizeof(story) - strlen(story) - 1);
}

static void
on_begin(struct caller *caller, void *user)
{
    (void)caller;
    assert_ptr_equal(user, story);
    tell("begin ");
}

static void
on_end(struct caller *caller, void *user)
{
    (void)caller;
    (void)user;
    tell("end");
}

static void
tell_task(struct task *task)
{
    (void)task;
    tell("task ");
}

/* Goes on until all calls were cut, which is the beginning of the end. */
static void
work_into_the_end(struct job *job)
{
    (void)job;
    odd_await_least(&odd, &odd.n_left, 1);
}

static void
tell_job(struct job *job)
{
    (void)job;
    tell("job ");
}

static struct job told_job = {work_into_the_end, tell_job};

static void
start_job_now(void *user)
{
    (void)user;
    caller_work(called.caller, &told_job);
}

FIXTURE(called_setup, called_teardown);

/* All work from before the end is done before the end; on_end is last. */
TEST(the_end_comes_last)
{
    struct caller_options options = {.connections = 1,
                                     .host_connections = 1,
                                     .on_begin = on_begin,
                                     .on_end = on_end,
                                     .user = story};
    struct trial hanging;
    struct task tasks[3] = {
        {.run = tell_task}, {.run = tell_task}, {.run = tell_task}};

    story[0] = '\0';
    called_open_with(&options, LOOPBACK);
    trial_init(&hanging, "http://127.0.0.1:%u/hang", odd.port);
    trial_start(&hanging);
    odd_await(&odd, &odd.n_requests, 1);
    for (unsigned i = 0; i < 3; i++)
        caller_post(called.caller, &tasks[i]);
    called_do(start_job_now, NULL);
    caller_stop(called.caller);
    caller_stop(called.caller);
    called_close();

    if (strcmp(story, "begin task task task job end") != 0)
        fail_msg("%s", story);
    caller_close(NULL);
}

static struct trial waiting[8];
static struct alarm never;

static void
ring_never(struct alarm *alarm)
{
    (void)alarm;
    fail_msg("an alarm rang after the end");
}

/* The owner may tidy up as ever. */
static void
cancel_all_at_end(struct caller *caller, void *user)
{
    unsigned under_way = 1, in_queue = 1;

    (void)user;
    called_count(caller, &under_way, &in_queue);
    assert_int_equal(under_way + in_queue, 0);
    caller_start(caller, &waiting[7].call);
    for (unsigned i = 0; i < 8; i++)
        caller_cancel(caller, &waiting[i].call);
    caller_go(caller, &waiting[0].call, true);
    caller_clear_alarm(caller, &never);
}

static void
set_never_now(void *user)
{
    (void)user;
    never.ring = ring_never;
    caller_set_alarm(called.caller, &never, clock_steady_us() + 3600000000);
}

TEST(calls_of_every_state_are_cut_at_the_end)
{
    struct caller_options options = {
        .connections = 3, .host_connections = 3, .on_end = cancel_all_at_end};

    called_open_with(&options, LOOPBACK);
    trial_init(&waiting[0], "http://127.0.0.1:%u/ok", odd.port);
    waiting[0].call.prepare = trial_prepare_later;
    for (unsigned i = 1; i < 8; i++)
        trial_init(&waiting[i], "http://127.0.0.%u:%u/hang", i, odd.port);
    for (unsigned i = 0; i < 7; i++) /* the last one never starts */
        trial_start(&waiting[i]);
    called_do(set_never_now, NULL);
    called_wait(&prepared);
    odd_await(&odd, &odd.n_requests, 2);
    called_close();

    odd_await(&odd, &odd.n_left, 2);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(waiting[i].place, 0);
}

/* A call that begins at the end of a turn goes on without a further push. */
static struct trial started_by_turn;
static bool is_started;

static void
start_in_turn(struct caller *caller, void *user)
{
    (void)user;
    if (!is_started)
        caller_start(caller, &started_by_turn.call);
    is_started = true;
}

TEST(a_call_started_at_the_end_of_a_turn_is_made)
{
    struct caller_options options = {
        .connections = 1, .host_connections = 1, .on_turn = start_in_turn};

    is_started = false;
    trial_init(&started_by_turn, "http://127.0.0.1:%u/ok", odd.port);
    called_open_with(&options, LOOPBACK);
    trial_wait(&started_by_turn);
    assert_int_equal(started_by_turn.call.status, 200);
}

/* Descriptors */

TEST(a_call_without_a_descriptor_is_not_blamed_on_its_host)
{
    struct rlimit files, few;
    struct trial t;
    int first_free;

    called_open(1, 1, LOOPBACK);
    trial_init(&t, "http://127.0.0.1:%u/closed", odd.port);
    trial_run(&t);
    assert_int_equal(t.call.status, 200);
    odd_await(&odd, &odd.n_left, 1);

    getrlimit(RLIMIT_NOFILE, &files);
    first_free = dup(0);
    close(first_free);
    few = files;
    few.rlim_cur = (rlim_t)first_free;
    setrlimit(RLIMIT_NOFILE, &few);
    trial_run(&t);
    setrlimit(RLIMIT_NOFILE, &files);
    assert_int_equal(t.call.failure, CALL_MEMORY);
    assert_string_equal(t.call.why, "no descriptor is left for it");

    trial_run(&t);
    assert_int_equal(t.call.status, 200);
}

static unsigned
n_files(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* The most descriptors of a caller with four connections: for each one two
 * sockets that race (IPv6 and IPv4) and four kept ones; the loop's. */
#define FILES (4 * 6 + 16)

TEST(no_more_descriptors_are_open_than_said)
{
    static struct trial t[200];
    unsigned before, after;

    before = n_files();
    called_open(4, 2, LOOPBACK);
    for (unsigned i = 0; i < 200; i++) {
        trial_init(&t[i], "http://127.0.2.%u:%u/ok", 1 + i, odd.port);
        trial_start(&t[i]);
    }
    for (unsigned i = 0; i < 200; i++) {
        trial_wait(&t[i]);
        assert_int_equal(t[i].call.status, 200);
    }
    /* The server's ends are descriptors of this process, too. */
    odd_await_least(&odd, &odd.n_left, 200 - FILES);
    after = n_files();
    assert_true(after - before <= 2 * FILES);
    called_close();
    odd_await(&odd, &odd.n_left, 200);
    assert_int_equal(n_files(), before);
}

/* libuv asks for 1,024 events, and asks again before the end of the turn if it
 * gets so many. */
#define CROWD 1100

static struct crowd {
    int fds[CROWD];
    uv_poll_t polls[CROWD];
} crowd;

static void
ignore_event(uv_poll_t *poll, int status, int events)
{
    (void)poll;
    (void)status;
    (void)events;
}

static void
watch_crowd(void *user)
{
    struct trial *t = user;

    for (size_t i = 0; i < CROWD; i++) {
        uv_poll_init(loop_uv(called.caller->loop), &crowd.polls[i],
                     crowd.fds[i]);
        uv_poll_start(&crowd.polls[i], UV_READABLE, ignore_event);
    }
    caller_start(called.caller, &t->call);
}

static void
leave_crowd(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < CROWD; i++)
        uv_close((uv_handle_t *)&crowd.polls[i], NULL);
}

TEST(a_connection_that_opens_in_a_crowd_opens_once)
{
    struct rlimit files, many;
    struct trial t;

    getrlimit(RLIMIT_NOFILE, &files);
    many = files;
    many.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &many);
    crowd.fds[0] = eventfd(1, EFD_CLOEXEC);
    for (size_t i = 1; i < CROWD; i++)
        crowd.fds[i] = fcntl(crowd.fds[0], F_DUPFD_CLOEXEC, 0);
    assert_true(crowd.fds[CROWD - 1] >= 0);
    called_open(4, 4, LOOPBACK);
    trial_init(&t, "http://127.0.0.1:%u/ok", odd.port);
    called_do(watch_crowd, &t);
    trial_wait(&t);
    assert_string_equal(t.answer, "hello");
    called_do(leave_crowd, NULL);
    called_close();
    for (size_t i = 0; i < CROWD; i++)
        close(crowd.fds[i]);
    setrlimit(RLIMIT_NOFILE, &files);
}
