#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/net/service.h"
#include "tests/test.h"
#include "tests/unit/net/served.h"

SERVED_GROUPS;

/* A server that may have few files, until the other end of `end` is closed. At
 * each byte a second passes; when the server rests again and a file can be
 * opened, the byte goes back. */
static void
serve_with_few_files(int to, int end)
{
    struct rlimit files = {1000, 1000};
    char byte = 0;
    int own;

    served_open_with(2, 60000000);
    files.rlim_cur = (rlim_t)dup(end) + 20;
    setrlimit(RLIMIT_NOFILE, &files);
    served_reopen(); /* it looks at the limit when it opens */
    if (write(to, &served.port, sizeof(served.port)) < 0)
        _exit(2);
    while (read(end, &byte, 1) == 1) {
        served_pass_seconds(1);
        served_assert_rest();
        own = open("/dev/null", O_RDONLY);
        if (own < 0 || close(own))
            _exit(3); /* connections have taken all */
        if (write(to, &byte, 1) != 1)
            _exit(2);
    }
    server_close(served.server, 0);
    _exit(0);
}

/* The server does not spin while more clients have connected than it has
 * descriptors, and it serves clients that come later. (Which of the waiting
 * ones lose their place depends on how the kernel shares them among the
 * threads.) The first test of the file: it forks, and there are no other
 * threads yet. */
