
#include <openssl/ssl.h>

#include "base/random.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/mqtt/mqtt_client.h"

/* So long a connection has to last to count as a success. */
#define SETTLED_US ((int64_t)30000000)

/* So many connections that were cut soon make a guess at the reason. */
#define CUTS_SUSPECT 2

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
mqtt_is_wanted(const struct mqtt *mqtt)
{
    return !mqtt->is_suspended && !atomic_load(&mqtt->is_stopping);
}

void
mqtt_suspend(struct mqtt *mqtt, const struct problem *why)
{
    mqtt->is_resumed = false;
    if (mqtt->is_suspended)
        return;
    mqtt->is_suspended = true;
    mqtt->suspended_for = *why;
    pthread_mutex_lock(&mqtt->lock);
    mqtt->state.why = *why; /* also during the farewell */
    pthread_mutex_unlock(&mqtt->lock);
}

void
mqtt_resume(struct mqtt *mqtt)
{
    mqtt->is_resumed = true;
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

void
mqtt_accepted(struct mqtt *mqtt)
{
    mqtt->is_connected = true;
    mqtt->accepted_us = clock_steady_us();
    mqtt->misc_us = mqtt->accepted_us + MQTT_MISC_US;
    mqtt_set_condition(mqtt, MQTT_CONNECTED);
    if (!mqtt->failures.is_flapping)
        log_connected(mqtt);
}

void
mqtt_prove(struct mqtt *mqtt)
{
    mqtt->is_proven = mqtt->is_connected;
}

void
mqtt_settle(struct mqtt *mqtt)
{
    if (mqtt->is_settled || !mqtt->is_proven || !mqtt->is_connected ||
        clock_steady_us() - mqtt->accepted_us < SETTLED_US)
        return;
    mqtt->is_settled = true;
    mqtt->failures.is_flapping = false;
    mqtt->failures.n = mqtt->failures.n_cuts = 0;
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
    const struct bridge_config *c = mqtt->options.config;
    struct problem *warned = mqtt->failures.warned;
    int64_t pause_us;
    bool is_news = true;

    mqtt->failures.n++;
    mqtt->failures.is_flapping = was_connected && !mqtt->is_settled;
    mqtt->failures.n_cuts =
        mqtt->failures.is_flapping ? mqtt->failures.n_cuts + 1 : 0;
    pause_us = backoff_pause(&c->retry, mqtt->failures.n, random_u32());
    metrics_add(METRIC_MQTT_FAILURES, 1);
    /* Logs a reason as a warning once: a client that tries twice a minute would
     * repeat it all night. Logs repeats for debugging. If the MQTT broker
     * accepts each connection and then cuts it, that is no success: only
     * mqtt_settle logs it as connected. */
    for (size_t i = 0; i < MQTT_WARNED; i++)
        is_news &= strcmp(warned[i].text, mqtt->why.text) != 0;
    if (is_news) {
        memmove(warned + 1, warned, (MQTT_WARNED - 1) * sizeof(*warned));
        warned[0] = mqtt->why;
    }
    DIAG(is_news ? DIAG_WARNING : DIAG_DEBUG, "bridge",
         was_connected ? "the connection to the MQTT broker was lost"
                       : "cannot connect to the MQTT broker",
         diag_text("bridge", c->name),
         diag_text("direction", mqtt->options.direction),
         diag_text("url", c->url), diag_text("reason", mqtt->why.text),
         diag_number("again_in_ms", (uint64_t)(pause_us / 1000)));
    return pause_us;
}

void
mqtt_state(struct mqtt *mqtt, struct mqtt_state *state)
{
    pthread_mutex_lock(&mqtt->lock);
    *state = mqtt->state;
    pthread_mutex_unlock(&mqtt->lock);
}

/* Reasons */

/* MQTT 5, section 2.4: the reasons in CONNACK, DISCONNECT, PUBACK and
 * SUBACK. */
static const char *const reasons[] = {
    [0x80] = "no reason is given",
    [0x81] = "malformed packet",
    [0x82] = "protocol error",
    [0x83] = "implementation specific error",
    [0x84] = "protocol version not supported",
    [0x85] = "client identifier not valid",
    [0x86] = "bad user name or password",
    [0x87] = "not authorized",
    [0x88] = "server unavailable",
    [0x89] = "server busy",
    [0x8A] = "banned",
    [0x8B] = "server shutting down",
    [0x8C] = "bad authentication method",
    [0x8D] = "keep alive timeout",
    [0x8E] = "the session was taken over by another client of that id",
    [0x8F] = "topic filter not valid",
    [0x90] = "topic name not valid",
    [0x91] = "packet identifier in use",
    [0x93] = "receive maximum exceeded",
    [0x94] = "topic alias not valid",
    [0x95] = "packet too large",
    [0x96] = "message rate too high",
    [0x97] = "quota exceeded",
    [0x98] = "administrative action",
    [0x99] = "payload format not valid",
    [0x9A] = "retained messages not supported",
    [0x9B] = "QoS not supported",
    [0x9C] = "use another server",
    [0x9D] = "server moved",
    [0x9E] = "shared subscriptions not supported",
    [0x9F] = "connection rate exceeded",
    [0xA0] = "maximum connect time",
    [0xA1] = "subscription identifiers not supported",
    [0xA2] = "wildcard subscriptions not supported",
};

const char *
mqtt_reason(int code)
{
    return code < MQTT_REASON_FAILED ? "success"
           : code < (int)N_ELEMENTS(reasons) && reasons[code]
               ? reasons[code]
               : "unknown reason";
}

/* A guess at the cause of a failure without an answer. */
static const char *
guess_cause(const struct mqtt *mqtt)
{
    const struct bridge_config *c = mqtt->options.config;
    bool is_5 = c->version == BRIDGE_MQTT_5;

    if (mqtt->is_connected)
        return "";
    if (!c->is_tls)
        return is_5 ? " (it may want mqtts://, or version = 3.1.1)"
                    : " (it may want mqtts://)";
    if (!c->cert[0])
        return is_5 ? " (it may want a client certificate, or version = 3.1.1)"
                    : " (it may want a client certificate)";
    return is_5 ? " (it may want version = 3.1.1)" : "";
}

void
mqtt_refused(struct mqtt *mqtt, int code, const char *text)
{
    /* Of MQTT 3.1.1, section 3.2.2.3. */
    static const int of_311[] = {0x80, 0x84, 0x85, 0x88, 0x86, 0x87};
    bool is_5 = mqtt->options.config->version == BRIDGE_MQTT_5;
    int reason = code >= MQTT_REASON_FAILED                   ? code
                 : code > 0 && code < (int)N_ELEMENTS(of_311) ? of_311[code]
                                                              : 0x80;
    const char *help = reason == 0x84 && is_5 ? " (version = 3.1.1 may help)"
                       : reason == 0x84       ? " (version = 5 may help)"
                       : reason == 0x87
                           ? " (user name and password may be wrong)"
                           : "";

    if (text && *text)
        mqtt_end(mqtt, "refused by the MQTT broker: %s%s: \"%s\"",
                 mqtt_reason(reason), help, problem_quote(slice_of(text)).text);
    else
        mqtt_end(mqtt, "refused by the MQTT broker: %s%s", mqtt_reason(reason),
                 help);
}

/* Explains a failure of TLS; false: TLS reports nothing. */
static bool
explain_tls(struct mqtt *mqtt)
{
    int bad = mqtt->bad_certificate;
    const char *complaint = mqtt->complaint;
    const char *colon = strrchr(complaint, ':');

    if (bad == X509_V_ERR_HOSTNAME_MISMATCH ||
        bad == X509_V_ERR_IP_ADDRESS_MISMATCH)
        mqtt_end(mqtt, "TLS: the MQTT broker's certificate is not for %s",
                 mqtt->options.config->host);
    else if (bad)
        mqtt_end(mqtt, "TLS: the MQTT broker's certificate is not good: %s",
                 X509_verify_cert_error_string(bad));
    else if (complaint[0] && !strstr(complaint, "unexpected eof"))
        /* The last part of "OpenSSL Error[0]: error:0A000086:SSL routines::
         * certificate verify failed". */
        mqtt_end(mqtt, "TLS: %s",
                 colon && colon[1] ? colon + 1 + (colon[1] == ' ') : complaint);
    else
        return false;
    return true;
}

static void
explain_handshake(struct mqtt *mqtt)
{
    mqtt_end(mqtt,
             "cut by the MQTT broker in the TLS handshake (it may have no TLS "
             "on port %u)",
             mqtt->options.config->port);
}

static void
explain_cut(struct mqtt *mqtt)
{
    mqtt_settle(mqtt);
    /* Mosquitto cuts in this way if its queues have no limit. */
    if (mqtt->is_connected && mqtt->refusal)
        mqtt_end(mqtt, "cut by the MQTT broker after it refused a message: %s",
                 mqtt_reason(mqtt->refusal));
    else if (mqtt->is_connected && mqtt->failures.n_cuts + 1 >= CUTS_SUSPECT)
        /* MQTT 3.1.1 gives no reason for a cut. */
        mqtt_end(mqtt,
                 "cut by the MQTT broker soon after each connection: probably "
                 "the session was taken over by another client of that id (%s)",
                 mqtt->options.client_id);
    else if (mqtt->is_connected)
        mqtt_end(mqtt, "cut by the MQTT broker");
    else if (mqtt_is_shaking(mqtt) ||
             /* Version 2.0.21 of the library frees its SSL first. */
             (mqtt->was_shaking && !mosquitto_ssl_get(mqtt->client)))
        explain_handshake(mqtt);
    else
        mqtt_end(mqtt, "cut by the MQTT broker instead of an answer%s",
                 guess_cause(mqtt));
}

void
mqtt_explain(struct mqtt *mqtt, int rc, int error)
{
    bool is_tls = mqtt->options.config->is_tls;

    switch (rc) {
    case MOSQ_ERR_SUCCESS: /* only the socket was closed */
    case MOSQ_ERR_CONN_LOST:
    case MOSQ_ERR_NO_CONN:
        explain_cut(mqtt);
        break;
    case MOSQ_ERR_TLS:
        if (!explain_tls(mqtt)) /* its SSL may be freed: not explain_cut */
            explain_handshake(mqtt);
        break;
    case MOSQ_ERR_ERRNO:
        /* The library turns every TLS error into EPROTO. */
        if (is_tls && explain_tls(mqtt))
            break;
        if (is_tls || error == 0 || error == EPROTO || error == ECONNRESET ||
            error == EPIPE)
            explain_cut(mqtt);
        else
            mqtt_end(mqtt, "cut: %s", strerror(error));
        break;
    case MOSQ_ERR_KEEPALIVE:
        mqtt_end(mqtt, "no answer from the MQTT broker within the keepalive");
        break;
    case MOSQ_ERR_NOMEM:
        mqtt_end(mqtt, NO_MEMORY);
        break;
    default:
        mqtt_end(mqtt, "the MQTT broker does not speak MQTT%s: %s%s",
                 mqtt->options.config->version == BRIDGE_MQTT_5 ? " 5"
                                                                : " 3.1.1",
                 mosquitto_strerror(rc), guess_cause(mqtt));
        break;
    }
}
