#include "base/loop.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "proto/memory.h"

/* Alarms that ring before the loop looks at its descriptors again. */
#define RINGS_AT_ONCE 64

struct loop {
    struct loop_calls calls;
    void *user;

    uv_loop_t uv;
    uv_poll_t mail;       /* of `wake_fd`: wakes, tasks */
    uv_prepare_t prepare; /* before each sleep */
    uv_idle_t idle;       /* active: the loop must not sleep */
    uv_timer_t timer;     /* ends the sleep at the first alarm */

    struct alarm *first; /* alarm; NULL: none is set */
    int64_t due_us;      /* of the timer, if it is active */
    unsigned n_jobs;     /* given to the worker pool, and not done yet */
    bool is_ending;

    /* Other threads */

    int wake_fd;           /* eventfd */
    atomic_bool is_woken;  /* somebody wrote to it, on_mail not yet read */
    atomic_bool is_wanted; /* loop_wake was called, on_wake not yet */
    atomic_uint n_inside;  /* threads in loop_wake or loop_post */
    pthread_mutex_t mutex; /* protects `mailbox` */
    struct list mailbox;
};

/* Alarms: a pairing heap whose links are in the alarms themselves. Setting one
 * takes constant time; clearing one, on average, a logarithm of their number:
 * tens of thousands may be set at once. */

/* Joins two heaps without siblings. Either may be NULL. */
static struct alarm *
join_heaps(struct alarm *a, struct alarm *b)
{
    if (!a || !b)
        return a ? a : b;
    if (b->at_us < a->at_us) {
        struct alarm *earlier = b;

        b = a;
        a = earlier;
    }
    b->prev = a;
    b->next = a->child;
    if (b->next)
        b->next->prev = b;
    a->child = b;
    return a;
}

/* Takes the first one out of the row `*row`. */
static struct alarm *
take_first(struct alarm **row)
{
    struct alarm *alarm = *row;

    if (alarm) {
        *row = alarm->next;
        alarm->next = alarm->prev = NULL;
    }
    return alarm;
}

void
loop_clear_alarm(struct loop *loop, struct alarm *alarm)
{
    struct alarm *pairs = NULL, *below = NULL, *a = NULL;

    if (!alarm->is_set)
        return;
    /* Makes one heap of its children: by twos from the left, then from the
     * right. */
    while ((a = take_first(&alarm->child))) {
        a = join_heaps(a, take_first(&alarm->child));
        a->next = pairs;
        pairs = a;
    }
    while ((a = take_first(&pairs)))
        below = join_heaps(below, a);
    if (alarm == loop->first) {
        loop->first = below;
    } else {
        if (alarm->prev->child == alarm)
            alarm->prev->child = alarm->next;
        else
            alarm->prev->next = alarm->next;
        if (alarm->next)
            alarm->next->prev = alarm->prev;
        loop->first = join_heaps(loop->first, below);
    }
    alarm->child = alarm->next = alarm->prev = NULL;
    alarm->is_set = false;
}

void
loop_set_alarm(struct loop *loop, struct alarm *alarm, int64_t at_us)
{
    loop_clear_alarm(loop, alarm);
    alarm->at_us = at_us;
    alarm->is_set = true;
    loop->first = join_heaps(loop->first, alarm);
}

/* True if the timer does not cover the first alarm: it is due, or it was set
 * since the last sleep. A timer may end the sleep too early, because its alarm
 * was cleared; never too late. */
static bool
is_uncovered(const struct loop *loop)
{
    const struct alarm *first = loop->first;

    return first && !loop->is_ending &&
           (!uv_is_active((const uv_handle_t *)&loop->timer) ||
            first->at_us < loop->due_us);
}

static void
on_timer(uv_timer_t *timer)
{
    (void)timer; /* on_prepare follows */
}

/* Tasks and wakes */

static void
run_tasks(struct loop *loop)
{
    struct list tasks;
    struct task *task;

    list_init(&tasks);
    pthread_mutex_lock(&loop->mutex);
    list_move(&tasks, &loop->mailbox);
    pthread_mutex_unlock(&loop->mutex);
    list_drain (task, &tasks, node) {
        task->run(task); /* which may free it */
    }
}

/* libuv's own way to wake a loop (uv_async_send) lets the woken thread spin
 * until the other one has returned from it. On one core that never happens
 * meanwhile: each wake cost 10 to 30 us. */