TEST(goes_on_after_being_out_of_descriptors)
{
    enum { N = 100, LATER = 15 };
    struct wire *w[N];
    int from[2], end[2], status = 0;
    char byte = 0;
    pid_t child;

    assert_int_equal(pipe(from), 0);
    assert_int_equal(pipe(end), 0);
    child = fork();
    if (!child) {
        close(end[1]);
        serve_with_few_files(from[1], end[0]);
    }
    close(end[0]);
    close(from[1]);
    assert_int_equal(read(from[0], &served.port, sizeof(served.port)),
                     sizeof(served.port));
    for (int i = 0; i < N; i++) {
        w[i] = served_dial();
        assert_non_null(w[i]);
    }
    for (int second = 0; second < 12; second++) {
        if (second == 2)
            for (int i = 0; i < N; i++)
                wire_close(w[i]);
        assert_int_equal(write(end[1], "s", 1), 1);
        assert_int_equal(read(from[0], &byte, 1), 1);
    }
    for (int i = 0; i < LATER; i++) {
        w[0] = served_connect();
        served_assert_kept(w[0]);
        wire_close(w[0]);
    }
    close(end[1]);
    close(from[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST(opens_and_closes_again_and_again)
{
    for (unsigned i = 0; i < 10; i++) {
        served_open_with(1 + i % 3, 10000000);
        assert_int_equal(served.server->n_services, 1 + i % 3);
        assert_int_equal(service_number(server_service(served.server, i % 3)),
                         i % 3);
        if (i % 2)
            served_assert_alive();
        served_close(state);
    }
    server_close(NULL, 0);
}

TEST(listens_on_addresses_and_names)
{
    static const struct {
        const char *host, *from;
    } rows[] = {{"127.0.0.1", "127.0.0.1"}, {"localhost", "localhost"},
                {"localhost", "127.0.0.1"}, {"::1", "::1"},
                {"[::1]", "::1"},           {"0.0.0.0", "127.0.0.1"},
                {"::", "127.0.0.1"},        {"::", "::1"}};

    int v6 = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 here = {.sin6_family = AF_INET6,
                                .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool has_v6 = !bind(v6, (struct sockaddr *)&here, sizeof(here));

    close(v6);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct server_options options = {.host = rows[i].host,
                                         .threads = 2,
                                         .request_timeout_us = 60000000,
                                         .on_request = served_on_request};
        struct problem why = {"", 0, 0};
        struct server *server = NULL;

        if (!has_v6 && strchr(rows[i].host, ':'))
            continue;
        if (server_open(&server, &options, &why))
            fail_msg("%s", why.text);
        for (int n = 0; n < 4; n++) {
            struct wire *w = wire_connect(rows[i].from, server_port(server));

            assert_non_null(w);
            served_assert_kept(w);
            wire_close(w);
        }
        server_close(server, 1000000);
    }
}

FIXTURE(served_open, served_close);

TEST(says_what_cannot_be_listened_on)
{
    static const struct {
        const char *host, *why[2];
    } rows[] = {
        /* A second broker must not share the port of the first. */
        {"127.0.0.1", {"127.0.0.1 port ", "Address already in use"}},
        {"192.0.2.1", {"192.0.2.1", "Cannot assign requested address"}},
        {"no such host.invalid", {"", ""}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct server_options options = {.host = rows[i].host,
                                         .port = served.port,
                                         .threads = 2,
                                         .request_timeout_us = 60000000,
                                         .on_request = served_on_request};
        struct problem why = {"", 0, 0};
        struct server *server = NULL;

        assert_int_equal(server_open(&server, &options, &why), STATUS_IO);
        assert_null(server);
        if (!strstr(why.text, rows[i].why[0]) ||
            !strstr(why.text, rows[i].why[1]))
            fail_msg("%s: %s", rows[i].host, why.text);
        assert_int_equal(server_open(&server, &options, NULL), STATUS_IO);
    }
    served_assert_alive();
}

TEST(takes_its_port_again_at_once)
{
    struct wire *w = served_connect();

    served_assert_kept(w);
    served.options.port = served.port;
    served_reopen();
    served_assert_ended(w);
    served_assert_alive();
}

/* Wakes, tasks, jobs */

TEST(wakes_each_service)
{
    for (unsigned i = 0; i < 100; i++) {
        unsigned before = atomic_load(&served.n_wakes);

        service_wake(server_service(served.server, i % 2));
        AWAIT(atomic_load(&served.n_wakes) != before);
    }
}

static atomic_uint n_told, n_seen;
static atomic_bool is_lost;

static void
look(struct service *service, void *user)
{
    (void)service;
    (void)user;
    atomic_store(&n_seen, atomic_load(&n_told));
}

static void *
tell(void *unused)
{
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        atomic_fetch_add(&n_told, 1);
        service_wake(server_service(served.server, 0));
    }
    return NULL;
}

/* An on_wake sees everything that happened before its wake. */
TEST(loses_no_wake)
{
    pthread_t tellers[3];

    served.options.on_wake = look;
    served_reopen();
    atomic_store(&n_told, 0);
    for (int i = 0; i < 3; i++)
        pthread_create(&tellers[i], NULL, tell, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(tellers[i], NULL);

    served_await(&n_seen, 60000);
}

struct numbered {
    struct task task;
    unsigned number;
    pthread_t on;
};

static atomic_uint next_number;

static void
count_task(struct task *task)
{
    struct numbered *t = list_entry(task, struct numbered, task);

    t->on = pthread_self();
    if (t->number != atomic_fetch_add(&next_number, 1))
        atomic_store(&is_lost, true);
}

static struct numbered tasks[1000];

static void
post_tasks(unsigned service)
{
    atomic_store(&next_number, 0);
    for (unsigned i = 0; i < 1000; i++) {
        tasks[i] = (struct numbered){.task = {.run = count_task}, .number = i};
        service_post(server_service(served.server, service), &tasks[i].task);
    }
}

TEST(runs_tasks_in_order)
{
    post_tasks(1);

    served_await(&next_number, 1000);
    assert_false(atomic_load(&is_lost));
    assert_false(pthread_equal(tasks[0].on, pthread_self()));
    assert_true(pthread_equal(tasks[0].on, tasks[999].on));
}

TEST(runs_what_was_posted_before_the_end)
{
    post_tasks(0);
    server_close(served.server, 0);
    served.server = NULL;

    assert_int_equal(atomic_load(&next_number), 1000);
}

struct errand {
    struct task task;
    struct job job;
    struct service *service;
    pthread_t asked, worked, done;
    atomic_uint stage;
    int pipe[2]; /* the work waits for the other end to be closed */
};

static void
do_work(struct job *job)
{
    struct errand *e = list_entry(job, struct errand, job);
    char byte = 0;

    e->worked = pthread_self();
    atomic_store(&e->stage, 1);
    (void)!read(e->pipe[0], &byte, 1);
}

static void
work_is_done(struct job *job)
{
    struct errand *e = list_entry(job, struct errand, job);

    e->done = pthread_self();
    atomic_store(&e->stage, 2);
}

static void
ask_for_work(struct task *task)
{
    struct errand *e = list_entry(task, struct errand, task);

    e->asked = pthread_self();
    e->job = (struct job){do_work, work_is_done};
    service_work(e->service, &e->job);
}

static void
start_errand(struct errand *e)
{
    *e = (struct errand){.task = {.run = ask_for_work}};
    assert_int_equal(pipe(e->pipe), 0);
    e->service = server_service(served.server, 0);
    service_post(e->service, &e->task);
    served_await(&e->stage, 1);
}

TEST(works_elsewhere_and_comes_back)
{
    struct errand e;

    start_errand(&e);
    served_assert_alive(); /* while it is at work */
    close(e.pipe[1]);

    served_await(&e.stage, 2);
    assert_false(pthread_equal(e.asked, e.worked));
    assert_true(pthread_equal(e.asked, e.done));
    close(e.pipe[0]);
}

/* Waits until nobody listens any more. */
static void
await_no_listener(void)
{
    struct wire *w = NULL;

    for (unsigned n = 0; (w = served_dial()); n++) {
        wire_close(w);
        test_yield(n);
    }
}

static void *
close_later(void *argument)
{
    struct errand *e = argument;

    await_no_listener();
    close(e->pipe[1]);
    return NULL;
}

TEST(waits_for_a_job_at_the_end)
{
    struct errand e;
    pthread_t closer;

    start_errand(&e);
    pthread_create(&closer, NULL, close_later, &e);
    server_close(served.server, 0);
    served.server = NULL;

    assert_int_equal(atomic_load(&e.stage), 2);
    pthread_join(closer, NULL);
    close(e.pipe[0]);
}

TEST(comes_by_once_a_second)
{
    for (unsigned i = 0; i < 3; i++) {
        clock_await_waits_us(2, SECOND);
        clock_pass_us(SECOND - 1000);
        served_turn();
        assert_int_equal(atomic_load(&served.n_seconds), 2 * i);
        clock_await_waits_us(2, 1000);
        clock_pass_us(1000);
        served_await(&served.n_seconds, 2 * (i + 1));
    }
}

/* The end */

TEST(refuses_on_kept_connections_when_stopping)
{
    struct wire *w = served_connect();

    served_assert_kept(w);
    server_stop_accepting(served.server);

    assert_true(wire_send_text(w, GET("/small")));
    served_assert_answer(w, 503, NULL);
    served_assert_ended(w);
    await_no_listener();
}

static void *
answer_soon(void *unused)
{
    (void)unused;
    await_no_listener();
    served_pause(false);
    return NULL;
}

TEST(waits_at_the_end_until_all_is_answered)
{
    struct wire *w = NULL;
    pthread_t answerer;

    served_pause(true);
    w = served_sent(POST("/later", "3") "abc");
    served_await(&served.n_open, 1);
    pthread_create(&answerer, NULL, answer_soon, NULL);
    server_close(served.server, 10000000);
    served.server = NULL;
    pthread_join(answerer, NULL);

    served_assert_answer(w, 200, "later 3");
    served_assert_ended(w);
    assert_int_equal(atomic_load(&served.n_gone), 0);
}

static int
open_alone(void **state)
{
    (void)state;
    served_open_with(1, 10000000);
    return 0;
}

/* One thread: another, which has nothing to wait for, would end at once. */
TEST(cuts_at_the_end_what_takes_too_long, open_alone, served_close)
{
    struct wire *never = served_connect();
    struct wire *stuck = served_connect_narrow();
    struct wire *half = served_connect();
    int64_t cut_at_us = clock_steady_us() + 300000;

    clock_run_us(0, 0);
    assert_true(wire_send_text(never, GET("/never")));
    assert_true(wire_send_text(stuck, GET("/pool?size=10000000")));
    assert_true(wire_send_text(half, POST("/echo", "9") "abc"));
    served_await(&served.n_open, 2);
    served_await(&served.n_bodies, 1);
    server_stop_accepting(served.server);
    service_end(server_service(served.server, 0), cut_at_us);
    served_turn();
    clock_pass_us(299000);
    served_turn();
    assert_int_equal(atomic_load(&served.n_gone), 0);
    assert_int_equal(atomic_load(&served.n_bodies), 1);
    clock_await_us(1000);
    clock_pass_us(1000);
    served_await(&served.n_gone, 2);
    served_await(&served.n_bodies, 0);
    wire_close(never);
    wire_close(stuck);
    wire_close(half);
}
