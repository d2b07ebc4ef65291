#include "tests/unit/hub/simulation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "broker/hub/foreign.h"
#include "broker/hub/relay.h"
#include "proto/form.h"

#define CALLS_MAX  16384
#define ALARMS_MAX 16384

struct problem sim_why;
char sim_text[SIM_TEXT_MAX];

/* Clocks */

/* The log thread asks, too. */
static _Atomic(int64_t) now_us, steady_us;

static int64_t
now(void)
{
    return now_us;
}

static int64_t
steady(void)
{
    return steady_us;
}

void
sim_set_clock(int64_t us)
{
    now_us = us;
}

/* The caller */

struct caller {
    struct caller_options options;
    struct list posted;
    atomic_bool is_woken;
    struct call *calls[CALLS_MAX];
    unsigned n_calls;
    struct alarm *alarms[ALARMS_MAX];
    unsigned n_alarms;
    bool has_stopped;
};

static struct caller *the_caller;
bool sim_is_busy;

enum { WAITS, IS_LATER, IS_READY };

enum status
caller_open(struct caller **caller, const struct caller_options *options,
            struct problem *why)
{
    struct caller *c = calloc(1, sizeof(*c));

    (void)why;
    assert_non_null(c);
    c->options = *options;
    list_init(&c->posted);
    the_caller = c;
    c->options.on_begin(c, c->options.user);
    *caller = c;
    return STATUS_OK;
}

void
caller_wake(struct caller *c)
{
    atomic_store(&c->is_woken, true);
}

void
caller_post(struct caller *c, struct task *task)
{
    list_append(&c->posted, &task->node);
}

static void
run_posted(struct caller *c)
{
    struct list *node;

    while ((node = list_first(&c->posted))) {
        struct task *task = list_entry(node, struct task, node);

        list_remove(node);
        task->run(task);
    }
}

void
caller_stop(struct caller *c)
{
    if (c->has_stopped)
        return;
    c->has_stopped = true;
    c->n_calls = 0;
    run_posted(c);
    c->options.on_end(c, c->options.user);
}

void
caller_close(struct caller *c)
{
    if (!c)
        return;
    caller_stop(c);
    free(c);
    the_caller = NULL;
}

void
caller_start(struct caller *c, struct call *call)
{
    if (c->has_stopped)
        return;
    assert_true(c->n_calls < CALLS_MAX);
    call->state = WAITS;
    c->calls[c->n_calls++] = call;
    atomic_store(&c->is_woken, true); /* another turn */
}

void
caller_go(struct caller *c, struct call *call, bool ready)
{
    assert_int_equal(call->state, IS_LATER);
    if (ready)
        call->state = IS_READY;
    else
        caller_cancel(c, call);
}

void
caller_cancel(struct caller *c, struct call *call)
{
    for (unsigned i = 0; i < c->n_calls; i++)
        if (c->calls[i] == call) {
            c->n_calls--;
            memmove(&c->calls[i], &c->calls[i + 1],
                    (c->n_calls - i) * sizeof(c->calls[0]));
            return;
        }
}

void
caller_clear_alarm(struct caller *c, struct alarm *alarm)
{
    for (unsigned i = 0; i < c->n_alarms; i++)
        if (c->alarms[i] == alarm)
            c->alarms[i--] = c->alarms[--c->n_alarms];
}

void
caller_set_alarm(struct caller *c, struct alarm *alarm, int64_t at_us)
{
    caller_clear_alarm(c, alarm);
    alarm->at_us = at_us;
    assert_true(c->n_alarms < ALARMS_MAX);
    c->alarms[c->n_alarms++] = alarm;
}

void
caller_work(struct caller *c, struct job *job)
{
    (void)c;
    job->work(job);
    job->done(job);
}

void
caller_count(const struct caller *c, unsigned *under_way, unsigned *waiting)
{
    *under_way = c->n_calls;
    *waiting = 0;
}

/* Relays and foreign Sources: there are none. Weak, for they may be linked. */

#define NONE __attribute__((weak))

NONE enum status
relay_load(struct hub *hub, struct problem *why)
{
    (void)hub, (void)why;
    return STATUS_OK;
}

NONE void
relay_close(struct hub *hub)
{
    (void)hub;
}

NONE struct relay *
relay_find(struct hub *hub, struct slice name)
{
    (void)hub, (void)name;
    return NULL;
}

NONE struct relay *
relay_of_topic(struct hub *hub, struct slice url)
{
    (void)hub, (void)url;
    return NULL;
}

NONE enum status
relay_read(struct relay *relay, uint64_t after, struct buf *to,
           const char **content_type, struct problem *why)
{
    (void)relay, (void)after, (void)to, (void)content_type;
    return problem(why, STATUS_GONE, "there is no relay");
}

NONE void
relay_put(struct order *order)
{
    order->status = STATUS_NOT_FOUND;
}

NONE void
relay_show(struct order *order)
{
    order->status = STATUS_NOT_FOUND;
}

NONE void
relay_list(struct order *order)
{
    order->status = STATUS_NOT_FOUND;
}

