/*
 * Two brokers: the owner, and another one.
 */
#include "broker/hub/remote_commands.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/clock.h"
#include "tests/support/shared_streams.h"
#include "tests/test.h"

struct pair {
    struct shared_streams all;
    struct streams_seat seats[2];
    struct cluster_seat of_asked, of_owner;
    struct remote_commands *asked, *owner;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned n_run, n_done;
    uint64_t place, place_of_owner; /* of their copies */
    bool is_silent;                 /* the owner answers nothing */
    struct command *kept;
};

static enum status
run_here(struct hub *hub, struct command *command)
{
    struct pair *p = (void *)hub;
    bool is_silent;

    pthread_mutex_lock(&p->mutex);
    p->n_run++;
    is_silent = p->is_silent;
    pthread_cond_broadcast(&p->changed);
    if (is_silent)
        p->kept = command;
    pthread_mutex_unlock(&p->mutex);
    if (is_silent)
        return STATUS_OK;
    command->http = 200;
    if (command->kind == COMMAND_LIST)
        buf_add_format(&command->text,
                       "{\"subscriptions\":[{\"id\":%d,\"n\":%u}]}\n",
                       command->part, p->n_run);
    else
        buf_add_format(&command->text, "%s %u", command->name,
                       (unsigned)command->id);
    command->done(command);
    return STATUS_OK;
}

static bool
has_part(struct hub *hub, unsigned part)
{
    (void)hub;
    return part == 3 || part == 1;
}

static enum status
run_nowhere(struct hub *hub, struct command *command)
{
    (void)hub;
    (void)command;
    return STATUS_STOPPED;
}

static struct streams *
open_of_asked(void *user)
{
    struct pair *p = user;

    return streams_seat_take(&p->seats[0], &p->all, "a");
}

static struct streams *
open_of_owner(void *user)
{
    struct pair *p = user;

    return streams_seat_take(&p->seats[1], &p->all, "b");
}

static uint64_t
place_of_asked(void *user, enum ability *ability)
{
    const struct pair *p = user;

    (void)ability;
    return p->place;
}

static uint64_t
place_of_owner(void *user, enum ability *ability)
{
    const struct pair *p = user;

    (void)ability;
    return __atomic_load_n(&p->place_of_owner, __ATOMIC_ACQUIRE);
}

static void
on_done(struct command *command)
{
    struct pair *p = command->user;

    pthread_mutex_lock(&p->mutex);
    p->n_done++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
}

static int
setup(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));
    struct remote_commands_options options = {.hub = (void *)p};
    struct problem why;

    assert_non_null(p);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->changed, NULL);
    shared_streams_init(&p->all);
    p->of_asked = (struct cluster_seat){open_of_asked, place_of_asked, p};
    options.may_run = has_part;
    options.seat = &p->of_asked;
    options.run = run_nowhere;
    assert_int_equal(remote_commands_open(&p->asked, &options, &why),
                     STATUS_OK);
    p->of_owner = (struct cluster_seat){open_of_owner, place_of_owner, p};
    options.seat = &p->of_owner;
    options.run = run_here;
    assert_int_equal(remote_commands_open(&p->owner, &options, &why),
                     STATUS_OK);
    *state = p;
    return 0;
}

static int
teardown(void **state)
{
    struct pair *p = *state;

    remote_commands_close(p->asked);
    remote_commands_close(p->owner);
    shared_streams_fini(&p->all);
    free(p);
    return 0;
}

FIXTURE(setup, teardown);

static struct command *
ask(struct pair *p, uint64_t id)
{
    struct command *command = command_new(COMMAND_SHOW, 0);
    struct problem why;

    strcpy(command->name, "demo");
    command->id = id;
    command->done = on_done;
    command->user = p;
    assert_int_equal(remote_commands_send(p->asked, command, 1u << 3, &why),
                     STATUS_OK);
    return command;
}

