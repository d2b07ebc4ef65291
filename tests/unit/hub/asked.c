#include "tests/unit/hub/asked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/net/response.h"
#include "broker/sets/set_change.h"
#include "tests/test.h"

struct asked broker;

static void
asked_open_hub(void)
{
    static struct networks allowed; /* lent */
    struct problem why = {""};

    allowed = (struct networks){.n = 0};
    networks_add_loopback(&allowed);
    if (hub_open(&broker.hub, &broker.sets.posts, NULL, &allowed, NULL, &why))
        fail_msg("no hub: %s", why.text);
}

int
asked_configure(void **state)
{
    tempdir_setup(state);
    sets_configure(&broker.sets, tempdir_path(state));
    broker.sets.config.hub_retry.first_us = 10000;
    broker.sets.config.hub_retry.max_us = ASKED_RETRY_US;
    return 0;
}

void
asked_open(void)
{
    sets_open(&broker.sets);
    asked_open_hub();
}

void
asked_close_hub(void)
{
    hub_close(broker.hub);
    broker.hub = NULL;
}

int
asked_setup(void **state)
{
    asked_configure(state);
    asked_open();
    return 0;
}

int
asked_teardown(void **state)
{
    asked_close_hub();
    sets_close(&broker.sets);
    return tempdir_teardown(state);
}

static void
asked_on_done(struct command *command)
{
    struct hub_request *w = command->user;

    pthread_mutex_lock(&w->mutex);
    w->is_done = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

void
asked_begin(struct hub_request *w, struct command *command)
{
    w->command = command;
    w->is_done = false;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    command->done = asked_on_done;
    command->user = w;
    assert_int_equal(hub_submit(broker.hub, command), STATUS_OK);
}

struct told
asked_await(struct hub_request *w)
{
    static struct told told;

    pthread_mutex_lock(&w->mutex);
    while (!w->is_done)
        pthread_cond_wait(&w->changed, &w->mutex);
    pthread_mutex_unlock(&w->mutex);
    told.status = w->command->status;
    told.http = w->command->http;
    if (told.http == 0)
        told.http = response_status_of(told.status);
    told.why = w->command->why;
    snprintf(told.text, sizeof(told.text), "%.*s",
             SLICE_ARG(buf_slice(&w->command->text)));
    command_free(w->command);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    return told;
}

struct told
asked(struct command *command)
{
    struct hub_request w;

    asked_begin(&w, command);
    return asked_await(&w);
}

struct told
asked_of_relay(enum command_kind kind, const char *name, const char *body)
{
    struct command *command = command_new(kind, 0);

    assert_non_null(command);
    snprintf(command->name, sizeof(command->name), "%s", name);
    command->is_relay = true;
    buf_add_text(&command->body, body);
    return asked(command);
}

/* Makes a relay; the answer has to be `http`. */
void
asked_put_relay(const char *name, const char *topic, unsigned http)
{
    char body[600];
    struct told t;

    snprintf(body, sizeof(body), "{\"topic\":\"%s\"}", topic);
    t = asked_of_relay(COMMAND_RELAY_PUT, name, body);
    if (t.http != http)
        fail_msg("%u, not %u: %s", t.http, http, t.why.text);
}

struct command *
asked_notification(const struct posted *p)
{
    struct command *command = command_new(COMMAND_NOTIFY, 20000);

    assert_non_null(command);
    if (p->type)
        command->content_type = command_keep(command, slice_of(p->type));
    if (p->links)
        command->links = command_keep(command, slice_of(p->links));
    if (p->key)
        command->key = command_keep(command, slice_of(p->key));
    assert_false(command->memory.failed);
    buf_add_slice(&command->body, p->body);
    return command;
}

/* Links as a good Source sends them, of this topic. Lent until the next. */
const char *
asked_links(const char *topic)
{
    static char links[1000];

    snprintf(links, sizeof(links), "<%s>; rel=\"self\", <%s>; rel=\"hub\"",
             topic, ASKED_HUB);
    return links;
}

struct told
asked_post(const char *topic, const char *type, const char *key,
           const char *body)
{
    struct posted p = {asked_links(topic), type, key, slice_of(body)};

    return asked(asked_notification(&p));
}

/* Returns the form with hub.mode=publish and `rest` behind it. */
struct told
asked_ping(const char *rest)
{
    struct command *command = command_new(COMMAND_PUBLISH, 20000);
    struct problem why = {""};
    char form[2000];

    assert_non_null(command);
    snprintf(form, sizeof(form), "hub.mode=publish&%s", rest);
    if (command_read_form(command, slice_of(form), &why))
        fail_msg("%s", why.text);
    assert_int_equal(command->kind, COMMAND_PUBLISH);
    return asked(command);
}

/* Settings, and the answer to them. */
struct asked_settings {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct set_change *done;
};

static void
asked_on_altered(struct set_change *change, void *user)
{
    struct asked_settings *s = user;

    pthread_mutex_lock(&s->mutex);
    s->done = change;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

/* Waits until the change of `s` is done. */
static enum status
asked_await_altered(struct asked_settings *s)
{
    enum status rc;

    pthread_mutex_lock(&s->mutex);
    while (!s->done)
        pthread_cond_wait(&s->changed, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
    rc = s->done->post.status;
    set_change_free(s->done);
    if (broker.hub)
        hub_sets_changed(broker.hub);
    return rc;
}

enum status
asked_put_set(const char *name, const char *text, struct problem *why)
{
    struct asked_settings s = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                               .changed = PTHREAD_COND_INITIALIZER};
    struct set_change_wish wish = {.name = slice_of(name),
                                   .body = slice_of(text)};
    enum status rc = set_change_settings(broker.sets.registry, &wish,
                                         asked_on_altered, &s, why);

    return rc ? rc : asked_await_altered(&s);
}

void
asked_remove_set(const char *name)
{
    struct asked_settings s = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                               .changed = PTHREAD_COND_INITIALIZER};
    struct problem why = {""};

    assert_int_equal(set_change_remove(sets_find(&broker.sets, name), NULL,
                                       asked_on_altered, &s, &why),
                     STATUS_OK);
    assert_int_equal(asked_await_altered(&s), STATUS_OK);
}