NONE void
relay_remove(struct order *order)
{
    order->status = STATUS_NOT_FOUND;
}

NONE void
foreign_notify(struct order *order)
{
    hub_answer_now(order, STATUS_NOT_FOUND, NULL);
}

NONE void
foreign_publish(struct order *order)
{
    hub_answer_now(order, STATUS_NOT_FOUND, NULL);
}

NONE void
foreign_end(struct hub *hub)
{
    (void)hub;
}

/* Turns */

static bool
ring_one(struct caller *c, int64_t until_us)
{
    struct alarm *first = NULL;

    for (unsigned i = 0; i < c->n_alarms; i++)
        if (c->alarms[i]->at_us <= until_us &&
            (!first || c->alarms[i]->at_us < first->at_us))
            first = c->alarms[i];
    if (!first)
        return false;
    if (first->at_us > steady_us) {
        now_us += first->at_us - steady_us;
        steady_us = first->at_us;
    }
    caller_clear_alarm(c, first);
    first->ring(first);
    return true;
}

/* All that wait get their turn. */
static void
give_turns(struct caller *c)
{
    for (unsigned i = 0; !sim_is_busy && i < c->n_calls; i++) {
        struct call *call = c->calls[i];

        if (call->state != WAITS)
            continue;
        call->state = IS_LATER;
        switch (call->prepare ? call->prepare(call) : CALL_READY) {
        case CALL_READY:
            call->state = IS_READY;
            break;
        case CALL_NOT:
            caller_cancel(c, call);
            break;
        default:
            break;
        }
        i = (unsigned)-1; /* it may have changed the others */
    }
}

void
sim_turn(struct simulation *sim)
{
    struct caller *c = the_caller;

    (void)sim;
    do {
        run_posted(c);
        if (atomic_exchange(&c->is_woken, false))
            c->options.on_wake(c, c->options.user);
        give_turns(c);
        c->options.on_turn(c, c->options.user);
    } while (atomic_load(&c->is_woken));
}

void
sim_pass(struct simulation *sim, int64_t us)
{
    int64_t until_us = steady_us + us;

    while (ring_one(the_caller, until_us))
        sim_turn(sim);
    now_us += until_us - steady_us;
    steady_us = until_us;
}

/* Life */

void
simulation_prepare(struct simulation *sim)
{
    now_us = 1800000000000000;
    steady_us = 1000000000;
    clock_replace(now);
    clock_replace_steady(steady);
    tempdir_open(&sim->dir);
    sets_configure(&sim->sets, sim->dir.path);
}

void
simulation_reopen(struct simulation *sim)
{
    struct networks allowed = {.n = 0};
    struct problem why = {""};

    if (hub_open(&sim->hub, sim->sets.registry, &allowed, &why))
        fail_msg("%s", why.text);
    sim_turn(sim);
}

void
simulation_open(struct simulation *sim)
{
    sets_open(&sim->sets);
    sets_post(&sim->sets, "demo", 1, 3);
    simulation_reopen(sim);
}

void
simulation_restart(struct simulation *sim)
{
    hub_close(sim->hub);
    simulation_reopen(sim);
}

/* hub.db as it stands now is put back once the hub has ended. */
void
simulation_crash(struct simulation *sim)
{
    static const char *const names[] = {"hub.db", "hub.db-wal"};
    struct buf copies[2];
    char path[300];
    char bytes[65536];
    size_t size;
    FILE *file;

    for (int i = 0; i < 2; i++) {
        buf_init(&copies[i], 1 << 26);
        snprintf(path, sizeof(path), "%s/%s", sim->dir.path, names[i]);
        file = fopen(path, "r");
        assert_non_null(file);
        while ((size = fread(bytes, 1, sizeof(bytes), file)) > 0)
            buf_add(&copies[i], bytes, size);
        fclose(file);
    }
    hub_close(sim->hub);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", sim->dir.path, names[i]);
        file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(copies[i].data, 1, copies[i].size, file),
                         copies[i].size);
        fclose(file);
        buf_fini(&copies[i]);
    }
    simulation_reopen(sim);
}

void
simulation_close(struct simulation *sim)
{
    hub_close(sim->hub);
    sets_close(&sim->sets);
    clock_replace(NULL);
    clock_replace_steady(NULL);
    tempdir_close(&sim->dir);
}

int
simulation_setup(void **state)
{
    struct simulation *sim = calloc(1, sizeof(*sim));

    simulation_prepare(sim);
    simulation_open(sim);
    *state = sim;
    return 0;
}

int
simulation_teardown(void **state)
{
    simulation_close(*state);
    free(*state);
    return 0;
}

/* Orders */

static void
on_done(struct order *order)
{
    assert_null(order->user);
    order->user = order; /* it is done */
    if (order->http == 0)
        order->http = 500;
}

