#include <mqtt_protocol.h>

#include "broker/base/diag.h"
#include "broker/mqtt/mqtt_client.h"

/* The largest packet without a limit: a first byte, four bytes of length, and
 * the largest length (MQTT 5, section 2.1.4). */
#define PACKET_MAX (1 + 4 + 268435455)

#define RECEIVE_MAX 65535 /* if the MQTT broker gives none */

/* In MQTT 3.1.1 the MQTT broker cannot state a limit, but may have one at QoS
 * 2, where it must remember messages in flight. Mosquitto, by default, cuts a
 * client with more than 20, and would do so again with every connection. */
#define RECEIVE_MAX_311 20

/* Receiving */

/* Message callbacks do not get the DUP flag. The line that the library logs
 * before each call contains it:
 *
 *     Client ID received PUBLISH (d1, q1, r0, m7, 'TOPIC', ... (12 bytes))
 *
 * Each line costs time, so the client only listens to the log until the first
 * message without the flag: repeats of an earlier connection come first. The
 * same log has the errors of TLS. */
static void
on_log(struct mosquitto *client, void *user, int level, const char *line)
{
    static const char before[] = "Client ";
    static const char after[] = " received PUBLISH (d";
    struct mqtt *mqtt = user;
    size_t id = sizeof(before) - 1 + strlen(mqtt->options.client_id);

    (void)client;
    if (level == MOSQ_LOG_ERR && !mqtt->complaint[0])
        snprintf(mqtt->complaint, sizeof(mqtt->complaint), "%s", line);
    if (strlen(line) > id && !strncmp(line + id, after, sizeof(after) - 1))
        mqtt->is_repeat = line[id + sizeof(after) - 1] == '1';
}

/* Not called by on_log: the library holds the same lock. */
static void
stop_logging(struct mqtt *mqtt)
{
    if (!mqtt->is_logging)
        return;
    mqtt->is_logging = false;
    mosquitto_log_callback_set(mqtt->client, NULL);
}

static void
on_connect(struct mosquitto *client, void *user, int code, int flags,
           const mosquitto_property *properties)
{
    struct mqtt *mqtt = user;
    const struct bridge_config *config = mqtt->options.config;
    bool is_narrow = config->version == BRIDGE_MQTT_311 && config->qos == 2;
    struct mqtt_limits *l = &mqtt->limits;
    uint8_t takes_retained = 1;
    char *text = NULL;

    (void)client;
    mqtt->n_heard++;
    if (code) {
        mosquitto_property_read_string(properties, MQTT_PROP_REASON_STRING,
                                       &text, false);
        mqtt_refused(mqtt, code, text);
        free(text);
        return;
    }
    /* A second CONNACK breaks the protocol; the library does not check that. */
    if (mqtt->is_connected) {
        mqtt_end(mqtt, "the MQTT broker sent a second CONNACK");
        return;
    }
    *l = (struct mqtt_limits){
        .receive = is_narrow ? RECEIVE_MAX_311 : RECEIVE_MAX, .qos = 2};
    mosquitto_property_read_int16(properties, MQTT_PROP_SERVER_KEEP_ALIVE,
                                  &l->keepalive_s, false);
    mosquitto_property_read_int32(properties, MQTT_PROP_MAXIMUM_PACKET_SIZE,
                                  &l->packet, false);
    mosquitto_property_read_int16(properties, MQTT_PROP_RECEIVE_MAXIMUM,
                                  &l->receive, false);
    mosquitto_property_read_byte(properties, MQTT_PROP_MAXIMUM_QOS, &l->qos,
                                 false);
    mosquitto_property_read_byte(properties, MQTT_PROP_RETAIN_AVAILABLE,
                                 &takes_retained, false);
    l->takes_retained = takes_retained;
    if (l->receive == 0) { /* MQTT 5, section 3.2.2.3.3 */
        mqtt_end(mqtt, "the MQTT broker sent a Receive Maximum of 0");
        return;
    }
    if (!mqtt->options.calls->received)
        stop_logging(mqtt);
    mqtt_accepted(mqtt);
    mqtt->options.calls->connected(mqtt->options.user, flags & 1);
}

