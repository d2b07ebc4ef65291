#include "broker/calls/caller.h"

#include <stdlib.h>

#include "broker/base/diag.h"
#include "broker/calls/call_transport.h"

/* At the end, which is a task: earlier ones run before it. */
static void
cut_calls(struct task *task)
{
    struct caller *c = list_entry(task, struct caller, end);

    c->is_cut = true;
    turns_cut(c);
    loop_end(c->loop);
}

/* Before the loop sleeps. Reports results first: that frees turns, and callees
 * start calls, which then begin at once. */
static bool
on_turn(void *user)
{
    struct caller *c = user;

    if (c->is_cut)
        return false;
    call_transport_tell(c);
    turns_tell_failed(c);
    turns_give(c);
    call_transport_drive(c);
    if (c->options.on_turn)
        c->options.on_turn(c, c->options.user);
    return call_transport_is_due(&c->calling) || turns_are_due(&c->turns);
}

static void
on_wake(void *user)
{
    struct caller *c = user;

    if (c->options.on_wake)
        c->options.on_wake(c, c->options.user);
}

/* For users */

void
caller_wake(struct caller *caller)
{
    loop_wake(caller->loop);
}

void
caller_post(struct caller *caller, struct task *task)
{
    loop_post(caller->loop, task);
}

void
caller_work(struct caller *caller, struct job *job)
{
    loop_work(caller->loop, job);
}

void
caller_set_alarm(struct caller *caller, struct alarm *alarm, int64_t at_us)
{
    loop_set_alarm(caller->loop, alarm, at_us);
}

void
caller_clear_alarm(struct caller *caller, struct alarm *alarm)
{
    loop_clear_alarm(caller->loop, alarm);
}

/* Life */

static void
run_caller(struct thread *thread)
{
    struct caller *c = thread->user;
    struct caller_options *o = &c->options;

    if (o->on_begin)
        o->on_begin(c, o->user);
    loop_run(c->loop);
    if (o->on_end)
        o->on_end(c, o->user);
}

/* The thread has ended, or never began. */
static void
free_caller(struct caller *c)
{
    call_transport_fini(c);
    if (!loop_free(c->loop))
        diag(DIAG_ERROR, "net", "a caller's loop has not come to its end");
    call_transport_free(c);
    free(c);
}

enum status
caller_open(struct caller **caller, const struct caller_options *options,
            struct problem *why)
{
    static const struct loop_calls calls = {on_wake, on_turn};
    struct caller *c = calloc(1, sizeof(*c));
    enum status rc = STATUS_OK;

    *caller = NULL;
    if (!c)
        return problem_memory(why);
    c->options = *options;
    turns_init(&c->turns, options->connections, options->host_connections);
    rc = call_transport_init(c, why);
    if (!rc) {
        c->loop = loop_new(&calls, c);
        rc = c->loop
                 ? thread_start(&c->thread, options->name, run_caller, c, why)
                 : problem(why, STATUS_IO, "cannot make an event loop");
    }
    if (rc) {
        free_caller(c);
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
    caller->end.run = cut_calls;
    loop_post(caller->loop, &caller->end);
    thread_stop(&caller->thread);
}

void
caller_close(struct caller *caller)
{
    if (!caller)
        return;
    caller_stop(caller);
    free_caller(caller);
}