static void
send_wake(struct loop *loop)
{
    (void)eventfd_write(loop->wake_fd, 1);
}

/* loop_hold_wakes of this thread, and the loop that it wakes at the end. */
static _Thread_local bool is_holding;
static _Thread_local struct loop *held;

/* Sends the wake that was held back. */
static void
send_held(void)
{
    if (!held)
        return;
    send_wake(held);
    atomic_fetch_sub(&held->n_inside, 1);
    held = NULL;
}

static void
wake_up(struct loop *loop)
{
    /* Only the first of several wakes the loop; the order: on_mail. */
    if (atomic_exchange(&loop->is_woken, true))
        return;
    if (!is_holding) {
        send_wake(loop);
        return;
    }
    send_held();
    atomic_fetch_add(&loop->n_inside, 1);
    held = loop;
}

void
loop_hold_wakes(void)
{
    is_holding = true;
}

void
loop_release_wakes(void)
{
    is_holding = false;
    send_held();
}

static void
on_mail(uv_poll_t *poll, int status, int events)
{
    struct loop *loop = poll->data;
    eventfd_t n;

    (void)status;
    (void)events;
    /* Read before is_woken is cleared, which is cleared before the mailbox and
     * is_wanted are looked at. Another thread that found it set, and so did not
     * write, is before this exchange in the order of all exchanges. So this
     * exchange sees everything that the other thread did before. A later one
     * finds it clear, and writes again. */
    (void)eventfd_read(loop->wake_fd, &n);
    atomic_exchange(&loop->is_woken, false);
    run_tasks(loop);
    if (atomic_exchange(&loop->is_wanted, false) && loop->calls.on_wake)
        loop->calls.on_wake(loop->user);
}

/* The owner may free the loop as soon as the wake or the task was seen:
 * n_inside lets loop_free wait for the end of these two. */

void
loop_wake(struct loop *loop)
{
    atomic_fetch_add(&loop->n_inside, 1);
    if (!atomic_exchange(&loop->is_wanted, true))
        wake_up(loop);
    atomic_fetch_sub(&loop->n_inside, 1);
}

/* Wakes the loop outside the mutex, or it would wait for the mutex at once. */
void
loop_post(struct loop *loop, struct task *task)
{
    atomic_fetch_add(&loop->n_inside, 1);
    pthread_mutex_lock(&loop->mutex);
    list_append(&loop->mailbox, &task->node);
    pthread_mutex_unlock(&loop->mutex);
    wake_up(loop);
    atomic_fetch_sub(&loop->n_inside, 1);
}

/* Jobs */

struct at_work {
    uv_work_t handle;
    uv_sem_t end; /* of work */
    struct loop *loop;
    struct job *job; /* NULL: dropped */
};

static void
on_work(uv_work_t *handle)
{
    struct at_work *w = handle->data;

    w->job->work(w->job);
    uv_sem_post(&w->end);
}

static void
on_work_done(uv_work_t *handle, int status)
{
    struct at_work *w = handle->data;
    struct job *job = w->job;

    (void)status; /* UV_ECANCELED: by loop_drop_job */
    w->loop->n_jobs--;
    uv_sem_destroy(&w->end);
    free(w);
    if (!job)
        return;
    job->at_work = NULL;
    job->done(job); /* which may free it */
}

void
loop_work(struct loop *loop, struct job *job)
{
    struct at_work *w = memory_room(sizeof(*w));

    if (w && uv_sem_init(&w->end, 0)) {
        free(w);
        w = NULL;
    }
    job->at_work = w;
    if (!w) { /* rather block than never finish */
        job->work(job);
        job->done(job);
        return;
    }
    w->handle.data = w;
    w->loop = loop;
    w->job = job;
    loop->n_jobs++;
    uv_queue_work(&loop->uv, &w->handle, on_work, on_work_done);
}

void
loop_drop_job(struct job *job)
{
    struct at_work *w = job->at_work;

    if (!w)
        return;
    if (uv_cancel((uv_req_t *)&w->handle)) /* it has begun */
        uv_sem_wait(&w->end);
    w->job = NULL;
    job->at_work = NULL;
}

/* Turns */

