#include "tests/unit/hub_quiet/simulation.h"

#include <stdio.h>
#include <string.h>

#include "proto/form.h"
#include "tests/test.h"

struct problem sim_why;
char sim_text[SIM_TEXT_MAX];

/* Turns */

void
sim_turn(struct simulation *sim)
{
    (void)sim;
    quiet_turn();
}

void
sim_pass(struct simulation *sim, int64_t us)
{
    (void)sim;
    quiet_pass(us);
}

void
sim_post(struct simulation *sim, unsigned from, unsigned n)
{
    sets_post(&sim->sets, "demo", from, n);
    hub_wake(sim->hub);
    sim_turn(sim);
}

/* Life */

void
simulation_prepare(struct simulation *sim)
{
    quiet_set_clock(QUIET_BEGIN_US);
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
    struct call *call = NULL;

    while ((call = quiet_next(call)))
        if (!strncmp(call->url, url, strlen(url)))
            break;
    return call;
}

bool
sim_is_sent(const char *url)
{
    const struct call *call = sim_call(url);

    return call && call->state == QUIET_UNDER_WAY;
}

unsigned
sim_n_calls(void)
{
    return quiet->n_calls;
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

void
sim_answer(struct simulation *sim, struct call *call, unsigned status,
           const char *body)
{
    quiet_answer(call, status, body);
    sim_turn(sim);
}

void
sim_fail(struct simulation *sim, struct call *call, enum call_failure failure)
{
    quiet_fail(call, failure, "it failed");
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