static void
await(struct pair *p, const unsigned *n, unsigned least)
{
    pthread_mutex_lock(&p->mutex);
    while (*n < least)
        pthread_cond_wait(&p->changed, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
}

/* Issue, 4: any broker takes a request; the owner carries it out. */
TEST(brings_the_outcome_back)
{
    struct pair *p = *state;
    struct command *first = ask(p, 17), *second = ask(p, 18);

    remote_commands_own(p->owner, 3, 1);
    await(p, &p->n_done, 2);

    assert_int_equal(first->http, 200);
    assert_true(slice_is(buf_slice(&first->text), "demo 17"));
    assert_true(slice_is(buf_slice(&second->text), "demo 18"));
    assert_int_equal(p->n_run, 2);
    command_free(first);
    command_free(second);
}

/* The rows of one other part, and of several, join those of this broker. */
TEST(joins_the_rows_of_a_list)
{
    static const char own[] = "{\"subscriptions\":[{\"id\":2,\"n\":0}]}\n";

    static const struct {
        unsigned parts;
        const char *list;
    } rows[] = {
        {1u << 3, "{\"subscriptions\":[{\"id\":2,\"n\":0},\n"
                  "{\"id\":3,\"n\":1}]}\n"},
        {1u << 1 | 1u << 3, "{\"subscriptions\":[{\"id\":1,\"n\":2},\n"
                            "{\"id\":2,\"n\":0},\n{\"id\":3,\"n\":3}]}\n"},
    };
    struct pair *p = *state;
    struct problem why;

    remote_commands_own(p->owner, 1, 1);
    remote_commands_own(p->owner, 3, 1);
    for (unsigned i = 0; i < 2; i++) {
        struct command *command = command_new(COMMAND_LIST, 0);

        buf_add_text(&command->text, own);
        command->done = on_done;
        command->user = p;
        assert_int_equal(
            remote_commands_send(p->asked, command, rows[i].parts, &why),
            STATUS_OK);
        await(p, &p->n_done, i + 1);
        assert_int_equal(command->http, 200);
        buf_add(&command->text, "", 1);
        assert_string_equal(command->text.data, rows[i].list);
        command_free(command);
    }
}

/* Nobody owns: the client hears that in time, and may ask again. */
TEST(gives_up_without_an_owner)
{
    struct pair *p = *state;
    struct command *command = ask(p, 17);

    AWAIT(shared_streams_has_taken(&p->all, 1, 0));
    for (int i = 0; i < 6; i++) {
        clock_await_waits_us(2, 1000000);
        clock_pass_us(1000000);
    }
    await(p, &p->n_done, 1);

    assert_int_equal(command->status, STATUS_UNREACHABLE);
    assert_int_equal(command->http, 503);
    command_free(command);
}

/* The owner died with the order: the next one takes it. */
TEST(an_order_goes_to_the_next_owner)
{
    struct pair *p = *state;
    struct command *command;

    p->is_silent = true;
    remote_commands_own(p->owner, 3, 1);
    command = ask(p, 17);
    await(p, &p->n_run, 1);
    pthread_mutex_lock(&p->mutex);
    p->is_silent = false;
    pthread_mutex_unlock(&p->mutex);
    remote_commands_own(p->owner, 3, 2);
    await(p, &p->n_done, 1);

    assert_int_equal(command->http, 200);
    assert_int_equal(p->n_run, 2);
    command_free(command);
    p->kept->done(p->kept); /* late: nobody waits for it */
}

/* The journal is away. */
TEST(refuses_what_it_cannot_send)
{
    struct pair *p = *state;
    struct command *command;

    streams_seat_cut(&p->seats[0], true);
    command = ask(p, 17);
    await(p, &p->n_done, 1);
    assert_int_equal(command->http, 503);
    command_free(command);
}

/* The broker ends: each command has an answer. */
TEST(answers_all_at_its_end)
{
    struct pair *p = *state;
    struct command *command = ask(p, 17), *late = command_new(COMMAND_SHOW, 0);
    struct problem why;

    remote_commands_stop(p->asked);
    await(p, &p->n_done, 1);
    assert_int_equal(command->http, 503);
    assert_int_equal(remote_commands_send(p->asked, late, 1u << 3, &why),
                     STATUS_STOPPED);
    command_free(command);
    command_free(late);
}

/* The asked broker has a set that the owner's copy does not have yet. */
TEST(waits_until_the_copy_of_the_owner_is_far_enough)
{
    struct pair *p = *state;
    struct command *command;

    p->place = 7;
    remote_commands_own(p->owner, 3, 1);
    command = ask(p, 17);
    AWAIT(shared_streams_has_taken(&p->all, 1, 1));
    clock_await_waits_us(1, 10000);
    assert_int_equal(p->n_run, 0);
    __atomic_store_n(&p->place_of_owner, 7, __ATOMIC_RELEASE);
    clock_pass_us(10000);
    await(p, &p->n_done, 1);

    assert_int_equal(command->http, 200);
    command_free(command);
}
