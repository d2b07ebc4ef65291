#include "tests/unit/hub_quiet/simulation.h"

#include <stdio.h>
#include <string.h>

#include "proto/urlencoded.h"
#include "tests/test.h"

struct problem sim_why;
char sim_text[SIM_TEXT_MAX];

struct simulation sim;

void
sim_post(unsigned from, unsigned n)
{
    sets_post(&sim.sets, "demo", from, n);
    hub_wake(sim.hub);
    quiet_turn();
}

/* Life */

void
simulation_give(unsigned parts, bool is_given)
{
    for (unsigned i = 0; i < HUB_PARTS; i++)
        if (parts >> i & 1)
            hub_give(sim.hub, i, is_given ? &sim.rights[i] : NULL);
    quiet_turn();
}

void
simulation_reopen(void)
{
    static const struct networks allowed; /* lent */
    struct problem why = {""};

    if (hub_open(&sim.hub, &sim.sets.posts, sim.tokens, &allowed,
                 sim.cluster.streams ? &sim.cluster : NULL, &why))
        fail_msg("%s", why.text);
    quiet_turn();
    if (sim.cluster.streams)
        simulation_give(HUB_PARTS_ALL, true);
}

void
simulation_restart(void)
{
    hub_close(sim.hub);
    simulation_reopen();
}

/* hub.db as it stands now is put back once the hub has ended. */
void
simulation_crash(void)
{
    static const char *const names[] = {"hub.db", "hub.db-wal"};
    struct buf copies[2];
    char path[300];
    char bytes[65536];
    size_t size;
    FILE *file;

    for (int i = 0; i < 2; i++) {
        buf_init(&copies[i], 1 << 26);
        snprintf(path, sizeof(path), "%s/%s", sim.dir.path, names[i]);
        file = fopen(path, "r");
        assert_non_null(file);
        while ((size = fread(bytes, 1, sizeof(bytes), file)) > 0)
            buf_add(&copies[i], bytes, size);
        fclose(file);
    }
    hub_close(sim.hub);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", sim.dir.path, names[i]);
        file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(copies[i].data, 1, copies[i].size, file),
                         copies[i].size);
        fclose(file);
        buf_fini(&copies[i]);
    }
    simulation_reopen();
}

int
simulation_setup(void **state)
{
    (void)state;
    quiet_set_clock(QUIET_BEGIN_US);
    tempdir_open(&sim.dir);
    sets_configure(&sim.sets, sim.dir.path);
    sets_open(&sim.sets);
    sets_post(&sim.sets, "demo", 1, 3);
    simulation_reopen();
    return 0;
}

int
simulation_teardown(void **state)
{
    (void)state;
    hub_close(sim.hub);
    sets_close(&sim.sets);
    tempdir_close(&sim.dir);
    return 0;
}

/* Commands */

static void
on_done(struct command *command)
{
    assert_null(command->user);
    command->user = command; /* it is done */
    if (command->http == 0)
        command->http = 500;
}

static void
submit(struct command *command)
{
    command->done = on_done;
    if (sim.by)
        command->principal = principal_ref(sim.by);
    assert_int_equal(hub_submit(sim.hub, command), STATUS_OK);
}

/* NULL: it was refused. */
static struct command *
submit_form(const char *form)
{
    struct command *command = command_new(COMMAND_SUBSCRIBE, 0);

    sim_why = (struct problem){""};
    if (command_read_form(command, slice_of(form), &sim_why)) {
        command_free(command);
        return NULL;
    }
    snprintf(command->from, sizeof(command->from), "192.0.2.1");
    submit(command);
    return command;
}

struct command *
sim_request(const char *callback, const char *more)
{
    char form[8192];

    snprintf(form, sizeof(form),
             "hub.mode=subscribe&hub.topic=http%%3A%%2F%%2Fexample.org%%2Fsets"
             "%%2Fdemo%%2Fnotifications&hub.callback=%s%s",
             callback, more);
    return submit_form(form);
}

unsigned
sim_outcome(struct command *command)
{
    unsigned http = command->http;

    assert_ptr_equal(command->user, command);
    sim_why = command->why;
    snprintf(sim_text, sizeof(sim_text), "%.*s",
             SLICE_ARG(buf_slice(&command->text)));
    command_free(command);
    return http;
}

/* Runs turns until the submitted command is answered; returns the status. */
static unsigned
turn_for(struct command *command)
{
    if (!command)
        return 400;
    quiet_turn();
    return sim_outcome(command);
}

unsigned
sim_form(const char *form)
{
    return turn_for(submit_form(form));
}

unsigned
sim_ask(const char *callback, const char *more)
{
    return turn_for(sim_request(callback, more));
}

unsigned
sim_run(struct command *command)
{
    submit(command);
    return turn_for(command);
}

