/*
 * clock.h - the time of a unit test: it stands still until the test moves it.
 *
 * clock.c replaces the functions that tell a process the time or wait with a
 * limit: clock_gettime, time, gettimeofday, pthread_cond_timedwait,
 * sem_timedwait, nanosleep, poll, select, epoll_wait and their kin. So the code
 * under test, libuv, libcurl and libmosquitto live in the time of the test.
 * Nothing times out on a slow machine, and an hour passes at once:
 *
 *     send_half_a_request(w);
 *     clock_await_us(30 * SECOND);       the server waits for the rest
 *     clock_pass_us(30 * SECOND);
 *     assert_true(is_closed(w));         read until its end
 *
 * A test that moves the clock before its thread waits may hang: the wait then
 * begins behind the deadline. It happens on a loaded machine, and with
 * TEST_LATE_WAITS_MS=20 in the environment, which makes each such wait begin
 * that late.
 *
 * The clock begins at noon (UTC) of the system's next day, so that it passes
 * the end of a minute, an hour or a day in every run or in none. A wait without
 * a limit is as ever. Other processes do not know this clock.
 */
#ifndef TESTS_CLOCK_H
#define TESTS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Moves the clock forward by `us` microseconds, and wakes all threads whose
 * deadline has passed. Any thread. */
void clock_pass_us(int64_t us);

/* Sets the time of day (UTC) forward or back, as an administrator does; timers
 * do not notice. */
void clock_set_us(int64_t by_us);

/* The time of day, in microseconds since 1970. */
int64_t clock_day_us(void);

/* Blocks until a thread waits for a time that comes within `us` microseconds. A
 * test that moves the clock before would not be noticed. */
void clock_await_us(int64_t us);

/* The same for `n` threads at once. Time passes meanwhile if the test has said
 * so (clock_run_us). */
void clock_await_waits_us(unsigned n, int64_t us);

/* The clock runs while the calling thread waits: whenever nothing is ready for
 * it, and for `n` other threads that wait, time goes on to the first limit of
 * all these waits, if that is within `us`. For what a server does every few
 * milliseconds while its client waits. 0, 0: no more. */
void clock_run_us(unsigned n, int64_t us);

/* For a thread that looks for something again and again, between two looks;
 * `is_first` after the first. */
void clock_run_on(bool is_first);

/* For a test that itself turns the loop under test: the waits of the calling
 * thread end at once. Where nothing is ready and is_idle(user) is true, the
 * clock moves on to the limit of the wait. NULL: the thread waits as ever.
 * tests/unit/lib/transfers.h has an is_idle. */
void clock_skip_waits(bool (*is_idle)(void *user), void *user);

#endif
