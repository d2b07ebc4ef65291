/*
 * handle_loop_test.c - what happens on a handle, one thing after the other.
 * Jobs: tests/unit/base/loop_test.c.
 */
#include "client/lib/handle_loop.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/clock.h"
#include "tests/test.h"

struct stage {
    int stop_fd;
    int fd; /* an eventfd to watch */
    struct handle_loop *loop;
    struct timer timer;
    struct descriptor *descriptor;
    unsigned n_timer;
    unsigned n_ready;
    bool is_over;
};

static struct stage s;

static int
set_stage(void **state)
{
    (void)state;
    s = (struct stage){.n_timer = 0};
    s.stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    s.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    s.loop = handle_loop_new(s.stop_fd);
    assert_non_null(s.loop);
    return 0;
}

static int
clear_stage(void **state)
{
    (void)state;
    timer_stop(&s.timer);
    descriptor_free(s.descriptor);
    handle_loop_free(s.loop);
    close(s.fd);
    close(s.stop_fd);
    return 0;
}

static void
signal_fd(int fd)
{
    const uint64_t one = 1;

    assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
}

static void
on_timer(void *user)
{
    (void)user;
    s.n_timer++;
    s.is_over = true;
}

static void
on_ready(int events, void *user)
{
    uint64_t count;

    (void)user;
    assert_true(events & READY_READ);
    assert_int_equal(read(s.fd, &count, sizeof(count)), sizeof(count));
    s.n_ready++;
    s.is_over = true;
}

FIXTURE(set_stage, clear_stage);

TEST(a_timer_calls_back_once)
{
    timer_init(&s.timer, s.loop, on_timer, NULL);
    assert_int_equal(handle_loop_service(s.loop), STATUS_OK);
    clock_pass_us(1000000); /* nor does it count from the last turn */
    timer_start(&s.timer, 60000);

    clock_pass_us(59999 * INT64_C(1000));
    assert_int_equal(handle_loop_service(s.loop), STATUS_OK);
    assert_int_equal(s.n_timer, 0);
    clock_pass_us(1000);
    assert_int_equal(handle_loop_until(s.loop, &s.is_over), STATUS_OK);
    assert_int_equal(s.n_timer, 1);
    clock_pass_us(60000 * INT64_C(1000));
    assert_int_equal(handle_loop_service(s.loop), STATUS_OK);
    assert_int_equal(s.n_timer, 1);
    assert_int_equal(handle_loop_timeout_ms(s.loop), -1);
}

TEST(a_timer_that_was_stopped_calls_nobody)
{
    timer_init(&s.timer, s.loop, on_timer, NULL);
    timer_start(&s.timer, 0);
    timer_stop(&s.timer);

    assert_int_equal(handle_loop_service(s.loop), STATUS_OK);

    assert_int_equal(s.n_timer, 0);
}

/* A program that turns the loop from outside waits for handle_loop_fd: it must
 * become readable also for work that began after the last turn. */
TEST(another_loop_hears_of_what_was_begun_since_the_last_turn)
{
    struct pollfd wait = {.fd = handle_loop_fd(s.loop), .events = POLLIN};

    assert_int_equal(handle_loop_service(s.loop), STATUS_OK);
    s.descriptor = descriptor_new(s.loop, s.fd, on_ready, NULL);
    descriptor_set(s.descriptor, READY_READ);
    assert_int_equal(handle_loop_timeout_ms(s.loop), 0);
    assert_int_equal(handle_loop_service(s.loop), STATUS_OK);
    assert_int_equal(handle_loop_timeout_ms(s.loop), -1);
    assert_int_equal(poll(&wait, 1, 0), 0);

    signal_fd(s.fd);

    assert_int_equal(poll(&wait, 1, -1), 1);
    assert_int_equal(handle_loop_service(s.loop), STATUS_OK);
    assert_int_equal(s.n_ready, 1);
}

TEST(tells_how_long_to_wait)
{
    int ms;

    assert_int_equal(handle_loop_service(s.loop), STATUS_OK);
    assert_int_equal(handle_loop_timeout_ms(s.loop), -1);
    timer_init(&s.timer, s.loop, on_timer, NULL);
    timer_start(&s.timer, 60000);
    assert_int_equal(handle_loop_service(s.loop), STATUS_OK);

    ms = handle_loop_timeout_ms(s.loop);

    assert_in_range(ms, 1, 60000);
}

