/*
 * Describes a message: its topic, its content type, and in the properties of
 * MQTT 5 the entries that it covers, so that a receiver need not parse it.
 *
 *     set=demo epoch=0123456789abcdef after=6 last=7 from=... until=...
 */
#include <string.h>

#include "broker/bridge/outbound_state.h"
#include "proto/datetime.h"

/* Returns the first digit: the digits are at the end of `to`. */
static const char *
write_number(char to[ENVELOPE_NUMBER_SIZE], uint64_t number)
{
    char *at = to + ENVELOPE_NUMBER_SIZE - 1;

    *at = '\0';
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return at;
}

static const char *
write_time(char to[DATETIME_SIZE + 1], int64_t us)
{
    datetime_write(to, us); /* as in the message */
    to[DATETIME_SIZE] = '\0';
    return to;
}

static struct topic_name
topic_of(const struct lane *lane, const struct outbound_message *made)
{
    const char *prefix = lane->out->config->prefix;

    return made->is_change ? topic_change(prefix, lane->name, made->kind)
                           : topic_notifications(prefix, lane->name);
}

void
envelope_write(struct envelope *e, const struct lane *lane,
               const struct outbound_message *made)
{
    const struct bridge_config *config = lane->out->config;
    const struct mqtt_property properties[] = {
        {"set", lane->name},
        {"epoch", lane->epoch},
        {"after", write_number(e->after, made->after)},
        {"last", write_number(e->last, made->last)},
        {"from", write_time(e->from, made->from_us)},
        {"until", write_time(e->until, made->until_us)},
    };

    memcpy(e->properties, properties, sizeof(properties));
    e->topic = topic_of(lane, made);
    e->message = (struct mqtt_message){
        .topic = e->topic.text,
        .qos = config->qos,
        .content_type = config->form == BRIDGE_JSON ? "application/json"
                                                    : "application/xml",
        .properties = e->properties,
        .n_properties = ENVELOPE_PROPERTIES,
    };
}

size_t
envelope_room(const struct lane *lane, const struct outbound_message *made)
{
    struct outbound_message longest = *made;
    struct envelope e;

    longest.after = longest.last = UINT64_MAX;
    longest.from_us = longest.until_us = 1; /* six decimals */
    envelope_write(&e, lane, &longest);
    return mqtt_room(lane->out->mqtt, &e.message);
}
