#include "tests/unit/mqtt/owner.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/base/diag.h"
#include "tests/clock.h"
#include "tests/test.h"

static void
count(struct owner *o, unsigned *counter)
{
    pthread_mutex_lock(&o->lock);
    (*counter)++;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

/* The client's calls */

static void
on_connected(void *user, bool has_session)
{
    struct owner *o = user;

    o->has_session = has_session;
    count(o, &o->n_connected);
}

static void
on_acknowledged(void *user, int mid, int reason)
{
    struct owner *o = user;

    o->last_mid = mid;
    o->last_reason = reason;
    count(o, &o->n_acknowledged);
}

static void
copy(char *to, size_t size, struct slice from)
{
    snprintf(to, size, "%.*s", SLICE_ARG(from));
}

static void
on_received(void *user, const struct mqtt_received *m)
{
    struct owner *o = user;
    struct owner_received *r = &o->received[o->n_received % 8];

    snprintf(r->topic, sizeof(r->topic), "%s", m->topic);
    copy(r->payload, sizeof(r->payload), m->payload);
    copy(r->content_type, sizeof(r->content_type), m->content_type);
    copy(r->correlation, sizeof(r->correlation), m->correlation);
    copy(r->key, sizeof(r->key), m->key);
    r->is_retained = m->is_retained;
    r->is_repeat = m->is_repeat;
    count(o, &o->n_received);
}

static void
on_subscribed(void *user, int mid, int granted)
{
    struct owner *o = user;

    (void)mid;
    o->granted = granted;
    count(o, &o->n_subscribed);
}

static void
on_lost(void *user)
{
    struct owner *o = user;

    count(o, &o->n_lost);
}

static void
stay(struct owner *o)
{
    o->is_held = true;
    pthread_cond_broadcast(&o->changed);
    while (o->holds)
        pthread_cond_wait(&o->changed, &o->lock);
    o->is_held = false;
}

static int64_t
on_turn(void *user, bool is_connected)
{
    struct owner *o = user;
    void (*todo)(struct owner * o) = NULL;

    (void)is_connected;
    pthread_mutex_lock(&o->lock);
    if (o->holds && o->n_received > 0)
        stay(o);
    todo = o->todo;
    o->todo = NULL;
    pthread_mutex_unlock(&o->lock);
    if (o->drops && o->n_received > 0) {
        o->drops = false;
        owner_drop(o);
    }
    if (todo) {
        todo(o);
        count(o, &o->n_done);
    }
    count(o, &o->n_turns);
    return -1;
}

static bool
on_farewell(void *user)
{
    struct owner *o = user;

    count(o, &o->n_farewells);
    return !o->never_says_farewell;
}

/* Life cycle */

void
owner_prepare(struct owner *o, unsigned port)
{
    *o = (struct owner){
        .config = {.name = "test",
                   .host = "127.0.0.1",
                   .port = port,
                   .keepalive_us = 60000000,
                   .retry.first_us = 1000,
                   .retry.max_us = 8000,
                   .inflight = 100,
                   .packet_bytes = 1 << 20},
        .calls = {on_connected, on_acknowledged, on_received, on_subscribed,
                  on_lost, on_turn, on_farewell},
        .message = {.topic = "a"},
    };
    o->options = (struct mqtt_options){.config = &o->config,
                                       .client_id = "test-out",
                                       .direction = "out",
                                       .calls = &o->calls,
                                       .user = o};
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    signal(SIGPIPE, SIG_IGN); /* as the broker does: a peer may go away */
}

void
owner_open(struct owner *o)
{
    struct problem why = {""};

    snprintf(o->config.url, sizeof(o->config.url), "mqtt%s://%s:%u",
             o->config.is_tls ? "s" : "", o->config.host, o->config.port);
    if (mqtt_open(&o->mqtt, &o->options, &why))
        fail_msg("no client: %s", why.text);
}

void
owner_close(struct owner *o)
{
    mqtt_close(o->mqtt);
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->changed);
}

static void *
close_client(void *owner)
{
    owner_close(owner);
    return NULL;
}

void
owner_part(struct owner *o, struct fake_mqtt *f)
{
    pthread_t closing;

    assert_int_equal(pthread_create(&closing, NULL, close_client, o), 0);
    fake_mqtt_drain(f);
    pthread_join(closing, NULL);
    fake_mqtt_close(f);
}

static void
set_up(struct owner *o)
{
    struct fake_mqtt fake;

    fake_mqtt_open(&fake);
    owner_prepare(o, fake.port);
    o->fake = fake;
}

int
owner_set(void **state)
{
    struct owner *o = malloc(sizeof(*o));

    assert_non_null(o);
    set_up(o);
    *state = o;
    return 0;
}

int
owner_set_met(void **state)
{
    owner_set(state);
    owner_meet(*state, true);
    return 0;
}

