/*
 * thread.h - a named thread that sleeps until another thread wakes or stops it,
 * or a time has come.
 *
 *     static void
 *     run(struct thread *t)
 *     {
 *         while (thread_wait(t, 1000000))
 *             ... one round ...
 *     }
 *
 * A wake during a round makes the next thread_wait return at once: no wake is
 * lost.
 */
#pragma once

#include <pthread.h>

#include "base/relaxed.h"
#include "proto/problem.h"

struct thread {
    pthread_t id;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_running; /* thread_start succeeded and thread_stop has not run */
    bool is_woken;
    bool is_stopping;
    _Atomic(int64_t) alive_us; /* the last sign of life; relaxed: it stands
                                  alone */
    char name[16];
    void (*run)(struct thread *t);
    void *user;
};

/* Starts `run(t)` on a new thread with signals blocked. `name` has at most 15
 * characters. */
MUST_CHECK enum status thread_start(struct thread *t, const char *name,
                                    void (*run)(struct thread *t), void *user,
                                    struct problem *why);

/* Any thread, between thread_start and thread_stop. */
void thread_wake(struct thread *t);

/* For the thread itself: sleeps until woken, or `wait_us` microseconds have
 * passed (negative: no limit). false: the thread must end now. */
bool thread_wait(struct thread *t, int64_t wait_us);

/* For the thread itself: a sign of life, for those who watch whether it hangs.
 * Each thread_wait gives one. */
void thread_show_life(struct thread *t);

/* Microseconds since the last sign of life. Any thread, after thread_start. */
int64_t thread_silent_us(const struct thread *t);

/* Asks the thread to stop, and waits for its end. Allowed if it never
 * started. */
void thread_stop(struct thread *t);

/* Makes a condition whose waits are measured by the steady clock, so that
 * setting the time ends none. */
void thread_init_changed(pthread_cond_t *changed);

/* From now on other threads go before the calling one when they compete for a
 * processor. */
void thread_lower_priority(void);
