#include "tests/unit/hub_quiet/quiet.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/clock.h"
#include "tests/test.h"

struct caller *quiet;

/* Clocks */

void
quiet_set_clock(int64_t us)
{
    clock_set_us(us - clock_now_us());
}

/* To `at_us` of the steady clock, if that is to come. */
static void
advance(int64_t at_us)
{
    int64_t us = at_us - clock_steady_us();

    if (us > 0)
        clock_pass_us(us);
}

/* Life */

enum status
caller_open(struct caller **caller, const struct caller_options *options,
            struct problem *why)
{
    struct caller *c = calloc(1, sizeof(*c));

    (void)why;
    assert_null(quiet);
    assert_non_null(c);
    c->options = *options;
    c->connections = UINT_MAX;
    list_init(&c->calls);
    c->alarms.next = c->alarms.prev = &c->alarms;
    list_init(&c->posted);
    quiet = *caller = c;
    if (options->on_begin)
        options->on_begin(c, options->user);
    return STATUS_OK;
}

static bool
run_posted(struct caller *c)
{
    struct list *node = list_first(&c->posted);

    if (node) {
        struct task *task = list_entry(node, struct task, node);

        list_remove(node);
        task->run(task);
    }
    return node;
}

/* The caller has it no more. */
static void
let_go(struct caller *c, struct call *call)
{
    c->n_turns -= call->own.state != QUIET_WAITS;
    c->n_calls--;
    call->own.state = QUIET_NONE;
    list_remove(&call->own.node);
}

void
caller_stop(struct caller *c)
{
    struct call *call;

    if (c->has_stopped)
        return;
    c->has_stopped = true;
    while ((call = quiet_next(NULL)))
        let_go(c, call);
    while (run_posted(c) || quiet_job())
        ;
    if (c->options.on_end)
        c->options.on_end(c, c->options.user);
}

void
caller_close(struct caller *c)
{
    if (!c)
        return;
    caller_stop(c);
    free(c);
    quiet = NULL;
}

void
caller_wake(struct caller *c)
{
    atomic_fetch_add(&c->n_wakes, 1);
    atomic_store(&c->is_woken, true);
}

void
caller_post(struct caller *c, struct task *task)
{
    list_append(&c->posted, &task->node);
}

/* Calls */

void
caller_start(struct caller *c, struct call *call)
{
    assert_int_equal(call->own.state, QUIET_NONE);
    if (c->has_stopped)
        return;
    call->own.state = QUIET_WAITS;
    list_append(&c->calls, &call->own.node);
    c->n_calls++;
}

static void
send_call(struct caller *c, struct call *call)
{
    call->own.state = QUIET_UNDER_WAY;
    if (c->on_sent)
        c->on_sent(call);
}

void
caller_go(struct caller *c, struct call *call, bool ready)
{
    assert_int_equal(call->own.state, QUIET_HAS_TURN);
    if (ready)
        send_call(c, call);
    else
        let_go(c, call);
}

void
caller_cancel(struct caller *c, struct call *call)
{
    if (call->own.state != QUIET_NONE)
        let_go(c, call);
}

struct call *
quiet_next(const struct call *call)
{
    struct list *next = call ? call->own.node.next : quiet->calls.next;

    return next == &quiet->calls ? NULL
                                 : list_entry(next, struct call, own.node);
}

/* Returns the call that gets the next turn; NULL: none waits, or there is no
 * room. */
static struct call *
first_waiting(const struct caller *c)
{
    struct call *call = NULL;

    if (c->n_turns < c->n_calls && c->n_turns < c->connections)
        for (call = quiet_next(NULL); call->own.state != QUIET_WAITS;)
            call = quiet_next(call);
    return call;
}

bool
quiet_give_turn(void)
{
    struct call *call = first_waiting(quiet);
    enum call_turn turn;

    if (!call)
        return false;
    call->own.state = QUIET_HAS_TURN;
    quiet->n_turns++;
    turn = call->prepare ? call->prepare(call) : CALL_READY;
    if (turn == CALL_READY)
        send_call(quiet, call);
    else if (turn == CALL_NOT)
        caller_cancel(quiet, call);
    return true;
}

static void
finish(struct call *call)
{
    let_go(quiet, call);
    call->done(call);
}

void
quiet_answer(struct call *call, unsigned status, const char *body)
{
    size_t size = strlen(body);

    assert_non_null(call);
    assert_int_equal(call->own.state, QUIET_UNDER_WAY);
    call->failure = CALL_ANSWERED;
    call->status = status;
    call->is_cut = size > call->max_answer;
    call->answer = (struct slice){body, call->is_cut ? call->max_answer : size};
    finish(call);
}

void
quiet_fail(struct call *call, enum call_failure failure, const char *why)
{
    assert_non_null(call);
    assert_int_equal(call->own.state, QUIET_UNDER_WAY);
    call->failure = failure;
    call->status = 0;
    call->answer = (struct slice){NULL, 0};
    snprintf(call->why, sizeof(call->why), "%s", why);
    finish(call);
}

/* Jobs */

void
caller_work(struct caller *c, struct job *job)
{
    assert_true(c->n_jobs < QUIET_JOBS_MAX);
    c->jobs[c->n_jobs++] = job;
    c->n_jobs_made++;
    if (!c->holds_jobs)
        quiet_job();
}

bool
quiet_job(void)
{
    struct job *job = quiet->jobs[0];

    if (quiet->n_jobs == 0)
        return false;
    memmove(quiet->jobs, quiet->jobs + 1, --quiet->n_jobs * sizeof(job));
    job->work(job);
    job->done(job);
    return true;
}

/* Alarms */

void
caller_clear_alarm(struct caller *c, struct alarm *alarm)
{
    if (!alarm->is_set)
        return;
    alarm->is_set = false;
    alarm->next->prev = alarm->prev;
    alarm->prev->next = alarm->next;
    c->n_alarms--;
}

void
caller_set_alarm(struct caller *c, struct alarm *alarm, int64_t at_us)
{
    caller_clear_alarm(c, alarm);
    alarm->at_us = at_us;
    alarm->is_set = true;
    alarm->next = &c->alarms;
    alarm->prev = c->alarms.prev;
    alarm->next->prev = alarm->prev->next = alarm;
    c->n_alarms++;
}

struct alarm *
quiet_next_alarm(void)
{
    struct alarm *end = &quiet->alarms, *first = NULL;

    for (struct alarm *a = end->next; a != end; a = a->next)
        if (!first || a->at_us < first->at_us)
            first = a;
    return first;
}

/* Turns */

void
quiet_turn(void)
{
    struct caller *c = quiet;

    do {
        while (run_posted(c))
            ;
        if (atomic_exchange(&c->is_woken, false))
            c->options.on_wake(c, c->options.user);
        while (quiet_give_turn())
            ;
        c->options.on_turn(c, c->options.user);
    } while (atomic_load(&c->is_woken) || !list_is_empty(&c->posted) ||
             first_waiting(c));
}

void
quiet_pass(int64_t us)
{
    int64_t until_us = clock_steady_us() + us;
    struct alarm *first;

    while ((first = quiet_next_alarm()) && first->at_us <= until_us) {
        advance(first->at_us);
        caller_clear_alarm(quiet, first);
        first->ring(first);
        quiet_turn();
    }
    advance(until_us);
}
