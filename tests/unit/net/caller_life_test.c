/* The thread of a caller: its beginning and end, what other threads send to it,
 * alarms and jobs; and what is not HTTP alone: TLS, descriptors. */
#include <fcntl.h>
#include <sys/resource.h>

#include "broker/base/clock.h"
#include "broker/net/caller.h"
#include "broker/net/request.h"
#include "broker/net/response.h"
#include "tests/support/certificate.h"
#include "tests/support/tempdir.h"
#include "tests/unit/net/called.h"
#include "tests/unit/net/odd.h"

#define LOOPBACK "127.0.0.0/8"

static struct odd odd;
static sem_t all_done;

static int
setup(void **state)
{
    (void)state;
    odd_open(&odd);
    sem_init(&all_done, 0, 0);
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

static struct job told_job = {work_into_the_end, tell_job, NULL};

static void
start_job_now(void *user)
{
    (void)user;
    caller_work(called.caller, &told_job);
}

/* What was asked for before the end is done before it; on_end is last. */
static void
the_end_comes_last(void **state)
{
    struct caller_options options = {.connections = 1,
                                     .host_connections = 1,
                                     .on_begin = on_begin,
                                     .on_end = on_end,
                                     .user = story};
    struct trial hanging;
    struct task tasks[3] = {
        {.run = tell_task}, {.run = tell_task}, {.run = tell_task}};

    (void)state;
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

static enum call_turn
prepare_later(struct call *call)
{
    (void)call;
    sem_post(&all_done);
    return CALL_LATER;
}

/* The owner may tidy up as ever. */
static void
cancel_all_at_end(struct caller *caller, void *user)
{
    unsigned under_way = 1, in_queue = 1;

    (void)user;
    caller_count(caller, &under_way, &in_queue);
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

static void
calls_of_every_state_are_cut_at_the_end(void **state)
{
    struct caller_options options = {
        .connections = 3, .host_connections = 3, .on_end = cancel_all_at_end};

    (void)state;
    called_open_with(&options, LOOPBACK);
    trial_init(&waiting[0], "http://127.0.0.1:%u/ok", odd.port);
    waiting[0].call.prepare = prepare_later;
    for (unsigned i = 1; i < 8; i++)
        trial_init(&waiting[i], "http://127.0.0.%u:%u/hang", i, odd.port);
    for (unsigned i = 0; i < 7; i++) /* the last one never starts */
        trial_start(&waiting[i]);
    called_do(set_never_now, NULL);
    called_wait(&all_done);
    odd_await(&odd, &odd.n_requests, 2);
    called_close();

    odd_await(&odd, &odd.n_left, 2);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(waiting[i].place, 0);
}

/* Wakes and tasks of other threads */

static atomic_uint n_made, n_seen;

static void
on_wake(struct caller *caller, void *user)
{
    (void)caller;
    (void)user;
    atomic_store(&n_seen, atomic_load(&n_made));
    if (atomic_load(&n_seen) == 4000)
        sem_post(&all_done);
}

static void *
make_and_wake(void *user)
{
    (void)user;
    for (unsigned i = 0; i < 1000; i++) {
        atomic_fetch_add(&n_made, 1);
        caller_wake(called.caller);
    }
    return NULL;
}

static void
no_wake_is_lost(void **state)
{
    struct caller_options options = {
        .connections = 1, .host_connections = 1, .on_wake = on_wake};
    pthread_t threads[4];

    (void)state;
    n_made = 0;
    called_open_with(&options, "");
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_and_wake, NULL),
                         0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    called_wait(&all_done);
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
        sem_post(&all_done);
}

static void *
post_numbered(void *user)
{
    struct numbered *all = user;

    for (unsigned i = 0; i < 500; i++)
        caller_post(called.caller, &all[i].task);
    return NULL;
}

static void
tasks_run_in_the_order_of_their_thread(void **state)
{
    pthread_t threads[4];

    (void)state;
    called_open(1, 1, "");
    n_posted = 0;
    for (unsigned i = 0; i < 4; i++) {
        next_of[i] = 0;
        for (unsigned k = 0; k < 500; k++)
            posted[i][k] = (struct numbered){{.run = run_numbered}, i, k};
        assert_int_equal(
            pthread_create(&threads[i], NULL, post_numbered, posted[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    called_wait(&all_done);
}

/* What begins at the end of a turn goes on without a further push. */
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

static void
a_call_started_at_the_end_of_a_turn_is_made(void **state)
{
    struct caller_options options = {
        .connections = 1, .host_connections = 1, .on_turn = start_in_turn};

    (void)state;
    is_started = false;
    trial_init(&started_by_turn, "http://127.0.0.1:%u/ok", odd.port);
    called_open_with(&options, LOOPBACK);
    trial_wait(&started_by_turn);
    assert_int_equal(started_by_turn.call.status, 200);
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
        sem_post(&all_done);
}

static void
start_busy_now(void *user)
{
    (void)user;
    for (unsigned i = 0; i < 50; i++) {
        busy[i].job = (struct job){work_busy, done_busy, NULL};
        caller_work(called.caller, &busy[i].job);
    }
}

static void
jobs_are_done_elsewhere_and_told_here(void **state)
{
    (void)state;
    n_busy = 0;
    called_open(1, 1, "");
    called_do(start_busy_now, NULL);
    called_wait(&all_done);
}

/* Alarms */

#define ALARMS 20000

static struct timed {
    struct alarm alarm;
    unsigned n_rings;
    bool is_cleared;
} timed[ALARMS];

static unsigned n_rung, n_expected;
static int64_t last_at_us, base_us;

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
        sem_post(&all_done);
}

static uint32_t
scattered(uint32_t i)
{
    i *= 2654435761u;
    return i ^ i >> 15;
}

/* All of them within 100 ms, a third set again, a tenth cleared. */
static void
set_timed_now(void *user)
{
    (void)user;
    base_us = last_at_us = clock_steady_us();
    n_rung = 0;
    n_expected = ALARMS;
    for (uint32_t i = 0; i < ALARMS; i++) {
        timed[i] = (struct timed){.alarm.ring = ring_timed};
        caller_set_alarm(called.caller, &timed[i].alarm,
                         base_us + scattered(i) % 100000);
    }
    for (uint32_t i = 0; i < ALARMS; i += 3)
        caller_set_alarm(called.caller, &timed[i].alarm,
                         base_us + scattered(i + 7) % 100000);
    for (uint32_t i = 0; i < ALARMS; i += 10) {
        timed[i].is_cleared = true;
        caller_clear_alarm(called.caller, &timed[i].alarm);
        caller_clear_alarm(called.caller, &timed[i].alarm);
        n_expected--;
    }
}

static void
alarms_ring_once_and_in_order(void **state)
{
    (void)state;
    called_open(1, 1, "");
    called_do(set_timed_now, NULL);
    called_wait(&all_done);
    called_close();
    for (unsigned i = 0; i < ALARMS; i++)
        assert_int_equal(timed[i].n_rings, !timed[i].is_cleared);
}

static struct trial beside;

static void
ring_again(struct alarm *alarm)
{
    if (list_entry(alarm, struct timed, alarm)->n_rings++ == 0)
        caller_start(called.caller, &beside.call);
    if (!beside.place)
        caller_set_alarm(called.caller, alarm, 0); /* is long past */
    else
        sem_post(&all_done);
}

static void
set_again_now(void *user)
{
    (void)user;
    timed[0] = (struct timed){.alarm.ring = ring_again};
    caller_set_alarm(called.caller, &timed[0].alarm, 0);
    assert_int_equal(timed[0].n_rings, 0);
}

/* One that is always due leaves the others their share. */
static void
an_alarm_may_be_set_as_it_rings(void **state)
{
    (void)state;
    called_open(1, 1, LOOPBACK);
    trial_init(&beside, "http://127.0.0.1:%u/ok", odd.port);
    called_do(set_again_now, NULL);
    trial_wait(&beside);
    called_wait(&all_done);
    assert_int_equal(beside.call.status, 200);
}

/* An earlier one moves the timer, a later one leaves it. */
static struct alarm late, soon;

static void
ring_soon(struct alarm *alarm)
{
    assert_ptr_equal(alarm, &soon);
    sem_post(&all_done);
}

static void
set_late_and_soon_now(void *user)
{
    int64_t now_us = clock_steady_us();

    (void)user;
    late = soon = (struct alarm){.ring = ring_soon};
    caller_set_alarm(called.caller, &late, now_us + 3600000000);
    caller_set_alarm(called.caller, &soon, now_us + 7200000000);
    caller_set_alarm(called.caller, &soon, now_us + 1000);
}

static void
an_earlier_alarm_is_not_kept_waiting(void **state)
{
    (void)state;
    called_open(1, 1, "");
    called_do(set_late_and_soon_now, NULL);
    called_wait(&all_done);
}

/* TLS */

static void
answer_hello(struct request *rq, void *user)
{
    struct response r;

    (void)user;
    response_init(&r, 200, "text/plain");
    r.text = SLICE("hello");
    request_answer(rq, &r);
}

static struct server *
open_tls_server(const struct certificate *c)
{
    struct server_options options = {.host = "127.0.0.1",
                                     .threads = 1,
                                     .tls_cert = c->cert,
                                     .tls_key = c->key,
                                     .request_timeout_us = 60000000,
                                     .on_request = answer_hello};
    struct problem why = {"", 0, 0};
    struct server *server = NULL;

    if (server_open(&server, &options, &why))
        fail_msg("%s", why.text);
    return server;
}

static void
https(struct trial *t, const char *host, unsigned port)
{
    trial_init(t, "https://%s:%u/", host, port);
    trial_run(t);
}

/* W-162: HTTPS is what it says. */
static void
only_those_are_believed_whom_an_authority_vouches_for(void **state)
{
    struct certificate c;
    struct tempdir dir;
    struct server *server = NULL;
    struct trial t;
    unsigned port;

    (void)state;
    tempdir_open(&dir);
    certificate_make(&c, dir.path, NULL);
    server = open_tls_server(&c);
    port = server_port(server);

    called_open(4, 4, LOOPBACK);
    https(&t, "127.0.0.1", port);
    assert_int_equal(t.call.failure, CALL_TLS);
    assert_non_null(strstr(t.call.why, "certificate"));
    trial_init(&t, "http://127.0.0.1:%u/", port);
    trial_run(&t);
    assert_true(t.call.status != 200);
    trial_init(&t, "https://127.0.0.1:%u/", odd.port); /* speaks no TLS */
    t.call.timeout_us = 150000;
    trial_run(&t);
    assert_true(t.call.failure == CALL_TLS || t.call.failure == CALL_TIMEOUT);
    called_close();

    setenv("SSL_CERT_FILE", c.ca, 1);
    called_open(4, 4, LOOPBACK);
    https(&t, "127.0.0.1", port);
    assert_int_equal(t.call.failure, CALL_ANSWERED);
    assert_string_equal(t.answer, "hello");
    https(&t, "localhost", port);
    assert_int_equal(t.call.failure, CALL_ANSWERED);
    https(&t, "127.0.0.2", port); /* nobody listens */
    assert_int_equal(t.call.failure, CALL_UNCONNECTED);
    called_close();

    setenv("SSL_CERT_FILE", "/no/such/file", 1); /* said on standard error */
    called_open(4, 4, LOOPBACK);
    https(&t, "127.0.0.1", port);
    assert_int_equal(t.call.failure, CALL_TLS);
    called_close();
    unsetenv("SSL_CERT_FILE");

    server_close(server, 0);
    tempdir_close(&dir);
}

static void
a_certificate_is_one_of_its_host(void **state)
{
    struct certificate_wish other = {.names = "DNS:other.example"};
    struct certificate c;
    struct tempdir dir;
    struct server *server = NULL;
    struct trial t;

    (void)state;
    tempdir_open(&dir);
    certificate_make(&c, dir.path, &other);
    server = open_tls_server(&c);
    setenv("SSL_CERT_FILE", c.ca, 1);
    called_open(4, 4, LOOPBACK);

    https(&t, "127.0.0.1", server_port(server));
    assert_int_equal(t.call.failure, CALL_TLS);

    unsetenv("SSL_CERT_FILE");
    called_close();
    server_close(server, 0);
    tempdir_close(&dir);
}

/* Descriptors */

static void
a_call_without_a_descriptor_is_not_blamed_on_its_host(void **state)
{
    struct rlimit files, few;
    struct trial t;
    int first_free;

    (void)state;
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

static void
no_more_descriptors_are_open_than_said(void **state)
{
    static struct trial t[200];
    unsigned before, after;

    (void)state;
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
    odd_await_least(&odd, &odd.n_left, 200 - caller_files(4, 2));
    after = n_files();
    assert_true(after - before <= 2 * caller_files(4, 2));
    called_close();
    odd_await(&odd, &odd.n_left, 200);
    assert_int_equal(n_files(), before);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_end_comes_last),
        TEST(calls_of_every_state_are_cut_at_the_end),
        TEST(no_wake_is_lost),
        TEST(tasks_run_in_the_order_of_their_thread),
        TEST(a_call_started_at_the_end_of_a_turn_is_made),
        TEST(jobs_are_done_elsewhere_and_told_here),
        TEST(alarms_ring_once_and_in_order),
        TEST(an_alarm_may_be_set_as_it_rings),
        TEST(an_earlier_alarm_is_not_kept_waiting),
        TEST(only_those_are_believed_whom_an_authority_vouches_for),
        TEST(a_certificate_is_one_of_its_host),
        TEST(a_call_without_a_descriptor_is_not_blamed_on_its_host),
        TEST(no_more_descriptors_are_open_than_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
