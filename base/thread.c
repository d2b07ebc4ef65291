#include "base/thread.h"

#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static void *
start_thread(void *argument)
{
    struct thread *t = argument;

    pthread_setname_np(pthread_self(), t->name);
    t->run(t);
    return NULL;
}

void
thread_init_changed(pthread_cond_t *changed)
{
    pthread_condattr_t steady;

    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(changed, &steady);
    pthread_condattr_destroy(&steady);
}

enum status
thread_start(struct thread *t, const char *name, void (*run)(struct thread *t),
             void *user, struct problem *why)
{
    static const int own[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                              SIGABRT, SIGTRAP, SIGSYS};
    sigset_t blocked, before;

    *t = (struct thread){.run = run, .user = user};
    snprintf(t->name, sizeof(t->name), "%s", name);
    thread_show_life(t);

    pthread_mutex_init(&t->mutex, NULL);
    thread_init_changed(&t->changed);
    t->is_running = true; /* before run(t) may look */
    /* The thread blocks every signal that other processes may send: those
     * belong to the thread that waits for them. Signals of the thread's own
     * faults (a bad address, abort) stay deliverable, so that they end the
     * process at once. It inherits the mask. */
    sigfillset(&blocked);
    for (size_t i = 0; i < N_ELEMENTS(own); i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    errno = pthread_create(&t->id, NULL, start_thread, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!errno)
        return STATUS_OK;
    t->is_running = false;
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->mutex);
    problem_errno(why, "cannot start the thread", name);
    return STATUS_IO;
}

void
thread_wake(struct thread *t)
{
    pthread_mutex_lock(&t->mutex);
    t->is_woken = true;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->mutex);
}

bool
thread_wait(struct thread *t, int64_t wait_us)
{
    int64_t end_us;
    struct timespec end;
    bool goes_on;

    /* A time that no clock reaches means no limit. */
    if (wait_us >= 0 &&
        __builtin_add_overflow(clock_steady_us(), wait_us, &end_us))
        wait_us = -1;
    if (wait_us >= 0) {
        end.tv_sec = end_us / 1000000;
        end.tv_nsec = end_us % 1000000 * 1000;
    }

    pthread_mutex_lock(&t->mutex);
    while (!t->is_woken && !t->is_stopping) {
        if (wait_us < 0)
            pthread_cond_wait(&t->changed, &t->mutex);
        else if (pthread_cond_timedwait(&t->changed, &t->mutex, &end))
            break;
    }
    t->is_woken = false;
    thread_show_life(t);
    goes_on = !t->is_stopping;
    pthread_mutex_unlock(&t->mutex);
    return goes_on;
}

void
thread_show_life(struct thread *t)
{
    store_relaxed(&t->alive_us, clock_steady_us());
}

int64_t
thread_silent_us(const struct thread *t)
{
    return clock_steady_us() - load_relaxed(&t->alive_us);
}

void
thread_stop(struct thread *t)
{
    if (!t->is_running)
        return;

    pthread_mutex_lock(&t->mutex);
    t->is_stopping = true;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->mutex);

    pthread_join(t->id, NULL);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->mutex);
    t->is_running = false;
}

void
thread_lower_priority(void)
{
    /* On Linux this is for the calling thread only. No guarantee depends on it.
     * With 10 the thread gets a tenth of a processor that one other wants; with
     * 19 it got a seventieth, and beside six busy processes the archive thread
     * folded nothing for minutes. */
    setpriority(PRIO_PROCESS, (id_t)gettid(), 10);
}
