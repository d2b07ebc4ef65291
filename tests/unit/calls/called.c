#include "tests/unit/calls/called.h"

#include "broker/calls/caller_state.h"
#include "broker/net/request.h"
#include "broker/net/response.h"
#include "broker/net/server.h"
#include "tests/clock.h"
#include "tests/test.h"

struct called called;
struct odd odd;
sem_t all_done, prepared;

int
called_setup(void **state)
{
    (void)state;
    odd_open(&odd);
    sem_init(&all_done, 0, 0);
    sem_init(&prepared, 0, 0);
    return 0;
}

int
called_setup_open(void **state)
{
    called_setup(state);
    called_open(8, 4, LOOPBACK);
    return 0;
}

int
called_teardown(void **state)
{
    (void)state;
    clock_run_us(0, 0);
    if (called.caller)
        called_close();
    odd_close(&odd);
    return 0;
}

static void
copy(char *to, size_t size, struct slice from)
{
    assert_true(from.size < size);
    if (from.size > 0)
        memcpy(to, from.data, from.size);
    to[from.size] = '\0';
}

static void
done(struct call *call)
{
    struct trial *t = list_entry(call, struct trial, call);

    copy(t->answer, sizeof(t->answer), call->answer);
    copy(t->content_type, sizeof(t->content_type), call->content_type);
    copy(t->etag, sizeof(t->etag), call->etag);
    copy(t->last_modified, sizeof(t->last_modified), call->last_modified);
    copy(t->links, sizeof(t->links), call->links);
    copy(t->final_url, sizeof(t->final_url), slice_of(call->final_url));
    t->place = ++called.n_done;
    sem_post(&t->done);
}

void
called_wait(sem_t *sem)
{
    for (unsigned n = 0; sem_trywait(sem); n++) {
        clock_run_on(n == 0);
        test_yield(n);
    }
}

void
called_open_with(struct caller_options *options, const char *allowed)
{
    struct problem why = {"", 0, 0};

    called.n_done = 0;
    assert_int_equal(
        networks_read(slice_of(allowed), false, &called.allowed, &why),
        STATUS_OK);
    options->name = "called";
    options->allowed = &called.allowed;
    if (caller_open(&called.caller, options, &why))
        fail_msg("%s", why.text);
}

void
called_open(unsigned connections, unsigned host_connections,
            const char *allowed)
{
    struct caller_options options = {.connections = connections,
                                     .host_connections = host_connections};

    called_open_with(&options, allowed);
}

void
called_close(void)
{
    caller_close(called.caller);
    called.caller = NULL;
}

struct errand {
    struct task task;
    void (*run)(void *user);
    void *user;
    sem_t done;
};

static void
on_errand(struct task *task)
{
    struct errand *e = list_entry(task, struct errand, task);

    e->run(e->user);
    sem_post(&e->done);
}

void
called_do(void (*run)(void *user), void *user)
{
    struct errand e = {.task = {.run = on_errand}, .run = run, .user = user};

    sem_init(&e.done, 0, 0);
    caller_post(called.caller, &e.task);
    called_wait(&e.done);
    sem_destroy(&e.done);
}

static void
start_now(void *user)
{
    struct trial *t = user;

    caller_start(called.caller, &t->call);
}

static void
cancel_now(void *user)
{
    struct trial *t = user;

    caller_cancel(called.caller, &t->call);
}

void
called_count(const struct caller *caller, unsigned *under_way,
             unsigned *waiting)
{
    *under_way = caller->queue.all.n_held.n;
    *waiting = caller->queue.n_waiting;
}

struct counts {
    unsigned under_way, waiting;
};

static void
count_now(void *user)
{
    struct counts *c = user;

    called_count(called.caller, &c->under_way, &c->waiting);
}

void
assert_counts(unsigned under_way, unsigned waiting)
{
    struct counts c;

    called_do(count_now, &c);
    assert_int_equal(c.under_way, under_way);
    assert_int_equal(c.waiting, waiting);
}

void
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
                            .done = done};
}

void
trial_start(struct trial *t)
{
    called_do(start_now, t);
}

void
trial_wait(struct trial *t)
{
    called_wait(&t->done);
}

bool
trial_is_done(struct trial *t)
{
    int n = 0;

    sem_getvalue(&t->done, &n);
    return n > 0;
}

void
trial_run(struct trial *t)
{
    trial_start(t);
    trial_wait(t);
}

void
trial_cancel(struct trial *t)
{
    called_do(cancel_now, t);
}

void
trial_get(struct trial *t, const char *path)
{
    trial_init(t, "http://127.0.0.1:%u%s", odd.port, path);
    trial_run(t);
}

void
trial_init_at(struct trial *t, unsigned host, const char *path)
{
    trial_init(t, "http://127.0.1.%u:%u%s", host, odd.port, path);
}

enum call_turn
trial_prepare_later(struct call *call)
{
    list_entry(call, struct trial, call)->n_prepared++;
    sem_post(&prepared);
    return CALL_LATER;
}

static void
go_now(void *user)
{
    struct trial *t = user;

    caller_go(called.caller, &t->call, true);
}

static void
leave_now(void *user)
{
    struct trial *t = user;

    caller_go(called.caller, &t->call, false);
}

void
trial_go(struct trial *t, bool ready)
{
    called_do(ready ? go_now : leave_now, t);
}

struct trials {
    struct trial *all;
    unsigned n;
};

static void
start_all_now(void *user)
{
    struct trials *trials = user;

    for (unsigned i = 0; i < trials->n; i++)
        caller_start(called.caller, &trials->all[i].call);
}

void
trials_start(struct trial *all, unsigned n)
{
    called_do(start_all_now, &(struct trials){all, n});
}

void
trials_await(struct trial *all, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        trial_wait(&all[i]);
        assert_int_equal(all[i].call.failure, CALL_ANSWERED);
    }
}

void
assert_outcome(const struct trial *t, enum call_failure failure,
               const char *why)
{
    if (t->call.failure != failure || !strstr(t->call.why, why))
        fail_msg("%s came to %d, %s", t->url, (int)t->call.failure,
                 t->call.why);
    if (failure)
        assert_int_equal(t->call.status, 0);
}

static void
answer_text(struct request *rq, void *user)
{
    struct called_tls *s = user;
    struct response r;

    response_init(&r, 200, "text/plain", NULL);
    r.text = s->text;
    request_answer(rq, &r);
}

void
called_tls_open(struct called_tls *s, const struct certificate_wish *wish)
{
    struct server_options options = {.host = "127.0.0.1",
                                     .threads = 1,
                                     .tls_cert = s->certificate.cert,
                                     .tls_key = s->certificate.key,
                                     .request_timeout_us = 60000000,
                                     .on_request = answer_text,
                                     .user = s};
    struct problem why = {"", 0, 0};

    tempdir_open(&s->dir);
    certificate_make(&s->certificate, s->dir.path, wish);
    if (server_open(&s->server, &options, &why))
        fail_msg("%s", why.text);
    s->port = server_port(s->server);
}

void
called_tls_close(struct called_tls *s)
{
    server_close(s->server, 0);
    tempdir_close(&s->dir);
}
