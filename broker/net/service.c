#include "broker/net/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/net/connection.h"
#include "broker/net/exchange.h"
#include "proto/httpdate.h"

#define SECOND_MS 1000

/*
 * The end
 *
 * running --service_end--> ending --not busy, or too late--> cut
 * |
 * thread joined <-- loop left <-- no sockets, no jobs, mailbox empty
 *
 * It is ending only when all tasks that were posted before service_end have run
 * (on_async): the farewell to connected clients is such a task, and makes them
 * busy. A timer or a job between the two calls that only saw the second one
 * would find no connection busy, and cut them all without a farewell.
 */

static void
cut(struct service *s)
{
    struct list *lists[] = {&s->heads, &s->timed, &s->untimed};

    for (size_t i = 0; i < 3; i++) {
        struct list all, *node = NULL;

        list_init(&all);
        list_move(&all, lists[i]);
        while ((node = list_first(&all))) {
            struct connection *c = list_entry(node, struct connection, node);

            list_remove(node);
            list_append(lists[i], node);
            connection_kill(c);
        }
    }
}

static bool
has_connections(const struct service *s)
{
    return !list_is_empty(&s->heads) || !list_is_empty(&s->timed) ||
           !list_is_empty(&s->untimed);
}

/* True if the mailbox is empty; then closes it. */
static bool
close_mailbox(struct service *s)
{
    pthread_mutex_lock(&s->mutex);
    s->is_ended = list_is_empty(&s->mailbox);
    pthread_mutex_unlock(&s->mutex);
    return s->is_ended;
}

static void
on_end_timer(uv_timer_t *timer)
{
    (void)timer;
}

/* Wakes the loop at `at_us`, for on_prepare. */
static void
set_end_timer(struct service *s, int64_t at_us)
{
    int64_t wait_us = at_us - clock_steady_us();

    uv_update_time(&s->loop);
    uv_timer_start(&s->end_timer, on_end_timer,
                   wait_us > 0 ? (uint64_t)(wait_us + 999) / 1000 : 0, 0);
}

static void
end_if_possible(struct service *s)
{
    int64_t now_us = clock_steady_us(), cut_at_us = 0;

    if (!s->is_ending || s->is_ended)
        return;
    pthread_mutex_lock(&s->mutex);
    cut_at_us = s->cut_at_us;
    pthread_mutex_unlock(&s->mutex);

    if (!s->is_cut && (!s->n_busy || now_us >= cut_at_us)) {
        s->is_cut = true;
        cut(s);
    }
    if (s->is_cut && !has_connections(s) && !s->jobs.n && close_mailbox(s))
        uv_stop(&s->loop);
}

/* Does what this turn of the loop put off. That may put off more, but only for
 * bytes that were read already, so the loop below ends. */
static void
end_turn(struct service *s)
{
    struct list *node = NULL;

    while ((node = list_first(&s->ready))) {
        list_remove(node);
        connection_proceed(list_entry(node, struct connection, ready));
    }
    if (s->server->options.on_turn)
        s->server->options.on_turn(s, s->server->options.user);
}

/* Before the sleep, too: timers and closed sockets may have put something off.
 * The end only waits for events of the loop. */
static void
on_prepare(uv_prepare_t *prepare)
{
    struct service *s = prepare->data;

    end_turn(s);
    end_if_possible(s);
}

static void
on_check(uv_check_t *check)
{
    end_turn(check->data);
}

static void
begin_end(struct service *s)
{
    int64_t cut_at_us = 0;

    pthread_mutex_lock(&s->mutex);
    cut_at_us = s->cut_at_us;
    pthread_mutex_unlock(&s->mutex);
    s->is_ending = true;
    set_end_timer(s, cut_at_us);
}

/* Written on demand: by a timer it would be up to a second late, and a
 * Last-Modified of this second later than the Date beside it (RFC 9110 section
 * 8.8.2.1). */
