/*
 * handle_loop.c - base/loop, turned by the thread that uses the handle.
 *
 * libuv's handles must outlive their uv_close by a turn of the loop. Freeing a
 * descriptor closes it at once, so that nothing calls it any more; the close
 * callback frees its memory.
 */
#include "client/lib/handle_loop.h"

#include <signal.h>
#include <uv.h>

#include "base/clock.h"

/* A century. */
#define TIMER_MAX_MS (UINT64_C(100) * 366 * 86400 * 1000)

struct handle_loop {
    struct loop *loop;
    uv_poll_t stop;
    bool is_stopped; /* stop_fd was readable */
    bool is_turning;
    struct retired *retired;
};

struct descriptor {
    uv_poll_t uv;
    descriptor_fn *fn;
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
}

struct handle_loop *
handle_loop_new(int stop_fd)
{
    static const struct loop_calls none;
    struct handle_loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return NULL;
    loop->loop = loop_new(&none, NULL);
    if (!loop->loop ||
        uv_poll_init(loop_uv(loop->loop), &loop->stop, stop_fd)) {
        loop_free(loop->loop);
        free(loop);
        return NULL;
    }
    loop->stop.data = loop;
    uv_poll_start(&loop->stop, UV_READABLE, on_stop);
    return loop;
}

static void
release_retired(struct handle_loop *loop)
{
    struct retired *retired;

    while ((retired = loop->retired)) {
        loop->retired = retired->next;
        if (retired->release)
            retired->release(retired);
        else
            free(retired);
    }
}

void
handle_loop_free(struct handle_loop *loop)
{
    if (!loop)
        return;
    release_retired(loop);
    uv_close((uv_handle_t *)&loop->stop, NULL);
    loop_free(loop->loop);
    free(loop);
}

struct loop *
handle_loop_base(struct handle_loop *loop)
{
    return loop->loop;
}

int
handle_loop_fd(const struct handle_loop *loop)
{
    return loop_fd(loop->loop);
}

/* libuv registers a descriptor with the kernel in a turn: until then a program
 * that waits for handle_loop_fd would wait in vain. uv_backend_timeout is 0 as
 * long as something waits for a turn. Its other values count for libuv's own
 * timer, which base/loop sets as a turn begins to wait. */
int
handle_loop_timeout_ms(const struct handle_loop *loop)
{
    return uv_backend_timeout(loop_uv(loop->loop)) ? loop_timeout_ms(loop->loop)
                                                   : 0;
}

void
handle_loop_retire(struct handle_loop *loop, struct retired *retired,
                   void (*release)(struct retired *retired))
{
    retired->is_over = true;
    retired->release = release;
    retired->next = loop->retired;
    loop->retired = retired;
}

/* Turns once. OpenSSL's writes to sockets raise SIGPIPE if the other side is
 * gone. The signals are the program's: the turn blocks SIGPIPE, and takes one
 * away that was not pending before. */
static void
turn_once(struct handle_loop *loop, bool may_wait)
{
    static const struct timespec at_once = {0, 0};
    sigset_t pipe_only, before, pending;
    bool was_pending;

    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);

    loop->is_turning = true;
    loop_turn(loop->loop, may_wait);
    loop->is_turning = false;
    release_retired(loop);

    if (!was_pending)
        while (sigtimedwait(&pipe_only, NULL, &at_once) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Begins to turn: hears of stops from now on. One that came before is heard in
 * the first turn. */
static enum status
begin_turning(struct handle_loop *loop)
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
    if (begin_turning(loop))
        return STATUS_INVALID;
    turn_once(loop, false);
    return loop->is_stopped ? STATUS_STOPPED : STATUS_OK;
}

enum status
handle_loop_until(struct handle_loop *loop, const bool *is_over)
{
    if (begin_turning(loop))
        return STATUS_INVALID;
    while (!*is_over && !loop->is_stopped)
        turn_once(loop, true);
    return *is_over ? STATUS_OK : STATUS_STOPPED;
}

/* Timers */

static void
on_alarm(struct alarm *alarm)
{
    struct timer *timer = list_entry(alarm, struct timer, alarm);

    timer->fn(timer->user); /* it may free the timer */
}

void
timer_init(struct timer *timer, struct handle_loop *loop, timer_fn *fn,
           void *user)
{
    *timer = (struct timer){
        .alarm.ring = on_alarm, .loop = loop->loop, .fn = fn, .user = user};
}

void
timer_start(struct timer *timer, uint64_t ms)
{
    if (ms > TIMER_MAX_MS)
        ms = TIMER_MAX_MS;
    loop_set_alarm(timer->loop, &timer->alarm,
                   clock_steady_us() + (int64_t)ms * 1000);
}

void
timer_stop(struct timer *timer)
{
    loop_clear_alarm(timer->loop, &timer->alarm);
}

/* Descriptors. libuv has the same numbers for events. */

_Static_assert((int)UV_READABLE == READY_READ &&
                   (int)UV_WRITABLE == READY_WRITE,
               "events of libuv");

static void
on_ready(uv_poll_t *handle, int status, int events)
{
    struct descriptor *descriptor = handle->data;

    /* Reports an error as both: the next read or write then meets it. */
    descriptor->fn(status < 0 ? READY_READ | READY_WRITE : events,
                   descriptor->user);
}

struct descriptor *
descriptor_new(struct handle_loop *loop, int fd, descriptor_fn *fn, void *user)
{
    struct descriptor *descriptor = calloc(1, sizeof(*descriptor));

    if (!descriptor || uv_poll_init(loop_uv(loop->loop), &descriptor->uv, fd)) {
        free(descriptor);
        return NULL;
    }
    descriptor->uv.data = descriptor;
    descriptor->fn = fn;
    descriptor->user = user;
    return descriptor;
}

void
descriptor_set(struct descriptor *descriptor, int events)
{
    if (events)
        uv_poll_start(&descriptor->uv, events, on_ready);
    else
        uv_poll_stop(&descriptor->uv);
}

static void
on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void
descriptor_free(struct descriptor *descriptor)
{
    if (!descriptor)
        return;
    uv_close((uv_handle_t *)&descriptor->uv, on_closed);
}
