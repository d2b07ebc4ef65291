/*
 * The hub with its thread: opening and ending it, and requests meanwhile.
 */
#include "broker/hub/hub.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/db.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define ASKERS 4
#define ORDERS 300

struct hub_request {
    struct hub *hub;
    unsigned n;
    atomic_uint n_submitted, n_done, n_refused;
    pthread_barrier_t *begin;
};

static void
on_done(struct command *command)
{
    struct hub_request *a = command->user;

    if (command->kind == COMMAND_SUBSCRIBE &&
        (command->status || command->http != 202) && command->http != 429 &&
        command->http != 503)
        abort();
    command_free(command);
    atomic_fetch_add(&a->n_done, 1);
}

static struct command *
make_order(unsigned who, unsigned i)
{
    struct command *command;
    char form[200];

    if (i % 3 == 0) {
        command = command_new(COMMAND_LIST, 0);
        strcpy(command->name, "demo");
        return command;
    }
    command = command_new(COMMAND_SUBSCRIBE, 0);
    snprintf(form, sizeof(form),
             "hub.mode=subscribe&hub.topic=" SETS_URL
             "/sets/demo/notifications&hub.callback=http://127.0.0.1:9/%u/%u",
             who, i);
    if (command_read_form(command, slice_of(form), NULL))
        abort();
    return command;
}

static void *
ask(void *user)
{
    struct hub_request *a = user;

    pthread_barrier_wait(a->begin);
    for (unsigned i = 0; i < ORDERS; i++) {
        struct command *command = make_order(a->n, i);

        command->done = on_done;
        command->user = a;
        atomic_fetch_add(&a->n_submitted, 1);
        if (hub_submit(a->hub, command) == STATUS_STOPPED) {
            command_free(command);
            atomic_fetch_add(&a->n_refused, 1);
        }
    }
    return NULL;
}

static void
open_hub(struct sets *sets, struct hub **hub)
{
    static const struct networks allowed; /* lent */
    struct problem why = {""};

    if (hub_open(hub, &sets->posts, NULL, &allowed, NULL, &why))
        fail_msg("%s", why.text);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* Every command comes back: done, or refused because the hub is ending. */
TEST(every_order_is_answered_though_the_hub_ends_meanwhile)
{
    struct sets sets;
    struct hub *hub;
    pthread_t threads[ASKERS];
    pthread_barrier_t begin;
    struct hub_request askings[ASKERS];

    sets_configure(&sets, tempdir_path(state));
    sets_open(&sets);
    sets_post(&sets, "demo", 1, 3);
    for (int round = 0; round < 3; round++) {
        open_hub(&sets, &hub);
        pthread_barrier_init(&begin, NULL, ASKERS + 1);
        for (unsigned i = 0; i < ASKERS; i++) {
            memset(&askings[i], 0, sizeof(askings[i]));
            askings[i].hub = hub;
            askings[i].n = i;
            askings[i].begin = &begin;
            pthread_create(&threads[i], NULL, ask, &askings[i]);
        }
        pthread_barrier_wait(&begin);
        sets_post(&sets, "demo", 1, 3); /* the log wakes it, too */
        hub_sets_changed(hub);
        hub_stop(hub);
        hub_stop(hub);
        for (unsigned i = 0; i < ASKERS; i++)
            pthread_join(threads[i], NULL);
        hub_close(hub);
        pthread_barrier_destroy(&begin);
        for (unsigned i = 0; i < ASKERS; i++)
            assert_int_equal(askings[i].n_done + askings[i].n_refused,
                             askings[i].n_submitted);
    }
    sets_close(&sets);
}

/* Two commands of one turn: which kind the hub answers first. */
struct pair_of_commands {
    struct hub *hub;
    enum command_kind first; /* COMMAND_KINDS: none yet */
    char report[1000];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned n_answered;
};

static void
on_either(struct command *command)
{
    struct pair_of_commands *p = command->user;

    pthread_mutex_lock(&p->mutex);
    if (p->n_answered++ == 0)
        p->first = command->kind;
    if (command->kind == COMMAND_LIST)
        snprintf(p->report, sizeof(p->report), "%.*s",
                 SLICE_ARG(buf_slice(&command->text)));
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->mutex);
    command_free(command);
}

static void
submit(struct pair_of_commands *p, unsigned i, void (*done)(struct command *))
{
    struct command *command = make_order(0, i);

    command->done = done;
    command->user = p;
    assert_int_equal(hub_submit(p->hub, command), STATUS_OK);
}

/* On the hub's thread: the next turn runs both. */
static void
submit_both(struct command *command)
{
    struct pair_of_commands *p = command->user;

    command_free(command);
    submit(p, 1, on_either); /* a subscription */
    submit(p, 0, on_either); /* a report */
}

/* A report shows a request when hub.db has it: after a kill it is there again.
 */
TEST(a_report_shows_what_outlives_a_crash)
{
    struct pair_of_commands p = {.first = COMMAND_KINDS,
                                 .mutex = PTHREAD_MUTEX_INITIALIZER,
                                 .changed = PTHREAD_COND_INITIALIZER};
    struct sets sets;

    sets_configure(&sets, tempdir_path(state));
    sets_open(&sets);
    sets_post(&sets, "demo", 1, 3);
    open_hub(&sets, &p.hub);
    submit(&p, 0, submit_both);
    pthread_mutex_lock(&p.mutex);
    while (p.n_answered < 2)
        pthread_cond_wait(&p.changed, &p.mutex);
    pthread_mutex_unlock(&p.mutex);
    assert_int_equal(p.first, COMMAND_SUBSCRIBE);
    assert_non_null(strstr(p.report, "\"state\":\"pending\""));
    hub_close(p.hub);
    sets_close(&sets);
}

/* A hub that cannot be opened leaves nothing behind, and reports why. */
TEST(what_cannot_be_opened_says_why)
{
    static const struct networks allowed; /* lent */
    struct problem why = {""};
    struct sets sets;
    struct db db;
    struct hub *hub;
    char path[300];

    sets_configure(&sets, tempdir_path(state));
    sets_open(&sets);
    strcpy(sets.config.hub_signature, "md5");
    assert_int_equal(hub_open(&hub, &sets.posts, NULL, &allowed, NULL, &why),
                     STATUS_INVALID);
    assert_string_equal(why.text,
                        "--hub-signature: there is no method \"md5\"");

    strcpy(sets.config.hub_signature, "sha512");
    snprintf(path, sizeof(path), "%s/hub.db", tempdir_path(state));
    assert_int_equal(db_open(&db, path, DB_SMALL, &why), STATUS_OK);
    assert_int_equal(db_exec(&db, "PRAGMA user_version=99", &why), STATUS_OK);
    db_close(&db);
    assert_int_equal(hub_open(&hub, &sets.posts, NULL, &allowed, NULL, &why),
                     STATUS_IO);
    assert_non_null(strstr(why.text, path));
    assert_non_null(strstr(why.text, "version 99"));
    hub_close(NULL);
    sets_close(&sets);
}
