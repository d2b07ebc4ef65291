#include "broker/calls/caller.h"

#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/calls/caller_state.h"
#include "proto/swar.h"

/* The most turns of a round: each may cost a body. */
#define TURNS_AT_ONCE 256

/* The states of a call */

/* `done` is called at the end of the turn, never from within caller_start. */
static void
set_failed(struct caller *c, struct call *call)
{
    call->own.state = CALL_FAILED;
    list_append(&c->failed, &call->own.node);
}

static uint64_t
find_control(uint64_t v)
{
    return swar_below(v, ' ') | swar_equal(v, 0x7f);
}

static void
begin_call(struct caller *c, struct call *call)
{
    const char *const *h = call->headers;
    bool is_fine = true;

    for (unsigned n = 0; is_fine && h && h[n]; n++) {
        is_fine = n < CALL_HEADERS_MAX &&
                  swar_none(slice_of(h[n]), find_control, 'x');
        if (n == CALL_HEADERS_MAX)
            call_fail(call, CALL_MEMORY, "more than %d headers are to be sent",
                      CALL_HEADERS_MAX);
        else if (!is_fine)
            call_fail(call, CALL_REFUSED,
                      "a header to be sent has a control character");
    }
    if (is_fine) {
        call->own.state = CALL_GOING;
        call_begin(c, call);
    } else {
        call_queue_release(call);
        set_failed(c, call);
    }
}

void
caller_start(struct caller *caller, struct call *call)
{
    /* The outcome and our own part are the rest of the struct. */
    memset(&call->failure, 0, sizeof(*call) - offsetof(struct call, failure));
    call->failure = CALL_BROKEN;
    list_init(&call->own.node);
    if (caller->is_cut || call_queue_add(&caller->queue, call))
        return;
    call_fail(call, CALL_REFUSED, "the URL is none that can be called");
    set_failed(caller, call);
}

void
caller_go(struct caller *caller, struct call *call, bool ready)
{
    if (call->own.state != CALL_GOING && call->own.state != CALL_HELD)
        return; /* it was cut */
    if (!ready) {
        caller_cancel(caller, call);
    } else if (call->own.state == CALL_GOING) {
        call_taken(call);
    } else {
        call->own.began_us = clock_steady_us();
        begin_call(caller, call);
    }
}

void
caller_cancel(struct caller *caller, struct call *call)
{
    if (caller->preparing == call)
        caller->preparing = NULL;
    switch ((enum call_state)call->own.state) {
    case CALL_IDLE:
        break;
    case CALL_FAILED:
        list_remove(&call->own.node);
        call->own.state = CALL_IDLE;
        break;
    case CALL_WAITING:
        call_queue_remove(&caller->queue, call);
        break;
    case CALL_GOING:
        call_stop(call);
        call_queue_release(call);
        break;
    case CALL_HELD:
        call_queue_release(call);
        break;
    }
}

static void
cancel_all(struct caller *c, struct list *calls)
{
    struct call *call;

    list_until_empty (call, calls, own.node)
        caller_cancel(c, call);
}

/* Turns of the loop */

/* At the end, which is a task: earlier ones run before it. */
static void
cut_calls(struct task *task)
{
    struct caller *c = list_entry(task, struct caller, end);

    c->is_cut = true;
    cancel_all(c, &c->failed);
    cancel_all(c, &c->queue.held);
    call_connections_close(c);
    call_queue_clear(&c->queue);
    loop_end(c->loop);
}

/* Before the loop sleeps. Reports results first: that frees turns, and callees
 * start calls, which then begin at once. */
static bool
on_turn(void *user)
{
    struct caller *c = user;
    struct list failed;
    struct call *call;
    bool may_call;

    if (c->is_cut)
        return false;
    call_go_on(c);
    list_init(&failed);
    list_move(&failed, &c->failed);
    list_drain (call, &failed, own.node) {
        call->own.state = CALL_IDLE;
        call->done(call); /* which may free it */
    }
    may_call = !c->options.may_call || c->options.may_call(c->options.user);
    for (unsigned i = 0;
         may_call && i < TURNS_AT_ONCE && (call = call_queue_take(&c->queue));
         i++) {
        enum call_turn turn = CALL_READY;

        call->own.began_us = clock_steady_us();
        c->preparing = call;
        if (call->prepare)
            turn = call->prepare(call);
        if (!c->preparing)
            continue; /* cancelled, perhaps freed */
        c->preparing = NULL;
        if (turn == CALL_READY)
            begin_call(c, call);
        else if (turn == CALL_NOT)
            call_queue_release(call);
    }
    call_connections_make_room(c);
    if (c->options.on_turn)
        c->options.on_turn(c, c->options.user);
    return !list_is_empty(&c->due) ||
           (may_call && call_queue_is_due(&c->queue)) ||
           !list_is_empty(&c->failed);
}

static void
on_wake(void *user)
{
    struct caller *c = user;

    if (c->options.on_wake)
        c->options.on_wake(c, c->options.user);
}

/* For lookup.h, on another thread. */
static void
on_lookups(void *user)
{
    struct caller *c = user;

    loop_post(c->loop, &c->found);
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
    if (!loop_free(c->loop))
        diag(DIAG_ERROR, "net", "a caller's loop has not come to its end");
    call_connections_fini(c);
    free(c);
}

enum status
caller_open(struct caller **caller, const struct caller_options *options,
            struct problem *why)
{
    static const struct loop_calls calls = {on_wake, on_turn};
    struct caller *c = memory_new(1, sizeof(*c));
    enum status rc = STATUS_OK;

    *caller = NULL;
    c->options = *options;
    list_init(&c->failed);
    lookup_box_init(&c->lookups, on_lookups, c);
    c->found.run = call_connect_found;
    call_connections_init(c);
    call_queue_init(&c->queue, options->connections, options->host_connections);
    c->loop = loop_new(&calls, c);
    rc = c->loop
             ? thread_start(&c->thread, options->name, run_caller, c, why)
             : problem(why, STATUS_IO,
                       "cannot make an event loop: no memory or descriptors "
                       "left");
    if (rc)
        free_caller(c);
    else
        *caller = c;
    return rc;
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