TEST(a_stop_ends_the_turning_and_is_not_lost)
{
    uint64_t count;

    signal_fd(s.stop_fd);
    assert_int_equal(handle_loop_until(s.loop, &s.is_over), STATUS_STOPPED);
    assert_int_equal(handle_loop_service(s.loop), STATUS_STOPPED);
    assert_int_equal(read(s.stop_fd, &count, sizeof(count)), sizeof(count));

    assert_int_equal(handle_loop_service(s.loop), STATUS_OK);
}

TEST(a_stop_wakes_another_loop)
{
    struct pollfd wait = {.fd = handle_loop_fd(s.loop), .events = POLLIN};

    assert_int_equal(handle_loop_service(s.loop), STATUS_OK);
    assert_int_equal(poll(&wait, 1, 0), 0);

    signal_fd(s.stop_fd);

    assert_int_equal(poll(&wait, 1, -1), 1);
    assert_int_equal(handle_loop_service(s.loop), STATUS_STOPPED);
}

static void
free_both(void *user)
{
    (void)user;
    timer_stop(&s.timer);
    descriptor_free(s.descriptor);
    s.descriptor = NULL;
    s.n_timer++;
}

TEST(a_callback_may_free_itself_and_others)
{
    timer_init(&s.timer, s.loop, free_both, NULL);
    s.descriptor = descriptor_new(s.loop, s.fd, on_ready, NULL);
    descriptor_set(s.descriptor, READY_READ);
    signal_fd(s.fd);
    timer_start(&s.timer, 0);

    assert_int_equal(handle_loop_service(s.loop), STATUS_OK);
    assert_int_equal(handle_loop_service(s.loop), STATUS_OK);

    assert_int_equal(s.n_timer, 1);
    assert_int_equal(s.n_ready, 0);
}

static void
turn_again(void *user)
{
    (void)user;
    assert_int_equal(handle_loop_service(s.loop), STATUS_INVALID);
    assert_int_equal(handle_loop_until(s.loop, &s.is_over), STATUS_INVALID);
    s.n_timer++;
}

TEST(refuses_to_turn_inside_a_turn)
{
    timer_init(&s.timer, s.loop, turn_again, NULL);
    timer_start(&s.timer, 0);

    assert_int_equal(handle_loop_service(s.loop), STATUS_OK);

    assert_int_equal(s.n_timer, 1);
}

static volatile sig_atomic_t n_pipes;

static void
on_pipe(int number)
{
    (void)number;
    n_pipes++;
}

static void
break_a_pipe(void *user)
{
    int ends[2];

    (void)user;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    close(ends[1]);
    assert_int_equal(write(ends[0], "x", 1), -1);
    close(ends[0]);
    s.n_timer++;
}

TEST(the_process_hears_of_no_sigpipe_and_keeps_its_handler)
{
    struct sigaction ours = {.sa_handler = on_pipe}, now;

    assert_int_equal(sigaction(SIGPIPE, &ours, NULL), 0);
    timer_init(&s.timer, s.loop, break_a_pipe, NULL);
    timer_start(&s.timer, 0);

    assert_int_equal(handle_loop_service(s.loop), STATUS_OK);

    assert_int_equal(s.n_timer, 1);
    assert_int_equal(n_pipes, 0);
    sigaction(SIGPIPE, NULL, &now);
    assert_ptr_equal(now.sa_handler, on_pipe);
    raise(SIGPIPE);
    assert_int_equal(n_pipes, 1);
}

static void
on_busy_timer(void *user)
{
    (void)user;
    if (s.n_timer++ == 0)
        signal_fd(s.stop_fd);
    clock_pass_us(5000);
    timer_start(&s.timer, 0);
}

/* Work that is always due again hides neither the stop nor what comes. */
TEST(a_timer_that_starts_itself_anew_does_not_keep_the_loop)
{
    (void)state;
    timer_init(&s.timer, s.loop, on_busy_timer, NULL);
    timer_start(&s.timer, 0);
    assert_int_equal(handle_loop_until(s.loop, &s.is_over), STATUS_STOPPED);
    assert_in_range(s.n_timer, 1, 100);
}