static void
on_disconnect(struct mosquitto *client, void *user, int code,
              const mosquitto_property *properties)
{
    (void)client;
    (void)properties;
    /* Smaller codes are the library's own errors, which its loop returns. */
    if (code >= MQTT_REASON_FAILED)
        mqtt_end(user, "disconnected by the MQTT broker: %s",
                 mqtt_reason(code));
}

static void
on_publish(struct mosquitto *client, void *user, int mid, int reason,
           const mosquitto_property *properties)
{
    struct mqtt *mqtt = user;

    (void)client;
    (void)properties;
    mqtt->n_heard++;
    mqtt->refusal = reason >= MQTT_REASON_FAILED ? reason : 0;
    if (mqtt->options.calls->acknowledged && !mqtt->is_ending)
        mqtt->options.calls->acknowledged(mqtt->options.user, mid, reason);
}

static void
on_subscribe(struct mosquitto *client, void *user, int mid, int n,
             const int *granted, const mosquitto_property *properties)
{
    struct mqtt *mqtt = user;

    (void)client;
    (void)properties;
    mqtt->n_heard++;
    if (mqtt->is_ending)
        return;
    /* The client asks for one filter at a time, at QoS 1. MQTT may grant less,
     * never more: at QoS 2 the library would acknowledge before we have a
     * message. */
    if (n != 1)
        mqtt_end(mqtt,
                 "the MQTT broker answered one subscription with %d results",
                 n);
    else if (granted[0] > 1 && granted[0] < MQTT_REASON_FAILED)
        mqtt_end(mqtt, "the MQTT broker granted QoS %d instead of QoS 1",
                 granted[0]);
    else if (mqtt->options.calls->subscribed)
        mqtt->options.calls->subscribed(mqtt->options.user, mid, granted[0]);
}

/* Appends all user properties: name, NUL, value, NUL ... */
static void
read_pairs(struct buf *to, const mosquitto_property *at)
{
    char *name = NULL, *value = NULL;
    bool is_next = false;

    while ((at = mosquitto_property_read_string_pair(
                at, MQTT_PROP_USER_PROPERTY, &name, &value, is_next))) {
        is_next = true;
        buf_add(to, name, strlen(name) + 1);
        buf_add(to, value, strlen(value) + 1);
        free(name);
        free(value);
        name = value = NULL;
    }
}

/* Returns the first value; data NULL: there is none. */
static struct slice
find_pair(struct slice pairs, const char *name)
{
    while (pairs.size > 0) {
        struct slice found = slice_take(&pairs, '\0');
        struct slice value = slice_take(&pairs, '\0');

        if (slice_is(found, name))
            return value;
    }
    return (struct slice){NULL, 0};
}

static void
on_message(struct mosquitto *client, void *user,
           const struct mosquitto_message *m,
           const mosquitto_property *properties)
{
    struct mqtt *mqtt = user;
    char *content_type = NULL;
    void *correlation = NULL;
    uint16_t correlation_size = 0;
    struct slice pairs;
    struct mqtt_received message = {
        .topic = m->topic,
        .payload = {m->payload, (size_t)m->payloadlen},
        .mid = m->mid,
        .is_retained = m->retain,
        .is_repeat = mqtt->is_logging && mqtt->is_repeat,
    };

    (void)client;
    mqtt->n_heard++;
    mqtt->n_queued += m->mid > 0; /* a PUBACK */
    mqtt->heard_bytes += (size_t)m->payloadlen;
    if (!message.is_repeat)
        stop_logging(mqtt);
    if (mqtt->is_ending || !mqtt->options.calls->received)
        return;
    /* Take it now or never: the library has acknowledged it already, so the
     * MQTT broker will not send it again. */
    if (m->qos > 1)
        DIAG(DIAG_WARNING, "bridge",
             "the MQTT broker sent a message at QoS 2 instead of QoS 1: a "
             "crash may lose it",
             diag_text("bridge", mqtt->options.config->name),
             diag_text("topic", problem_quote(slice_of(m->topic)).text));
    mosquitto_property_read_string(properties, MQTT_PROP_CONTENT_TYPE,
                                   &content_type, false);
    mosquitto_property_read_binary(properties, MQTT_PROP_CORRELATION_DATA,
                                   &correlation, &correlation_size, false);
    buf_clear(&mqtt->pairs);
    read_pairs(&mqtt->pairs, properties);
    pairs = buf_slice(&mqtt->pairs);
    message.content_type = slice_of(content_type);
    message.correlation = (struct slice){correlation, correlation_size};
    message.key = find_pair(pairs, "idempotency-key");
    if (find_pair(pairs, "specversion").data)
        message.attributes = pairs;
    else if (!message.key.data)
        message.key = find_pair(pairs, "id");
    mqtt->options.calls->received(mqtt->options.user, &message);
    free(content_type);
    free(correlation);
}

