/*
 * handle_loop.c - the private loop, by libuv.
 *
 * libuv's handles must outlive their uv_close by a turn of the loop. Freeing a
 * timer or descriptor closes it at once, so that nothing calls it any more; the
 * close callback frees its memory.
 */
#include "client/lib/handle_loop.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <uv.h>

/* After so many timers, or so long, timers that a callback starts wait for the
 * next turn. */
#define TIMERS_MOST    64
#define TIMERS_MOST_NS 20000000u

struct handle_loop {
    uv_loop_t uv;
    uv_poll_t stop;
    unsigned n_timers;  /* called in this turn */
    uint64_t timers_ns; /* when the first of them was */
    bool is_in_timer;
    bool is_stopped; /* stop_fd was readable */
    bool is_turning;

    /* Something has begun since the last turn began. libuv 1.44 registers it
     * with the kernel in a turn, and until then uv_backend_timeout ignores it:
     * a program that waits for handle_loop_fd would wait in vain. */
    bool is_new;
};

struct timer {
    uv_timer_t uv;
    struct handle_loop *loop;
    timer_fn *fn;
    void *user;
};

struct descriptor {
    uv_poll_t uv;
    struct handle_loop *loop;
    descriptor_fn *fn;
    void *user;
};

struct chore {
    uv_work_t uv;
    uv_sem_t end; /* of work */
    chore_fn *work;
    chore_fn *done; /* NULL: chore_free was called */
    void *user;
};

static void
on_stop(uv_poll_t *handle, int status, int events)
{
    struct handle_loop *loop = handle->data;

    (void)status;
    (void)events;
    loop->is_stopped = true;
    uv_poll_stop(handle); /* the stopped call empties it, later */
    uv_stop(&loop->uv);
}

struct handle_loop *
handle_loop_new(int stop_fd)
{
    struct handle_loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return NULL;
    if (uv_loop_init(&loop->uv)) {
        free(loop);
        return NULL;
    }
    if (uv_poll_init(&loop->uv, &loop->stop, stop_fd)) {
        uv_loop_close(&loop->uv);
        free(loop);
        return NULL;
    }
    loop->stop.data = loop;
    uv_poll_start(&loop->stop, UV_READABLE, on_stop);
    uv_unref((uv_handle_t *)&loop->stop);
    loop->is_new = true;
    return loop;
}

void
handle_loop_free(struct handle_loop *loop)
{
    if (!loop)
        return;
    uv_close((uv_handle_t *)&loop->stop, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT); /* runs the close callbacks */
    uv_loop_close(&loop->uv);
    free(loop);
}

int
handle_loop_fd(const struct handle_loop *loop)
{
    return uv_backend_fd(&loop->uv);
}

int
handle_loop_timeout_ms(const struct handle_loop *loop)
{
    if (loop->is_new)
        return 0;
    if (!uv_loop_alive(&loop->uv))
        return -1;
    /* libuv's time is that of its last turn. */
    uv_update_time((uv_loop_t *)&loop->uv);
    return uv_backend_timeout(&loop->uv);
}

/* Turns once. OpenSSL's writes to sockets raise SIGPIPE if the other side is
 * gone. The signals are the program's: the turn blocks SIGPIPE, and takes one
 * away that was not pending before. */
