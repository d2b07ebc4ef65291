/*
 * thread.h - a named thread that sleeps until it is woken, a time has come, or
 * it is asked to stop.
 *
 *     static void
 *     run(struct thread *t)
 *     {
 *         while (thread_wait(t, 1000000))
 *             ... one round ...
 *     }
 *
 * A wake that comes during a round makes the next thread_wait return at once:
 * none is lost.
 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/problem.h"
#include "proto/status.h"

struct thread {
    pthread_t id;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_running; /* thread_start succeeded and thread_stop has not run */
    bool is_woken;
    bool is_stopping;
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

/* The thread's own: sleeps until woken, or `wait_us` microseconds have passed
 * (negative: no limit). false: it is to end now. */
bool thread_wait(struct thread *t, int64_t wait_us);

/* Asks it to stop and waits until it has ended. Harmless if it never started.
 */
void thread_stop(struct thread *t);

/* A condition whose waits are measured by the steady clock, so that setting the
 * time wakes nobody; 0, or an errno. */
MUST_CHECK int thread_init_changed(pthread_cond_t *changed);

/* The calling thread's own: from now on others come first where they compete
 * for a processor. */
void thread_lower_priority(void);

#endif