void
mqtt_listen(struct mqtt *mqtt)
{
    struct mosquitto *client = mqtt->client;

    mqtt->is_logging = true;
    mqtt->is_repeat = false;
    mosquitto_log_callback_set(client, on_log);
    mosquitto_connect_v5_callback_set(client, on_connect);
    mosquitto_disconnect_v5_callback_set(client, on_disconnect);
    mosquitto_publish_v5_callback_set(client, on_publish);
    mosquitto_message_v5_callback_set(client, on_message);
    mosquitto_subscribe_v5_callback_set(client, on_subscribe);
}

/* Publishing */

/* The size of a variable byte integer (MQTT 5, section 1.5.5). */
static size_t
varint_size(size_t n)
{
    return n < 128 ? 1 : n < 16384 ? 2 : n < 2097152 ? 3 : 4;
}

/* The size of PUBLISH behind the length, without the payload (section
 * 3.3.2). */
static size_t
header_size(const struct mqtt *mqtt, const struct mqtt_message *message)
{
    size_t properties = 0;
    size_t size = 2 + strlen(message->topic) + (message->qos > 0 ? 2 : 0);

    if (mqtt->options.config->version != BRIDGE_MQTT_5)
        return size;
    if (message->content_type)
        properties += 1 + 2 + strlen(message->content_type);
    for (size_t i = 0; i < message->n_properties; i++)
        properties += 1 + 2 + strlen(message->properties[i].name) + 2 +
                      strlen(message->properties[i].value);
    return size + varint_size(properties) + properties;
}

/* The most bytes behind the length of a packet. */
static size_t
rest_size(const struct mqtt *mqtt)
{
    uint64_t max = mqtt->options.config->packet_bytes;
    size_t rest;

    if (max > PACKET_MAX)
        max = PACKET_MAX;
    if (mqtt->limits.packet > 0 && mqtt->limits.packet < max)
        max = mqtt->limits.packet;
    if (max < 2)
        return 0;
    /* The larger the length, the more bytes it takes. */
    rest = (size_t)max - 2;
    while (1 + varint_size(rest) + rest > max)
        rest--;
    return rest;
}

size_t
mqtt_room(const struct mqtt *mqtt, const struct mqtt_message *message)
{
    size_t rest = rest_size(mqtt);
    size_t header = header_size(mqtt, message);

    return rest > header ? rest - header : 0;
}

unsigned
mqtt_window(const struct mqtt *mqtt)
{
    uint64_t inflight = mqtt->options.config->inflight;

    return mqtt->limits.receive < inflight ? mqtt->limits.receive
                                           : (unsigned)inflight;
}

int64_t
mqtt_keepalive_us(const struct mqtt *mqtt)
{
    int64_t us = mqtt->options.config->keepalive_us;
    int64_t theirs_us = (int64_t)mqtt->limits.keepalive_s * 1000000;

    return theirs_us > 0 && theirs_us < us ? theirs_us : us;
}

bool
mqtt_takes_retained(const struct mqtt *mqtt)
{
    return mqtt->limits.takes_retained;
}

static bool
is_usable(const struct mqtt *mqtt)
{
    return mqtt->client && mqtt->is_connected && !mqtt->is_ending;
}