static void
turn(struct handle_loop *loop, uv_run_mode mode)
{
    static const struct timespec at_once = {0, 0};
    sigset_t pipe_only, before, pending;
    bool was_pending;

    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);

    /* Without a live handle libuv would look at no descriptor, and not wait:
     * the one of the stop counts while it turns. */
    uv_ref((uv_handle_t *)&loop->stop);
    loop->is_turning = true;
    loop->n_timers = 0;
    loop->is_new = false;
    uv_run(&loop->uv, mode);
    loop->is_turning = false;
    uv_unref((uv_handle_t *)&loop->stop);

    if (!was_pending)
        while (sigtimedwait(&pipe_only, NULL, &at_once) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Begins to turn: hears of stops from now on. One that came before is heard in
 * the first turn. */
static enum status
begin(struct handle_loop *loop)
{
    if (loop->is_turning)
        return STATUS_INVALID;
    loop->is_stopped = false;
    uv_poll_start(&loop->stop, UV_READABLE, on_stop);
    return STATUS_OK;
}

enum status
handle_loop_service(struct handle_loop *loop)
{
    if (begin(loop))
        return STATUS_INVALID;
    turn(loop, UV_RUN_NOWAIT);
    return loop->is_stopped ? STATUS_STOPPED : STATUS_OK;
}

enum status
handle_loop_until(struct handle_loop *loop, const bool *is_over)
{
    if (begin(loop))
        return STATUS_INVALID;
    while (!*is_over && !loop->is_stopped)
        turn(loop, UV_RUN_ONCE);
    return *is_over ? STATUS_OK : STATUS_STOPPED;
}

/* Timers */

static void
on_timer(uv_timer_t *handle)
{
    struct timer *timer = handle->data;
    struct handle_loop *loop = timer->loop;

    /* A turn calls timers first and then waits for descriptors, perhaps for
     * ever. This timer may be the awaited event: then it must not wait. */
    uv_stop(handle->loop);
    if (loop->n_timers++ == 0)
        loop->timers_ns = uv_hrtime();
    loop->is_in_timer = true;
    timer->fn(timer->user); /* it may free the timer */
    loop->is_in_timer = false;
}

struct timer *
timer_new(struct handle_loop *loop, timer_fn *fn, void *user)
{
    struct timer *timer = calloc(1, sizeof(*timer));

    if (!timer)
        return NULL;
    uv_timer_init(&loop->uv, &timer->uv);
    timer->uv.data = timer;
    timer->loop = loop;
    timer->fn = fn;
    timer->user = user;
    return timer;
}

static void
on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void
timer_free(struct timer *timer)
{
    if (!timer)
        return;
    timer->loop->is_new = true;
    uv_close((uv_handle_t *)&timer->uv, on_closed);
}

/* libuv counts from the beginning of the turn: work in between would make the
 * timer too early. */
void
timer_start(struct timer *timer, uint64_t ms)
{
    uv_loop_t *uv = &timer->loop->uv;
    uint64_t now_ns = uv_hrtime();

    /* libuv calls timers until none is due. A timer that restarts itself would
     * keep libuv from looking at sockets and at the stop. So after a while the
     * time stands still for this turn, and new timers are due in the next. */
    if (timer->loop->is_in_timer && timer->loop->n_timers > TIMERS_MOST &&
        now_ns - timer->loop->timers_ns > TIMERS_MOST_NS) {
        uint64_t late_ms = now_ns / 1000000 - uv_now(uv);

        ms += late_ms > 0 && late_ms < INT64_MAX ? late_ms : 1;
    } else {
        uv_update_time(uv);
    }
    uv_timer_start(&timer->uv, on_timer, ms, 0);
}

void
timer_stop(struct timer *timer)
{
    uv_timer_stop(&timer->uv);
}

/* Descriptors */

static void
on_ready(uv_poll_t *handle, int status, int events)
{
    struct descriptor *descriptor = handle->data;
    int ready = 0;

    /* Reports an error as both: the next read or write then meets it. */
    if (status < 0)
        ready = READY_READ | READY_WRITE;
    if (events & UV_READABLE)
        ready |= READY_READ;
    if (events & UV_WRITABLE)
        ready |= READY_WRITE;
    descriptor->fn(ready, descriptor->user);
}

struct descriptor *
descriptor_new(struct handle_loop *loop, int fd, descriptor_fn *fn, void *user)
{
    struct descriptor *descriptor = calloc(1, sizeof(*descriptor));

    if (!descriptor || uv_poll_init(&loop->uv, &descriptor->uv, fd)) {
        free(descriptor);
        return NULL;
    }
    descriptor->uv.data = descriptor;
    descriptor->loop = loop;
    descriptor->fn = fn;
    descriptor->user = user;
    return descriptor;
}

void
descriptor_set(struct descriptor *descriptor, int events)
{
    int wanted = (events & READY_READ ? UV_READABLE : 0) |
                 (events & READY_WRITE ? UV_WRITABLE : 0);

    descriptor->loop->is_new = true;
    if (wanted)
        uv_poll_start(&descriptor->uv, wanted, on_ready);
    else
        uv_poll_stop(&descriptor->uv);
}

void
descriptor_free(struct descriptor *descriptor)
{
    if (!descriptor)
        return;
    descriptor->loop->is_new = true;
    uv_close((uv_handle_t *)&descriptor->uv, on_closed);
}

/* Chores */

static void
on_other_thread(uv_work_t *work)
{
    struct chore *chore = work->data;

    chore->work(chore->user);
    uv_sem_post(&chore->end);
}

/* Also called after chore_free: only here libuv gives the memory back. */
static void
on_worked(uv_work_t *work, int status)
{
    struct chore *chore = work->data;

    (void)status; /* UV_ECANCELED: by chore_free */
    if (chore->done)
        chore->done(chore->user);
    uv_sem_destroy(&chore->end);
    free(chore);
}

struct chore *
chore_start(struct handle_loop *loop, chore_fn *work, chore_fn *done,
            void *user)
{
    struct chore *chore = calloc(1, sizeof(*chore));

    if (!chore)
        return NULL;
    *chore = (struct chore){.work = work, .done = done, .user = user};
    chore->uv.data = chore;
    if (uv_sem_init(&chore->end, 0)) {
        free(chore);
        return NULL;
    }
    loop->is_new = true;
    uv_queue_work(&loop->uv, &chore->uv, on_other_thread, on_worked);
    return chore;
}

void
chore_free(struct chore *chore)
{
    if (!chore)
        return;
    if (uv_cancel((uv_req_t *)&chore->uv))
        uv_sem_wait(&chore->end);
    chore->done = NULL;
}