static void
on_idle(uv_idle_t *idle)
{
    (void)idle; /* an active idle handle keeps the loop awake */
}

/* Before the loop sleeps. When alarms rang, it looks at its descriptors first:
 * an alarm may have caused something that comes before sleep. */
static void
on_prepare(uv_prepare_t *prepare)
{
    struct loop *loop = prepare->data;
    bool has_more = false;

    /* Rings what is due, also what is set meanwhile for at once. */
    for (unsigned n = 0; n < RINGS_AT_ONCE && is_uncovered(loop); n++) {
        struct alarm *alarm = loop->first;

        if (alarm->at_us > clock_steady_us())
            break;
        loop_clear_alarm(loop, alarm);
        alarm->ring(alarm); /* which may free it */
        has_more = true;
    }
    if (loop->calls.on_turn && loop->calls.on_turn(loop->user))
        has_more = true;
    if (has_more)
        uv_idle_start(&loop->idle, on_idle);
    else
        uv_idle_stop(&loop->idle);
    if (is_uncovered(loop)) {
        /* Sets the timer for the first alarm. libuv counts from the beginning
         * of the turn, unless its time is brought up to date. */
        loop->due_us = loop->first->at_us;
        uv_update_time(&loop->uv);
        uv_timer_start(&loop->timer, on_timer,
                       (uint64_t)clock_wait_ms(loop->due_us), 0);
    }
    if (!loop->is_ending || loop->n_jobs)
        return;
    pthread_mutex_lock(&loop->mutex);
    if (list_is_empty(&loop->mailbox))
        uv_stop(&loop->uv);
    pthread_mutex_unlock(&loop->mutex);
}

/* Life */

struct loop *
loop_new(const struct loop_calls *calls, void *user)
{
    struct loop *loop = memory_new(1, sizeof(*loop));

    if (!loop)
        return NULL;
    loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->wake_fd < 0)
        goto fail;
    if (uv_loop_init(&loop->uv))
        goto fail_fd;
    if (uv_poll_init(&loop->uv, &loop->mail, loop->wake_fd))
        goto fail_loop;
    loop->calls = *calls;
    loop->user = user;
    uv_prepare_init(&loop->uv, &loop->prepare);
    uv_idle_init(&loop->uv, &loop->idle);
    uv_timer_init(&loop->uv, &loop->timer);
    loop->mail.data = loop->prepare.data = loop;
    uv_poll_start(&loop->mail, UV_READABLE, on_mail);
    uv_prepare_start(&loop->prepare, on_prepare);
    list_init(&loop->mailbox);
    pthread_mutex_init(&loop->mutex, NULL);
    return loop;

fail_loop:
    uv_loop_close(&loop->uv);
fail_fd:
    close(loop->wake_fd);
fail:
    free(loop);
    return NULL;
}

void
loop_run(struct loop *loop)
{
    uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void
loop_turn(struct loop *loop, bool may_wait)
{
    /* The time of libuv 1.45 and later is that of the last turn: it would wait
     * for the first alarm from there, however long ago that was. An alarm that
     * is due needs no timer: on_prepare rings it. */
    uv_update_time(&loop->uv);
    if (loop->first && loop->first->at_us <= clock_steady_us())
        uv_timer_stop(&loop->timer);
    uv_run(&loop->uv, may_wait ? UV_RUN_ONCE : UV_RUN_NOWAIT);
}

int
loop_fd(const struct loop *loop)
{
    return uv_backend_fd(&loop->uv);
}

int
loop_timeout_ms(const struct loop *loop)
{
    return loop->first ? clock_wait_ms(loop->first->at_us) : -1;
}

void
loop_end(struct loop *loop)
{
    loop->is_ending = true;
}

struct uv_loop_s *
loop_uv(struct loop *loop)
{
    return &loop->uv;
}

/* A last run of the loop closes its own handles. */
bool
loop_free(struct loop *loop)
{
    if (!loop)
        return true;
    uv_close((uv_handle_t *)&loop->mail, NULL);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->idle, NULL);
    uv_close((uv_handle_t *)&loop->timer, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop->uv))
        return false;
    while (atomic_load(&loop->n_inside) > 0)
        sched_yield();
    run_tasks(loop);
    close(loop->wake_fd);
    pthread_mutex_destroy(&loop->mutex);
    free(loop);
    return true;
}
