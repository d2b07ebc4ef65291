#include "base/loop.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <uv.h>

#include "base/clock.h"

/* Alarms that ring before the loop looks at its descriptors again. */
#define RINGS_AT_ONCE 64

struct loop {
    struct loop_calls calls;
    void *user;

    uv_loop_t uv;
    uv_async_t async;     /* wakes, tasks */
    uv_prepare_t prepare; /* before each sleep */
    uv_idle_t idle;       /* active: the loop must not sleep */
    uv_timer_t timer;     /* ends the sleep at the first alarm */

    struct alarm *first; /* alarm; NULL: none is set */
    int64_t due_us;      /* of the timer, if it is active */
    unsigned n_jobs;     /* given to the worker pool, and not done yet */
    bool is_ending;

    /* Other threads */

    atomic_bool is_wanted; /* loop_wake was called, on_wake not yet */
    pthread_mutex_t mutex; /* protects all below */
    struct list mailbox;
    bool is_closed; /* the async handle must not be used any more */
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

/* Makes one heap of a row: by twos from the left, then from the right. */
static struct alarm *
meld_row(struct alarm *row)
{
    struct alarm *pairs = NULL, *all = NULL, *a = NULL;

    while ((a = take_first(&row))) {
        a = join_heaps(a, take_first(&row));
        a->next = pairs;
        pairs = a;
    }
    while ((a = take_first(&pairs)))
        all = join_heaps(all, a);
    return all;
}

void
loop_clear_alarm(struct loop *loop, struct alarm *alarm)
{
    struct alarm *below = NULL;

    if (!alarm->is_set)
        return;
    below = meld_row(alarm->child);
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

/* Rings what is due, also what is set meanwhile for at once. Returns true if
 * some rang. */
static bool
ring_alarms(struct loop *loop)
{
    unsigned n = 0;

    for (; n < RINGS_AT_ONCE && is_uncovered(loop); n++) {
        struct alarm *alarm = loop->first;

        if (alarm->at_us > clock_steady_us())
            break;
        loop_clear_alarm(loop, alarm);
        alarm->ring(alarm); /* which may free it */
    }
    return n > 0;
}

static void
on_timer(uv_timer_t *timer)
{
    (void)timer; /* on_prepare follows */
}

/* Sets the timer for the first alarm. libuv counts from the beginning of the
 * turn, unless its time is brought up to date. */
static void
cover_first_alarm(struct loop *loop)
{
    int64_t wait_us;

    if (!is_uncovered(loop))
        return;
    loop->due_us = loop->first->at_us;
    wait_us = loop->due_us - clock_steady_us();
    uv_update_time(&loop->uv);
    uv_timer_start(&loop->timer, on_timer,
                   wait_us > 0 ? ((uint64_t)wait_us + 999) / 1000 : 0, 0);
}

/* Tasks and wakes */

static void
run_tasks(struct loop *loop)
{
    struct list tasks, *node = NULL;

    list_init(&tasks);
    pthread_mutex_lock(&loop->mutex);
    list_move(&tasks, &loop->mailbox);
    pthread_mutex_unlock(&loop->mutex);
    while ((node = list_first(&tasks))) {
        struct task *task = list_entry(node, struct task, node);

        list_remove(node);
        task->run(task); /* which may free it */
    }
}

static void
on_async(uv_async_t *async)
{
    struct loop *loop = async->data;

    run_tasks(loop);
    /* Cleared before on_wake looks. A wake that found it set, and so did not
     * send, is before this exchange in the order of all exchanges. So this
     * exchange sees everything that its thread did before the wake. A later
     * wake finds it clear, and sends again. */
    if (atomic_exchange(&loop->is_wanted, false) && loop->calls.on_wake)
        loop->calls.on_wake(loop->user);
}

void
loop_wake(struct loop *loop)
{
    /* Only the first of several wakes the loop; the order: on_async. */
    if (atomic_exchange(&loop->is_wanted, true))
        return;
    /* The mutex keeps the handle alive: loop_free closes it after is_closed. */
    pthread_mutex_lock(&loop->mutex);
    if (!loop->is_closed)
        uv_async_send(&loop->async);
    pthread_mutex_unlock(&loop->mutex);
}

void
loop_post(struct loop *loop, struct task *task)
{
    pthread_mutex_lock(&loop->mutex);
    list_append(&loop->mailbox, &task->node);
    if (!loop->is_closed)
        uv_async_send(&loop->async);
    pthread_mutex_unlock(&loop->mutex);
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
    struct at_work *w = malloc(sizeof(*w));

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

/* True if the mailbox is empty; then closes it. */
static bool
close_mailbox(struct loop *loop)
{
    pthread_mutex_lock(&loop->mutex);
    loop->is_closed = list_is_empty(&loop->mailbox);
    pthread_mutex_unlock(&loop->mutex);
    return loop->is_closed;
}

/* Before the loop sleeps. When alarms rang, it looks at its descriptors first:
 * an alarm may have caused something that comes before sleep. */
static void
on_prepare(uv_prepare_t *prepare)
{
    struct loop *loop = prepare->data;
    bool has_more = ring_alarms(loop);

    if (loop->calls.on_turn && loop->calls.on_turn(loop->user))
        has_more = true;
    if (has_more)
        uv_idle_start(&loop->idle, on_idle);
    else
        uv_idle_stop(&loop->idle);
    cover_first_alarm(loop);
    if (loop->is_ending && !loop->n_jobs && close_mailbox(loop))
        uv_stop(&loop->uv);
}

/* Life */

struct loop *
loop_new(const struct loop_calls *calls, void *user)
{
    struct loop *loop = calloc(1, sizeof(*loop));

    if (!loop || uv_loop_init(&loop->uv)) {
        free(loop);
        return NULL;
    }
    if (uv_async_init(&loop->uv, &loop->async, on_async)) {
        uv_loop_close(&loop->uv);
        free(loop);
        return NULL;
    }
    loop->calls = *calls;
    loop->user = user;
    uv_prepare_init(&loop->uv, &loop->prepare);
    uv_idle_init(&loop->uv, &loop->idle);
    uv_timer_init(&loop->uv, &loop->timer);
    loop->async.data = loop->prepare.data = loop;
    uv_prepare_start(&loop->prepare, on_prepare);
    list_init(&loop->mailbox);
    pthread_mutex_init(&loop->mutex, NULL);
    return loop;
}

void
loop_run(struct loop *loop)
{
    uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void
loop_turn(struct loop *loop, bool may_wait)
{
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
    const struct alarm *first = loop->first;
    int64_t wait_us = first ? first->at_us - clock_steady_us() : -1;

    if (!first)
        return -1;
    if (wait_us <= 0)
        return 0;
    return wait_us / 1000 < INT_MAX ? (int)((wait_us + 999) / 1000) : INT_MAX;
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
    uv_close((uv_handle_t *)&loop->async, NULL);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->idle, NULL);
    uv_close((uv_handle_t *)&loop->timer, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop->uv))
        return false;
    loop->is_closed = true; /* it may never have run */
    run_tasks(loop);
    pthread_mutex_destroy(&loop->mutex);
    free(loop);
    return true;
}