/* Explains a refusal of the library itself. */
static enum status
explain_refusal(int error, const char *what, const char *topic,
                struct problem *why)
{
    enum status rc = error == MOSQ_ERR_NOMEM             ? STATUS_MEMORY
                     : error == MOSQ_ERR_NO_CONN         ? STATUS_AGAIN
                     : error == MOSQ_ERR_OVERSIZE_PACKET ? STATUS_TOO_LARGE
                                                         : STATUS_INVALID;

    return problem(why, rc, "%s %s: %s", what,
                   problem_quote(slice_of(topic)).text,
                   mosquitto_strerror(error));
}

enum status
mqtt_publish(struct mqtt *mqtt, const struct mqtt_message *message, int *mid,
             struct problem *why)
{
    mosquitto_property *properties = NULL;
    size_t size = header_size(mqtt, message) + message->payload.size;
    enum status rc = STATUS_OK;
    int error = 0;

    if (!is_usable(mqtt))
        return problem(why, STATUS_AGAIN, "there is no connection");
    if (message->is_retained && !mqtt->limits.takes_retained)
        return problem(why, STATUS_UNSUPPORTED,
                       "the MQTT broker takes no retained messages");
    if (message->qos > mqtt->limits.qos)
        return problem(why, STATUS_UNSUPPORTED,
                       "the MQTT broker takes no messages at QoS %d, at most "
                       "at QoS %d",
                       message->qos, mqtt->limits.qos);
    /* Our size is exact; the library leaves out some bytes, and would queue a
     * message that it cannot send. */
    if (size > rest_size(mqtt))
        return problem(why, STATUS_TOO_LARGE,
                       "a message of %zu bytes on %s: a packet has room for "
                       "%zu, topic and properties included",
                       size, problem_quote(slice_of(message->topic)).text,
                       rest_size(mqtt));
    if (mqtt->options.config->version == BRIDGE_MQTT_5) {
        if (message->content_type)
            error = mosquitto_property_add_string(
                &properties, MQTT_PROP_CONTENT_TYPE, message->content_type);
        for (size_t i = 0; i < message->n_properties && !error; i++)
            error = mosquitto_property_add_string_pair(
                &properties, MQTT_PROP_USER_PROPERTY,
                message->properties[i].name, message->properties[i].value);
    }
    if (error) {
        rc = problem(why,
                     error == MOSQ_ERR_NOMEM ? STATUS_MEMORY : STATUS_INVALID,
                     "the properties of a message on %s cannot be sent",
                     problem_quote(slice_of(message->topic)).text);
    } else {
        error = mosquitto_publish_v5(mqtt->client, mid, message->topic,
                                     (int)message->payload.size,
                                     message->payload.data, message->qos,
                                     message->is_retained, properties);
        mqtt->n_queued += !error;
        if (error)
            rc = explain_refusal(error, "cannot publish on", message->topic,
                                 why);
    }
    mosquitto_property_free_all(&properties);
    return rc;
}

enum status
mqtt_subscribe(struct mqtt *mqtt, const char *filter, bool wants_retained,
               int *mid, struct problem *why)
{
    int options = wants_retained ? MQTT_SUB_OPT_SEND_RETAIN_ALWAYS
                                 : MQTT_SUB_OPT_SEND_RETAIN_NEVER;
    int error;

    if (!is_usable(mqtt))
        return problem(why, STATUS_AGAIN, "there is no connection");
    error = mosquitto_subscribe_v5(mqtt->client, mid, filter, 1, options, NULL);
    return error ? explain_refusal(error, "cannot subscribe to", filter, why)
                 : STATUS_OK;
}

enum status
mqtt_unsubscribe(struct mqtt *mqtt, const char *filter, struct problem *why)
{
    int error;

    if (!is_usable(mqtt))
        return problem(why, STATUS_AGAIN, "there is no connection");
    error = mosquitto_unsubscribe_v5(mqtt->client, NULL, filter, NULL);
    return error
               ? explain_refusal(error, "cannot unsubscribe from", filter, why)
               : STATUS_OK;
}