const char *
service_date(struct service *s)
{
    int64_t now = clock_now_us() / 1000000;

    if (!s->date[0] || now != s->date_of)
        httpdate_write(s->date, now);
    s->date_of = now;
    return s->date;
}

/* Once a second */

/* A check may call a handler, which may change any connection. So this walks a
 * list of its own, from which changed connections disappear. */
static void
check_connections(struct list *list, int64_t now_us)
{
    struct list batch, *node = NULL;

    list_init(&batch);
    list_move(&batch, list);
    while ((node = list_first(&batch))) {
        list_remove(node);
        list_append(list, node);
        connection_check(list_entry(node, struct connection, node), now_us);
    }
}

static void
on_timer(uv_timer_t *timer)
{
    struct service *s = timer->data;
    int64_t now_us = clock_steady_us();

    check_connections(&s->heads, now_us);
    check_connections(&s->timed, now_us);
    listeners_resume(s);
}

static void
on_tick_timer(uv_timer_t *timer)
{
    struct service *s = timer->data;
    struct server_options *options = &s->server->options;

    if (!s->is_cut && options->on_tick)
        options->on_tick(s, options->user);
}

static void
on_wake_timer(uv_timer_t *timer)
{
    service_wake(timer->data);
}

void
service_wake_later(struct service *s, int64_t wait_us)
{
    uint64_t wait_ms = (uint64_t)(wait_us + 999) / 1000;

    if (s->is_ended || (uv_is_active((uv_handle_t *)&s->wake_timer) &&
                        uv_timer_get_due_in(&s->wake_timer) <= wait_ms))
        return;
    uv_timer_start(&s->wake_timer, on_wake_timer, wait_ms, 0);
}

/* Wakes and tasks */

/* Runs the tasks. Returns true if one of them was the end: all tasks posted
 * before the end have run. */
static bool
run_tasks(struct service *s)
{
    struct list tasks, *node = NULL;
    bool is_end_asked = false;

    list_init(&tasks);
    pthread_mutex_lock(&s->mutex);
    list_move(&tasks, &s->mailbox);
    is_end_asked = s->is_end_asked;
    pthread_mutex_unlock(&s->mutex);
    while ((node = list_first(&tasks))) {
        struct task *task = list_entry(node, struct task, node);

        list_remove(node);
        task->run(task); /* which may free it */
    }
    return is_end_asked;
}

static void
on_async(uv_async_t *async)
{
    struct service *s = async->data;
    struct server_options *options = &s->server->options;
    bool is_end_asked = false;

    if (atomic_load(&s->server->is_stopping))
        listeners_close(s);
    is_end_asked = run_tasks(s);
    /* Cleared before on_wake looks. A wake that found it set, and so did not
     * send, is before this exchange in the order of all exchanges. So this
     * exchange sees everything that its thread did before the wake. A later
     * wake finds it clear, and sends again. */
    if (atomic_exchange(&s->is_wanted, false) && options->on_wake)
        options->on_wake(s, options->user);

    if (is_end_asked && !s->is_ending)
        begin_end(s);
}

void
service_poke(struct service *s)
{
    /* The mutex keeps the handle alive: it is closed after is_ended is set. */
    pthread_mutex_lock(&s->mutex);
    if (!s->is_ended)
        uv_async_send(&s->async);
    pthread_mutex_unlock(&s->mutex);
}

void
service_wake(struct service *s)
{
    /* Only the first of several wakes the loop; the order: on_async. */
    if (!atomic_exchange(&s->is_wanted, true))
        service_poke(s);
}

void
service_post(struct service *s, struct task *task)
{
    pthread_mutex_lock(&s->mutex);
    list_append(&s->mailbox, &task->node);
    if (!s->is_ended)
        uv_async_send(&s->async);
    pthread_mutex_unlock(&s->mutex);
}

/* Jobs */

