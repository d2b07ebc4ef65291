#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <openssl/rand.h>
#include <openssl/ssl.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/mqtt/mqtt_client.h"

/* Changes the state. No other function does. */
void
mqtt_set_condition(struct mqtt *mqtt, enum mqtt_condition condition)
{
    struct mqtt_state *s = &mqtt->state;
    bool was_connected;

    pthread_mutex_lock(&mqtt->lock);
    was_connected = s->condition == MQTT_CONNECTED;
    if (was_connected != (condition == MQTT_CONNECTED))
        s->since_us = clock_now_us();
    s->condition = condition;
    if (condition == MQTT_CONNECTED) {
        s->connections++;
        s->why.text[0] = '\0';
    } else if (condition == MQTT_WAITING) {
        s->why = mqtt->why;
    }
    pthread_mutex_unlock(&mqtt->lock);

    if (was_connected)
        metrics_add(METRIC_MQTT_CONNECTED, -1);
    if (condition == MQTT_CONNECTED) {
        metrics_add(METRIC_MQTT_CONNECTED, 1);
        metrics_add(METRIC_MQTT_CONNECTIONS, 1);
    }
}

void
mqtt_end(struct mqtt *mqtt, const char *format, ...)
{
    va_list arguments;

    if (mqtt->is_ending)
        return;
    mqtt->is_ending = true;
    mqtt->turn_us = 0; /* to see a wake that it may have missed */
    va_start(arguments, format);
    vsnprintf(mqtt->why.text, sizeof(mqtt->why.text), format, arguments);
    va_end(arguments);
}

bool
mqtt_is_shaking(const struct mqtt *mqtt)
{
    SSL *ssl = mosquitto_ssl_get(mqtt->client);

    return ssl && !SSL_is_init_finished(ssl);
}

/* The log */

static void
log_connected(struct mqtt *mqtt)
{
    const struct bridge_config *c = mqtt->options.config;
    int64_t gone_us = clock_steady_us() - mqtt->gone_us;

    DIAG(DIAG_INFO, "bridge", "connected to the MQTT broker",
         diag_text("bridge", c->name),
         diag_text("direction", mqtt->options.direction),
         diag_text("url", c->url),
         diag_number("after_s", (uint64_t)(gone_us / 1000000)));
    memset(mqtt->failures.warned, 0, sizeof(mqtt->failures.warned));
}

/* True if the log does not have this reason yet, since the last success; notes
 * it. */
static bool
is_news(struct mqtt *mqtt, const struct problem *why)
{
    for (size_t i = 0; i < MQTT_WARNED; i++)
        if (!strcmp(mqtt->failures.warned[i].text, why->text))
            return false;
    memmove(mqtt->failures.warned + 1, mqtt->failures.warned,
            (MQTT_WARNED - 1) * sizeof(mqtt->failures.warned[0]));
    mqtt->failures.warned[0] = *why;
    return true;
}

/* Logs a reason as a warning once: a client that tries twice a minute would
 * repeat it all night. Logs repeats for debugging. If the MQTT broker accepts
 * each connection and then cuts it, that is no success: only mqtt_prove logs it
 * as connected. */
static void
log_failure(struct mqtt *mqtt, bool was_connected, int64_t pause_us)
{
    const struct bridge_config *c = mqtt->options.config;

    DIAG(is_news(mqtt, &mqtt->why) ? DIAG_WARNING : DIAG_DEBUG, "bridge",
         was_connected ? "the connection to the MQTT broker was lost"
                       : "cannot connect to the MQTT broker",
         diag_text("bridge", c->name),
         diag_text("direction", mqtt->options.direction),
         diag_text("url", c->url), diag_text("reason", mqtt->why.text),
         diag_number("again_in_ms", (uint64_t)(pause_us / 1000)));
}

void
mqtt_accepted(struct mqtt *mqtt)
{
    mqtt->is_connected = true;
    mqtt->misc_us = clock_steady_us() + MQTT_MISC_US;
    mqtt_set_condition(mqtt, MQTT_CONNECTED);
    if (!mqtt->failures.is_flapping)
        log_connected(mqtt);
}

void
mqtt_prove(struct mqtt *mqtt)
{
    if (mqtt->is_proven || !mqtt->is_connected)
        return;
    mqtt->is_proven = true;
    mqtt->failures.is_flapping = false;
    mqtt->failures.n = 0;
    if (mqtt->failures.warned[0].text[0])
        log_connected(mqtt);
}

void
mqtt_drop(struct mqtt *mqtt, const struct problem *why)
{
    if (mqtt->client)
        mqtt_end(mqtt, "%s", why->text);
}

int64_t
mqtt_count_failure(struct mqtt *mqtt, bool was_connected)
{
    const struct backoff backoff = {mqtt->options.config->retry_first_us,
                                    mqtt->options.config->retry_max_us};
    uint32_t random = 0;
    int64_t pause_us;

    if (RAND_bytes((unsigned char *)&random, sizeof(random)) != 1)
        random = 0; /* waits the whole pause */
    mqtt->failures.n++;
    mqtt->failures.is_flapping = was_connected && !mqtt->is_proven;
    pause_us = backoff_pause(&backoff, mqtt->failures.n, random);
    metrics_add(METRIC_MQTT_FAILURES, 1);
    log_failure(mqtt, was_connected, pause_us);
    return pause_us;
}

void
mqtt_state(struct mqtt *mqtt, struct mqtt_state *state)
{
    pthread_mutex_lock(&mqtt->lock);
    *state = mqtt->state;
    pthread_mutex_unlock(&mqtt->lock);
}
