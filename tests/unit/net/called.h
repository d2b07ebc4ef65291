/*
 * called.h - a caller, and trials: calls that a test makes and waits for.
 *
 *     called_open(4, 2, "127.0.0.1");
 *     called_get(&t, "http://127.0.0.1:%u/ok", odd.port);
 *     assert_int_equal(t.call.status, 200);
 *     called_close();
 */
#ifndef TESTS_UNIT_NET_CALLED_H
#define TESTS_UNIT_NET_CALLED_H

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "broker/net/caller.h"

#define CALLED_WAIT_S 60

struct trial {
    struct call call;
    sem_t done;
    char url[4096];
    unsigned place;      /* the how-manieth to be done, from 1; 0: not yet */
    unsigned n_prepared; /* calls of prepare */

    /* Copies: what stands in the call is lent. */
    char answer[4096], content_type[200], etag[200], last_modified[200];
    char links[4096], final_url[4096];
};

static struct called {
    struct caller *caller;
    struct networks allowed;
    unsigned n_done; /* the caller's thread */
} called;

static inline void
called_copy(char *to, size_t size, struct slice from)
{
    assert_true(from.size < size);
    if (from.size > 0)
        memcpy(to, from.data, from.size);
    to[from.size] = '\0';
}

static inline void
called_done(struct call *call)
{
    struct trial *t = list_entry(call, struct trial, call);

    called_copy(t->answer, sizeof(t->answer), call->answer);
    called_copy(t->content_type, sizeof(t->content_type), call->content_type);
    called_copy(t->etag, sizeof(t->etag), call->etag);
    called_copy(t->last_modified, sizeof(t->last_modified),
                call->last_modified);
    called_copy(t->links, sizeof(t->links), call->links);
    called_copy(t->final_url, sizeof(t->final_url), slice_of(call->final_url));
    t->place = ++called.n_done;
    sem_post(&t->done);
}

static inline void
called_wait(sem_t *sem)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += CALLED_WAIT_S;
    assert_int_equal(sem_timedwait(sem, &end), 0);
}

static inline void
called_open_with(struct caller_options *options, const char *allowed)
{
    struct problem why = {"", 0, 0};

    called.n_done = 0;
    assert_int_equal(networks_read(slice_of(allowed), &called.allowed, &why),
                     STATUS_OK);
    options->name = "called";
    options->allowed = &called.allowed;
    if (caller_open(&called.caller, options, &why))
        fail_msg("%s", why.text);
}

static inline void
called_open(unsigned connections, unsigned host_connections,
            const char *allowed)
{
    struct caller_options options = {.connections = connections,
                                     .host_connections = host_connections};

    called_open_with(&options, allowed);
}

static inline void
called_close(void)
{
    caller_close(called.caller);
    called.caller = NULL;
}

/* Runs on the caller's thread, and waits for it. */
struct called_errand {
    struct task task;
    void (*run)(void *user);
    void *user;
    sem_t done;
};

static inline void
called_on_errand(struct task *task)
{
    struct called_errand *e = list_entry(task, struct called_errand, task);

    e->run(e->user);
    sem_post(&e->done);
}

static inline void
called_do(void (*run)(void *user), void *user)
{
    struct called_errand e = {
        .task = {.run = called_on_errand}, .run = run, .user = user};

    sem_init(&e.done, 0, 0);
    caller_post(called.caller, &e.task);
    called_wait(&e.done);
    sem_destroy(&e.done);
}

static inline void
called_start_now(void *user)
{
    struct trial *t = user;

    caller_start(called.caller, &t->call);
}

static inline void
called_cancel_now(void *user)
{
    struct trial *t = user;

    caller_cancel(called.caller, &t->call);
}

struct called_counts {
    unsigned under_way, waiting;
};

static inline void
called_count_now(void *user)
{
    struct called_counts *c = user;

    caller_count(called.caller, &c->under_way, &c->waiting);
}

static inline void
assert_counts(unsigned under_way, unsigned waiting)
{
    struct called_counts c;

    called_do(called_count_now, &c);
    assert_int_equal(c.under_way, under_way);
    assert_int_equal(c.waiting, waiting);
}

/* A GET with 10 minutes, 4,000 bytes and no redirects. */
static inline void trial_init(struct trial *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline void
trial_init(struct trial *t, const char *format, ...)
{
    va_list args;

    memset(t, 0, sizeof(*t));
    va_start(args, format);
    vsnprintf(t->url, sizeof(t->url), format, args);
    va_end(args);
    sem_init(&t->done, 0, 0);
    t->call = (struct call){.method = CALL_GET,
                            .url = t->url,
                            .timeout_us = 600000000,
                            .max_answer = 4000,
                            .done = called_done};
}

static inline void
trial_start(struct trial *t)
{
    called_do(called_start_now, t);
}

static inline void
trial_wait(struct trial *t)
{
    called_wait(&t->done);
}

static inline bool
trial_is_done(struct trial *t)
{
    int n = 0;

    sem_getvalue(&t->done, &n);
    return n > 0;
}

/* Starts it and waits for its end. */
static inline void
trial_run(struct trial *t)
{
    trial_start(t);
    trial_wait(t);
}

static inline void
trial_cancel(struct trial *t)
{
    called_do(called_cancel_now, t);
}

#endif