void
service_work(struct service *s, struct job *job)
{
    jobs_work(&s->jobs, job);
}

/* Life */

static void
run(struct thread *thread)
{
    struct service *s = thread->user;

    uv_run(&s->loop, UV_RUN_DEFAULT);
}

enum status
service_init(struct service *s, struct server *server, unsigned number,
             const struct addresses *addresses, struct problem *why)
{
    int64_t tick_us = server->options.tick_us;
    uint64_t tick_ms =
        tick_us ? (uint64_t)(tick_us + 999) / 1000 : (uint64_t)SECOND_MS;

    s->server = server;
    s->number = number;
    s->listeners.spare = -1;
    list_init(&s->heads);
    list_init(&s->timed);
    list_init(&s->untimed);
    list_init(&s->ready);
    list_init(&s->mailbox);
    pthread_mutex_init(&s->mutex, NULL);
    s->is_ended = true; /* until there is a handle */

    if (uv_loop_init(&s->loop))
        return problem(why, STATUS_IO, "cannot make an event loop");
    s->loop.data = s;
    s->jobs = (struct jobs){.loop = &s->loop};
    s->has_loop = true;
    if (uv_async_init(&s->loop, &s->async, on_async)) {
        s->has_loop = false;
        uv_loop_close(&s->loop);
        return problem(why, STATUS_IO, "cannot make an event loop");
    }
    s->is_ended = false;
    uv_prepare_init(&s->loop, &s->prepare);
    uv_check_init(&s->loop, &s->check);
    uv_timer_init(&s->loop, &s->timer);
    uv_timer_init(&s->loop, &s->end_timer);
    uv_timer_init(&s->loop, &s->tick_timer);
    uv_timer_init(&s->loop, &s->wake_timer);
    s->async.data = s->prepare.data = s->check.data = s->timer.data = s;
    s->end_timer.data = s->tick_timer.data = s->wake_timer.data = s;
    uv_prepare_start(&s->prepare, on_prepare);
    uv_check_start(&s->check, on_check);
    uv_timer_start(&s->timer, on_timer, SECOND_MS, SECOND_MS);
    uv_timer_start(&s->tick_timer, on_tick_timer, tick_ms, tick_ms);

    return listeners_open(s, addresses, why);
}

enum status
service_start(struct service *s, struct problem *why)
{
    char name[16];

    snprintf(name, sizeof(name), "net %u", s->number);
    return thread_start(&s->thread, name, run, s, why);
}

void
service_end(struct service *s, int64_t cut_at_us)
{
    pthread_mutex_lock(&s->mutex);
    s->is_end_asked = true;
    s->cut_at_us = cut_at_us;
    pthread_mutex_unlock(&s->mutex);
    service_poke(s);
}

void
service_join(struct service *s)
{
    if (s->thread.is_running)
        thread_stop(&s->thread);
}

/* A last run of the loop closes everything that is left in it. */
static void
close_loop(struct service *s)
{
    uv_close((uv_handle_t *)&s->prepare, NULL);
    uv_close((uv_handle_t *)&s->check, NULL);
    uv_close((uv_handle_t *)&s->timer, NULL);
    uv_close((uv_handle_t *)&s->end_timer, NULL);
    uv_close((uv_handle_t *)&s->tick_timer, NULL);
    uv_close((uv_handle_t *)&s->wake_timer, NULL);
    uv_close((uv_handle_t *)&s->async, NULL);
    listeners_close(s);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&s->loop))
        diag(DIAG_ERROR, "net", "an event loop has not come to its end");
}

void
service_fini(struct service *s)
{
    if (!s->server)
        return; /* never made */
    if (s->has_loop)
        close_loop(s);
    /* Tasks that came too late for the thread; no other thread is left. */
    (void)run_tasks(s);
    if (s->listeners.spare >= 0)
        close(s->listeners.spare);
    pthread_mutex_destroy(&s->mutex);
    free(s->slots);
}