unsigned
sim_ask_simply(const char *callback)
{
    struct command *command = command_new(COMMAND_SUBSCRIBE, 0);
    char form[200];

    snprintf(form, sizeof(form), "callbackURI=%s", callback);
    assert_int_equal(command_read_simple(command, slice_of(form), &sim_why),
                     STATUS_OK);
    strcpy(command->name, "demo");
    return sim_run(command);
}

unsigned
sim_command(enum command_kind kind, uint64_t id, const char *after)
{
    struct command *command = command_new(kind, 100);

    snprintf(command->name, sizeof(command->name), "demo");
    command->id = id;
    if (after)
        command->after = command_keep(command, slice_of(after));
    return sim_run(command);
}

void
sim_subscribe(const char *callback, const char *more)
{
    if (sim_ask(callback, more) != 202)
        fail_msg("%s: %s", callback, sim_why.text);
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

    return call && call->own.state == QUIET_UNDER_WAY;
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
    struct urlencoded_data form;
    struct slice found = {NULL, 0};

    assert_non_null(query);
    assert_int_equal(urlencoded_read(&form, slice_of(query + 1), NULL),
                     STATUS_OK);
    urlencoded_get(&form, name, &found);
    snprintf(value, sizeof(values[0]), "%.*s", SLICE_ARG(found));
    urlencoded_fini(&form);
    return value;
}

void
sim_answer(struct call *call, unsigned status, const char *body)
{
    quiet_answer(call, status, body);
    quiet_turn();
}

void
sim_fail(struct call *call, enum call_failure failure)
{
    quiet_fail(call, failure, "it failed");
    quiet_turn();
}

void
sim_confirm(const char *callback)
{
    struct call *call = sim_call(callback);

    assert_non_null(call);
    sim_answer(call, 200, sim_parameter(call, "hub.challenge"));
}

void
sim_assert_denied(const char *callback)
{
    struct call *call = sim_call(callback);

    assert_non_null(call);
    assert_string_equal(sim_parameter(call, "hub.mode"), "denied");
    assert_string_equal(sim_parameter(call, "hub.topic"),
                        SETS_URL "/sets/demo/notifications");
}

struct subscription *
sim_next(uint64_t after)
{
    struct subscription *s;

    list_walk (s, &sim.hub->subscriptions.all, key.of_all_topics) {
        if (s->id > after)
            return s;
    }
    return NULL;
}

struct verification *
sim_waiting(void)
{
    struct verification *r;

    list_walk (r, &sim.hub->verifications.tables.all, key.of_all_topics)
        return r;
    return NULL;
}

struct subscription *
sim_by_id(uint64_t id)
{
    struct callback_key *key =
        callback_tables_by_id(&sim.hub->subscriptions, id);

    return key ? list_entry(key, struct subscription, key) : NULL;
}

struct subscription *
sim_find(const char *callback)
{
    struct subscription *s;

    for (s = sim_next(0); s; s = sim_next(s->id))
        if (!strcmp(s->callback, callback))
            return s;
    return NULL;
}

struct subscription *
sim_active(const char *callback, const char *more)
{
    struct subscription *s;

    sim_subscribe(callback, more);
    sim_confirm(callback);
    s = sim_find(callback);
    assert_non_null(s);
    return s;
}

void
sim_make_active(struct topic *topic, unsigned from, unsigned to)
{
    struct problem why = {""};
    char url[60];

    for (unsigned i = from; i < to; i++) {
        struct hub_record record = {
            .terms = {.lease_us = HUB_TICK_US},
            .lease_end_us = INT64_MAX,
            .after = 3,
        };

        snprintf(url, sizeof(url), "http://h%u.example/cb", i);
        record.callback = slice_of(url);
        if (subscription_confirm(topic, &record, &why))
            fail_msg("%s: %s", url, why.text);
    }
    quiet_turn();
}

/* A database that may not grow refuses what needs a page. */
void
sim_fill_disk(bool is_full)
{
    struct db *db = &sim.hub->db->db;
    struct problem why = {""};

    /* SQLite takes a number below the current one as the current one. */
    if (db_exec(db,
                is_full ? "PRAGMA max_page_count=1"
                        : "PRAGMA max_page_count=1000000",
                &why))
        fail_msg("%s", why.text);
}

void
sim_use_up_disk(void)
{
    char url[300];
    int width = 200;

    sim_fill_disk(true);
    for (int i = 0; width > 0; i++) { /* until the free pages are used up */
        if (i == 80)
            fail_msg("hub.db still has room");
        snprintf(url, sizeof(url), "http://b.example/%0200d", i);
        memmove(url + 17, url + 17 + 200 - width, (size_t)width + 1);
        if (sim_ask(url, "") == 503)
            width /= 4; /* a shorter one may have room */
    }
}

size_t
subscriptions_count(struct hub *hub)
{
    return hub->subscriptions.ids.n;
}
