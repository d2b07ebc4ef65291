#include "tests/unit/bridge_quiet/quiet_mqtt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "proto/buf.h"
#include "tests/test.h"

struct mqtt *quiet_mqtt;

/* Life */

static char *
copy(const char *text)
{
    char *copied = text ? strdup(text) : NULL;

    assert_true(!text || copied);
    return copied;
}

enum status
mqtt_open(struct mqtt **mqtt, const struct mqtt_options *options,
          struct problem *why)
{
    struct mqtt *m = calloc(1, sizeof(*m));

    (void)why;
    assert_null(quiet_mqtt);
    assert_non_null(m);
    m->options = *options;
    m->options.client_id = copy(options->client_id);
    m->options.will_topic = copy(options->will_topic);
    m->options.will_payload = copy(options->will_payload);
    m->window = 20;
    m->keepalive_us = options->config->keepalive_us;
    m->packet_bytes = (size_t)1 << 20;
    m->takes_retained = true;
    m->max_qos = 2;
    m->state.condition = MQTT_CONNECTING;
    if (options->suspended)
        mqtt_suspend(m, options->suspended);
    quiet_mqtt = *mqtt = m;
    return STATUS_OK;
}

/* As the thread would: rounds, in which everything is acknowledged, until they
 * change nothing any more. */
static void
say_farewell(struct mqtt *m)
{
    size_t before;

    do {
        before = m->n_published;
        if (!m->is_connected || !m->options.calls->farewell ||
            m->options.calls->farewell(m->options.user))
            break;
    } while (quiet_mqtt_acknowledge_all() > 0 || m->n_published > before);
}

void
mqtt_begin_stop(struct mqtt *m)
{
    (void)m;
}

void
mqtt_stop(struct mqtt *m)
{
    if (!m || m->has_stopped)
        return;
    say_farewell(m);
    m->has_stopped = true;
    m->is_connected = false;
}

void
mqtt_close(struct mqtt *m)
{
    if (!m)
        return;
    mqtt_stop(m);
    for (size_t i = 0; i < m->n_published; i++) {
        free(m->published[i].topic);
        free(m->published[i].payload);
        free(m->published[i].content_type);
        free(m->published[i].properties);
    }
    for (size_t i = 0; i < m->n_filters; i++)
        free(m->filters[i].filter);
    free(m->published);
    free(m->filters);
    free((char *)(uintptr_t)m->options.client_id);
    free((char *)(uintptr_t)m->options.will_topic);
    free((char *)(uintptr_t)m->options.will_payload);
    free(m);
    quiet_mqtt = NULL;
}

void
mqtt_wake(struct mqtt *m)
{
    atomic_fetch_add(&m->wakes, 1);
    atomic_store(&m->is_woken, true);
}

/* Publishing */

static size_t
size_around(const struct mqtt_message *message)
{
    size_t size = strlen(message->topic);

    for (size_t i = 0; i < message->n_properties; i++)
        size += strlen(message->properties[i].name) +
                strlen(message->properties[i].value);
    return size;
}

size_t
mqtt_room(const struct mqtt *m, const struct mqtt_message *message)
{
    size_t around = size_around(message);

    return around < m->packet_bytes ? m->packet_bytes - around : 0;
}

static char *
join_properties(const struct mqtt_message *message)
{
    struct buf text;

    buf_init(&text, SIZE_MAX);
    for (size_t i = 0; i < message->n_properties; i++)
        buf_add_format(&text, "%s=%s;", message->properties[i].name,
                       message->properties[i].value);
    buf_add(&text, "", 1);
    assert_false(text.failed);
    return text.data;
}

enum status
mqtt_publish(struct mqtt *m, const struct mqtt_message *message, int *mid,
             struct problem *why)
{
    struct quiet_message *kept;

    if (!m->is_connected || m->was_dropped)
        return problem(why, STATUS_AGAIN, "there is no connection");
    if (m->has_no_memory)
        return problem(why, STATUS_MEMORY, "no memory");
    if (message->payload.size > mqtt_room(m, message))
        return problem(why, STATUS_TOO_LARGE, "a packet is too large");
    if ((message->is_retained && !m->takes_retained) ||
        message->qos > m->max_qos)
        return problem(why, STATUS_UNSUPPORTED, "the MQTT broker does not");
    assert_true(ONE_MORE(m->published, &m->published_capacity, m->n_published));
    kept = &m->published[m->n_published++];
    *kept = (struct quiet_message){
        .mid = *mid = ++m->last_mid,
        .qos = message->qos,
        .is_retained = message->is_retained,
        .topic = copy(message->topic),
        .payload = slice_dup(message->payload),
        .size = message->payload.size,
        .content_type = copy(message->content_type),
        .properties = join_properties(message),
    };
    if (m->on_published)
        m->on_published(kept);
    return STATUS_OK;
}

int64_t
mqtt_keepalive_us(const struct mqtt *m)
{
    return m->keepalive_us;
}

unsigned
mqtt_window(const struct mqtt *m)
{
    return m->window;
}

bool
mqtt_takes_retained(const struct mqtt *m)
{
    return m->takes_retained;
}

/* Subscribing */

static struct quiet_filter *
find_filter(struct mqtt *m, const char *filter)
{
    for (size_t i = m->n_filters; i-- > 0;)
        if (!m->filters[i].is_over && !strcmp(m->filters[i].filter, filter))
            return &m->filters[i];
    return NULL;
}

