#include "broker/calls/caller.h"

#include <stdlib.h>

#include "broker/base/diag.h"
#include "broker/calls/call_transport.h"

/*
 * The end

     running --caller_stop--> cut --mailbox empty, no jobs--> on_end
                               |                                |
                               +-- tasks run, jobs are done     +-- loop left,
                                                                    thread ends
 */

/* True if the mailbox is empty; then closes it. */
static bool
close_mailbox(struct caller *c)
{
    pthread_mutex_lock(&c->mutex);
    c->is_ended = list_is_empty(&c->mailbox);
    pthread_mutex_unlock(&c->mutex);
    return c->is_ended;
}

static void
cut(struct caller *c)
{
    c->is_cut = true;
    turns_cut(c);
    alarms_fini(c);
    uv_idle_stop(&c->idle);
}

static void
end_if_possible(struct caller *c)
{
    if (c->is_cut && !c->jobs.n && close_mailbox(c))
        uv_stop(&c->loop);
}

/* Turns of the loop */

static void
on_idle(uv_idle_t *idle)
{
    (void)idle; /* an active idle handle keeps the loop awake */
}

/* Before the loop sleeps. Reports results first: that frees turns, and callees
 * start calls, which then begin at once. */
static void
on_prepare(uv_prepare_t *prepare)
{
    struct caller *c = prepare->data;

    if (c->is_cut)
        return;
    call_transport_tell(c);
    turns_tell_failed(c);
    turns_give(c);
    call_transport_drive(c);
    if (c->options.on_turn)
        c->options.on_turn(c, c->options.user);
    if (call_transport_is_due(&c->calling) || turns_are_due(&c->turns))
        uv_idle_start(&c->idle, on_idle);
    else
        uv_idle_stop(&c->idle);
}

/* Wakes and tasks */

static void
run_tasks(struct caller *c)
{
    struct list tasks, *node = NULL;

    list_init(&tasks);
    pthread_mutex_lock(&c->mutex);
    list_move(&tasks, &c->mailbox);
    pthread_mutex_unlock(&c->mutex);
    while ((node = list_first(&tasks))) {
        struct task *task = list_entry(node, struct task, node);

        list_remove(node);
        task->run(task); /* which may free it */
    }
}

static void
on_async(uv_async_t *async)
{
    struct caller *c = async->data;
    bool is_ending = false;

    pthread_mutex_lock(&c->mutex);
    is_ending = c->is_ending;
    pthread_mutex_unlock(&c->mutex);
    if (is_ending && !c->is_cut)
        cut(c);
    run_tasks(c);
    /* Cleared before on_wake looks; the order: service.c, on_async. */
    if (atomic_exchange(&c->is_wanted, false) && c->options.on_wake)
        c->options.on_wake(c, c->options.user);
    end_if_possible(c);
}

/* The mutex keeps the handle alive: it is closed after is_ended is set. */
static void
poke(struct caller *c)
{
    if (!c->is_ended)
        uv_async_send(&c->async);
}

void
caller_wake(struct caller *caller)
{
    /* Only the first of several wakes the loop. */
    if (atomic_exchange(&caller->is_wanted, true))
        return;
    pthread_mutex_lock(&caller->mutex);
    poke(caller);
    pthread_mutex_unlock(&caller->mutex);
}

void
caller_post(struct caller *caller, struct task *task)
{
    pthread_mutex_lock(&caller->mutex);
    list_append(&caller->mailbox, &task->node);
    poke(caller);
    pthread_mutex_unlock(&caller->mutex);
}

/* Jobs */

void
caller_work(struct caller *caller, struct job *job)
{
    jobs_work(&caller->jobs, job);
}

static void
on_job_done(void *owner)
{
    end_if_possible(owner);
}

/* Life */

static bool
init_loop(struct caller *c)
{
    if (uv_loop_init(&c->loop))
        return false;
    c->jobs = (struct jobs){.loop = &c->loop, .on_done = on_job_done};
    if (uv_async_init(&c->loop, &c->async, on_async)) {
        uv_loop_close(&c->loop);
        return false;
    }
    uv_prepare_init(&c->loop, &c->prepare);
    uv_idle_init(&c->loop, &c->idle);
    c->loop.data = c->async.data = c->prepare.data = c;
    uv_prepare_start(&c->prepare, on_prepare);
    alarms_init(c);
    return true;
}

/* A last run of the loop closes everything that is left in it. */
static void
fini_loop(struct caller *c)
{
    call_transport_fini(c);
    uv_close((uv_handle_t *)&c->async, NULL);
    uv_close((uv_handle_t *)&c->prepare, NULL);
    uv_close((uv_handle_t *)&c->idle, NULL);
    uv_close((uv_handle_t *)&c->alarms.timer, NULL);
    /* A callback may have stopped the loop once more: then it returns at
     * once. */
    while (uv_run(&c->loop, UV_RUN_DEFAULT))
        ;
    if (uv_loop_close(&c->loop))
        diag(DIAG_ERROR, "net", "a caller's loop has not come to its end");
}

static void
run(struct thread *thread)
{
    struct caller *c = thread->user;
    struct caller_options *o = &c->options;

    if (o->on_begin)
        o->on_begin(c, o->user);
    uv_run(&c->loop, UV_RUN_DEFAULT);
    if (o->on_end)
        o->on_end(c, o->user);
}

/* The thread has ended, or never began. */
static void
fini(struct caller *c, bool has_loop)
{
    if (has_loop)
        fini_loop(c);
    call_transport_free(c);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}

enum status
caller_open(struct caller **caller, const struct caller_options *options,
            struct problem *why)
{
    struct caller *c = calloc(1, sizeof(*c));
    enum status rc = STATUS_OK;
    bool has_loop = false;

    *caller = NULL;
    if (!c)
        return problem_memory(why);
    c->options = *options;
    pthread_mutex_init(&c->mutex, NULL);
    list_init(&c->mailbox);
    turns_init(&c->turns, options->connections, options->host_connections);
    rc = call_transport_init(c, why);
    if (!rc) {
        has_loop = init_loop(c);
        rc = has_loop ? thread_start(&c->thread, options->name, run, c, why)
                      : problem(why, STATUS_IO, "cannot make an event loop");
    }
    if (rc) {
        c->is_ended = true;
        fini(c, has_loop);
        return rc;
    }
    *caller = c;
    return STATUS_OK;
}

void
caller_stop(struct caller *caller)
{
    if (!caller->thread.is_running)
        return;
    pthread_mutex_lock(&caller->mutex);
    caller->is_ending = true;
    poke(caller);
    pthread_mutex_unlock(&caller->mutex);
    thread_stop(&caller->thread);
}

void
caller_close(struct caller *caller)
{
    if (!caller)
        return;
    caller_stop(caller);
    fini(caller, true);
}