struct order *
sim_submit(struct simulation *sim, const char *form)
{
    struct order *order = order_new(ORDER_SUBSCRIBE, 0);
    char text[16384];

    snprintf(text, sizeof(text), form,
             "http%3A%2F%2Fexample.org%2Fsets%2Fdemo%2Fnotifications");
    sim_why = (struct problem){""};
    if (order_read_form(order, slice_of(text), &sim_why)) {
        order_free(order);
        return NULL;
    }
    snprintf(order->from, sizeof(order->from), "192.0.2.1");
    order->done = on_done;
    assert_int_equal(hub_submit(sim->hub, order), STATUS_OK);
    return order;
}

unsigned
sim_outcome(struct order *order)
{
    unsigned http = order->http;

    assert_ptr_equal(order->user, order);
    sim_why = order->why;
    snprintf(sim_text, sizeof(sim_text), "%.*s",
             SLICE_ARG(buf_slice(&order->text)));
    order_free(order);
    return http;
}

unsigned
sim_form(struct simulation *sim, const char *form)
{
    struct order *order = sim_submit(sim, form);

    if (!order)
        return 400;
    sim_turn(sim);
    return sim_outcome(order);
}

unsigned
sim_run(struct simulation *sim, struct order *order)
{
    order->done = on_done;
    assert_int_equal(hub_submit(sim->hub, order), STATUS_OK);
    sim_turn(sim);
    return sim_outcome(order);
}

unsigned
sim_order(struct simulation *sim, enum order_kind kind, uint64_t id,
          const char *after)
{
    struct order *order = order_new(kind, 100);

    snprintf(order->name, sizeof(order->name), "demo");
    order->id = id;
    if (after)
        order->after = order_keep(order, slice_of(after));
    return sim_run(sim, order);
}

void
sim_subscribe(struct simulation *sim, const char *callback, const char *more)
{
    char form[8192];

    snprintf(form, sizeof(form),
             "hub.mode=subscribe&hub.topic=%%s&hub.callback=%s%s", callback,
             more);
    if (sim_form(sim, form) != 202)
        fail_msg("%s", sim_why.text);
}

/* Calls */

struct call *
sim_call(const char *url)
{
    for (unsigned i = 0; i < the_caller->n_calls; i++)
        if (!strncmp(the_caller->calls[i]->url, url, strlen(url)))
            return the_caller->calls[i];
    return NULL;
}

bool
sim_is_sent(const char *url)
{
    const struct call *call = sim_call(url);

    return call && call->state == IS_READY;
}

unsigned
sim_n_calls(void)
{
    return the_caller->n_calls;
}

const char *
sim_parameter(const struct call *call, const char *name)
{
    static char values[4][4096];
    static unsigned turn;
    char *value = values[turn++ % 4];
    const char *query = strchr(call->url, '?');
    struct form_data form;
    struct slice found = {NULL, 0};

    assert_non_null(query);
    assert_int_equal(form_read(&form, slice_of(query + 1), NULL), STATUS_OK);
    form_get(&form, name, &found);
    snprintf(value, sizeof(values[0]), "%.*s", SLICE_ARG(found));
    form_fini(&form);
    return value;
}

/* Its turn has come, and it is out. */
static void
take(struct call *call)
{
    assert_non_null(call);
    assert_int_equal(call->state, IS_READY);
    caller_cancel(the_caller, call);
}

void
sim_answer_only(struct call *call, unsigned status, const char *body)
{
    size_t size = strlen(body);

    take(call);
    call->failure = CALL_ANSWERED;
    call->status = status;
    call->is_cut = size > call->max_answer;
    call->answer = (struct slice){body, call->is_cut ? call->max_answer : size};
    call->done(call);
}

void
sim_answer(struct simulation *sim, struct call *call, unsigned status,
           const char *body)
{
    sim_answer_only(call, status, body);
    sim_turn(sim);
}

void
sim_fail(struct simulation *sim, struct call *call, enum call_failure failure)
{
    take(call);
    call->failure = failure;
    call->status = 0;
    call->answer = (struct slice){NULL, 0};
    snprintf(call->why, sizeof(call->why), "it failed");
    call->done(call);
    sim_turn(sim);
}

void
sim_confirm(struct simulation *sim, const char *callback)
{
    struct call *call = sim_call(callback);

    assert_non_null(call);
    sim_answer(sim, call, 200, sim_parameter(call, "hub.challenge"));
}

struct subscription *
sim_find(struct simulation *sim, const char *callback)
{
    struct subscription *s;

    for (s = subscription_next(sim->hub, 0); s;
         s = subscription_next(sim->hub, s->id))
        if (!strcmp(s->callback, callback))
            return s;
    return NULL;
}

struct subscription *
sim_active(struct simulation *sim, const char *callback, const char *more)
{
    struct subscription *s;

    sim_subscribe(sim, callback, more);
    sim_confirm(sim, callback);
    s = sim_find(sim, callback);
    assert_non_null(s);
    return s;
}

/* A database that may not grow refuses what needs a page. */
void
sim_fill_disk(struct simulation *sim, bool is_full)
{
    struct db *db = records_db(sim->hub->records);
    struct problem why = {""};

    /* Less than there are is as many as there are. */
    if (db_exec(db,
                is_full ? "PRAGMA max_page_count=1"
                        : "PRAGMA max_page_count=1000000",
                &why))
        fail_msg("%s", why.text);
}