enum status
mqtt_subscribe(struct mqtt *m, const char *filter, bool wants_retained,
               int *mid, struct problem *why)
{
    if (!m->is_connected)
        return problem(why, STATUS_AGAIN, "there is no connection");
    assert_true(ONE_MORE(m->filters, &m->filters_capacity, m->n_filters));
    *mid = ++m->last_mid;
    m->filters[m->n_filters++] =
        (struct quiet_filter){*mid, copy(filter), wants_retained, false};
    return STATUS_OK;
}

enum status
mqtt_unsubscribe(struct mqtt *m, const char *filter, struct problem *why)
{
    struct quiet_filter *found = find_filter(m, filter);

    if (!m->is_connected)
        return problem(why, STATUS_AGAIN, "there is no connection");
    if (found) {
        found->is_over = true;
        return STATUS_OK;
    }
    assert_true(ONE_MORE(m->filters, &m->filters_capacity, m->n_filters));
    m->filters[m->n_filters++] =
        (struct quiet_filter){0, copy(filter), false, true};
    return STATUS_OK;
}

/* The connection, as its owner sees it */

void
mqtt_drop(struct mqtt *m, const struct problem *why)
{
    m->was_dropped = true;
    m->why_dropped = *why;
}

void
mqtt_suspend(struct mqtt *m, const struct problem *why)
{
    m->is_suspended = true;
    m->state.why = *why;
}

void
mqtt_resume(struct mqtt *m)
{
    m->is_suspended = false;
}

void
mqtt_prove(struct mqtt *m)
{
    m->n_proofs++;
}

void
mqtt_state(struct mqtt *m, struct mqtt_state *state)
{
    *state = m->state;
}

const char *
mqtt_reason(int reason)
{
    return reason < MQTT_REASON_FAILED ? "success" : "not authorized";
}

/* Events that the test makes */

void
quiet_mqtt_connect(bool has_session)
{
    struct mqtt *m = quiet_mqtt;

    assert_false(m->is_connected);
    m->is_connected = true;
    m->was_dropped = false;
    m->state.condition = MQTT_CONNECTED;
    m->state.since_us = clock_now_us();
    m->state.connections++;
    if (m->options.calls->connected)
        m->options.calls->connected(m->options.user, has_session);
}

void
quiet_mqtt_lose(void)
{
    struct mqtt *m = quiet_mqtt;

    assert_true(m->is_connected);
    m->is_connected = false;
    m->was_dropped = false;
    m->state.condition = MQTT_WAITING;
    for (size_t i = 0; i < m->n_published; i++)
        m->published[i].mid = 0; /* it means nothing any more */
    if (m->options.calls->lost)
        m->options.calls->lost(m->options.user);
}

void
quiet_mqtt_part(void)
{
    assert_true(quiet_mqtt->is_suspended);
    say_farewell(quiet_mqtt);
    quiet_mqtt_lose();
}

void
quiet_mqtt_turn(void)
{
    struct mqtt *m = quiet_mqtt;

    do {
        atomic_store(&m->is_woken, false);
        m->wait_us = m->options.calls->turn(m->options.user, m->is_connected);
        if (m->was_dropped && m->is_connected)
            quiet_mqtt_lose();
    } while (m->wait_us == 0 || atomic_load(&m->is_woken));
}

void
quiet_mqtt_await(void)
{
    AWAIT(atomic_load(&quiet_mqtt->is_woken));
    quiet_mqtt_turn();
}

struct quiet_message *
quiet_mqtt_message(size_t i)
{
    return i < quiet_mqtt->n_published ? &quiet_mqtt->published[i] : NULL;
}

struct quiet_message *
quiet_mqtt_find(size_t *i, const char *topic_end)
{
    size_t size = strlen(topic_end);

    while (*i < quiet_mqtt->n_published) {
        struct quiet_message *message = &quiet_mqtt->published[(*i)++];
        size_t length = strlen(message->topic);

        if (length >= size &&
            !strcmp(message->topic + length - size, topic_end))
            return message;
    }
    return NULL;
}

char *
quiet_mqtt_property(const struct quiet_message *message, const char *name)
{
    struct slice rest = slice_of(message->properties);

    while (rest.size > 0) {
        struct slice value = slice_take(&rest, ';');
        struct slice its = slice_take(&value, '=');

        if (slice_is(its, name))
            return slice_dup(value);
    }
    return NULL;
}

void
quiet_mqtt_acknowledge(size_t i, int reason)
{
    struct mqtt *m = quiet_mqtt;
    struct quiet_message *message = quiet_mqtt_message(i);

    assert_non_null(message);
    assert_true(message->mid > 0);
    assert_false(message->is_acknowledged);
    message->is_acknowledged = true;
    if (m->options.calls->acknowledged)
        m->options.calls->acknowledged(m->options.user, message->mid, reason);
}

size_t
quiet_mqtt_acknowledge_all(void)
{
    size_t before, n = 0;

    do {
        before = quiet_mqtt->n_published;
        for (size_t i = 0; i < before; i++)
            if (quiet_mqtt->published[i].mid > 0 &&
                !quiet_mqtt->published[i].is_acknowledged) {
                quiet_mqtt_acknowledge(i, 0);
                n++;
            }
        quiet_mqtt_turn();
    } while (quiet_mqtt->n_published > before);
    return n;
}

void
quiet_mqtt_receive(const struct mqtt_received *message)
{
    quiet_mqtt->options.calls->received(quiet_mqtt->options.user, message);
}

void
quiet_mqtt_grant(size_t i, int granted)
{
    struct mqtt *m = quiet_mqtt;

    assert_true(i < m->n_filters);
    m->options.calls->subscribed(m->options.user, m->filters[i].mid, granted);
}