int
owner_clear(void **state)
{
    struct owner *o = *state;

    owner_part(o, &o->fake);
    free(o);
    return 0;
}

void
owner_set_again(struct owner *o)
{
    owner_part(o, &o->fake);
    set_up(o);
}

void
owner_ask(struct owner *o, bool is_5)
{
    o->config.version = is_5 ? BRIDGE_MQTT_5 : BRIDGE_MQTT_311;
    owner_open(o);
    fake_mqtt_accept(&o->fake);
    fake_mqtt_read(&o->fake, 0x10);
}

void
owner_meet(struct owner *o, bool is_5)
{
    o->config.version = is_5 ? BRIDGE_MQTT_5 : BRIDGE_MQTT_311;
    owner_open(o);
    fake_mqtt_welcome(&o->fake, is_5);
    owner_await(o, &o->n_connected, 1);
}

void
owner_await(struct owner *o, const unsigned *counter, unsigned n)
{
    pthread_mutex_lock(&o->lock);
    while (*counter < n)
        pthread_cond_wait(&o->changed, &o->lock);
    pthread_mutex_unlock(&o->lock);
}

unsigned
owner_now(struct owner *o, const unsigned *counter)
{
    unsigned n;

    pthread_mutex_lock(&o->lock);
    n = *counter;
    pthread_mutex_unlock(&o->lock);
    return n;
}

void
owner_await_why(struct owner *o, const char *part)
{
    struct mqtt_state state;

    AWAIT((mqtt_state(o->mqtt, &state), strstr(state.why.text, part)));
}

void
owner_await_pause(struct owner *o)
{
    struct mqtt_state state;

    AWAIT((mqtt_state(o->mqtt, &state), state.condition == MQTT_WAITING));
}

void
owner_pass_pause(struct owner *o)
{
    owner_await_pause(o);
    clock_await_us(o->config.retry.max_us);
    clock_pass_us(o->config.retry.max_us);
}

void
owner_do(struct owner *o, void (*todo)(struct owner *o))
{
    unsigned n;

    pthread_mutex_lock(&o->lock);
    n = o->n_done;
    o->todo = todo;
    pthread_mutex_unlock(&o->lock);
    mqtt_wake(o->mqtt);
    owner_await(o, &o->n_done, n + 1);
}

void
owner_publish(struct owner *o)
{
    o->rc = mqtt_publish(o->mqtt, &o->message, &o->last_mid, &o->why);
}

enum status
owner_say(struct owner *o, const char *topic, const char *text, int qos)
{
    o->message = (struct mqtt_message){
        .topic = topic, .payload = slice_of(text), .qos = qos};
    owner_do(o, owner_publish);
    return o->rc;
}

void
owner_subscribe(struct owner *o)
{
    int mid;

    o->rc =
        mqtt_subscribe(o->mqtt, o->filter, o->wants_retained, &mid, &o->why);
}

void
owner_drop(struct owner *o)
{
    struct problem why = {"the owner wants it so"};

    mqtt_drop(o->mqtt, &why);
}

void
owner_prove(struct owner *o)
{
    mqtt_prove(o->mqtt);
}

void
owner_look(struct owner *o)
{
    o->room = mqtt_room(o->mqtt, &o->message);
    o->window = mqtt_window(o->mqtt);
    o->keepalive_us = mqtt_keepalive_us(o->mqtt);
    o->takes_retained = mqtt_takes_retained(o->mqtt);
}

void
owner_hold(struct owner *o)
{
    pthread_mutex_lock(&o->lock);
    o->holds = true;
    pthread_mutex_unlock(&o->lock);
}

void
owner_await_held(struct owner *o)
{
    pthread_mutex_lock(&o->lock);
    while (!o->is_held)
        pthread_cond_wait(&o->changed, &o->lock);
    pthread_mutex_unlock(&o->lock);
}

void
owner_let_go(struct owner *o)
{
    pthread_mutex_lock(&o->lock);
    o->holds = false;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

/* Standard error */

static FILE *heard;
static int before = -1;

void
owner_listen(void)
{
    diag_set_level(DIAG_DEBUG);
    heard = tmpfile();
    assert_non_null(heard);
    before = dup(STDERR_FILENO);
    assert_int_not_equal(dup2(fileno(heard), STDERR_FILENO), -1);
}

char *
owner_heard(void)
{
    char *text = calloc(1, 1 << 20);

    assert_non_null(text);
    dup2(before, STDERR_FILENO);
    close(before);
    diag_set_level(DIAG_ERROR);
    assert_true(pread(fileno(heard), text, (1 << 20) - 1, 0) >= 0);
    fclose(heard);
    return text;
}

unsigned
owner_count(const char *text, const char *part)
{
    unsigned n = 0;

    while ((text = strstr(text, part))) {
        n++;
        text += strlen(part);
    }
    return n;
}
