/*
 * asyncapi.c - the description of all streams and of the topics of a bridge in
 * AsyncAPI 3.0.
 *
 *     tidingsd --asyncapi > broker/http/asyncapi.json
 *
 * Embedded and served as that of the routes is: GET /asyncapi.json.
 *
 *     channels    a path of a stream, or a topic of MQTT: rows of `channels`
 *     operations  for each what the broker sends, and what it receives
 *     components  schemas: those of the messages (schemas.h)
 */
#include "broker/bridge/bridges.h"
#include "broker/http/route_table.h"
#include "broker/push/follow_request.h"
#include "broker/push/subscribers.h"
#include "proto/resourcesync/json.h"

static const struct json_shape xml_shape = {
    "XmlMessage", "A Change Notification of ResourceSync: a message as XML",
    "= string"};

#define NOTES 8

static const struct channel_row {
    const char *name, *address; /* NULL: the configuration names it */
    const char *text;
    bool is_mqtt;
    bool is_retained;
    const struct json_shape *sent[NOTES], *received[NOTES];
} channels[] = {
    {"set", "/sets/{set}/stream",
     "The changes of a set: a WebSocket with the subprotocol resourcesync.json "
     "or resourcesync.xml, or server-sent events, whose `id` is the position",
     .sent = {&message_shape, &xml_shape, &stream_end_shape}},
    {"sets", "/stream",
     "The changes of many sets, by both as well; by POST the body says which",
     .sent = {&message_shape, &xml_shape, &stream_heartbeat_shape,
              &resume_shape, &set_end_shape, &stream_end_shape},
     .received = {&follow_shape}},
    {"notifications", "{prefix}/{set}/notifications",
     "The changes of a set; a message for each commit", .is_mqtt = true,
     .sent = {&message_shape, &xml_shape}},
    {"changes", "{prefix}/{set}/changes/{change}",
     "The changes of a set; a message for each", .is_mqtt = true,
     .sent = {&message_shape, &xml_shape}},
    {"position", "{prefix}/{set}/position",
     "Where a set stands; empty when it was removed", .is_mqtt = true,
     .is_retained = true, .sent = {&bridge_position_shape}},
    {"status", "{prefix}/status", "If the bridge publishes", .is_mqtt = true,
     .is_retained = true, .sent = {&bridge_status_shape}},
    {"rejected", "{prefix}/rejected", "Messages that became no changes",
     .is_mqtt = true, .sent = {&problem_shape}},
    {"incoming", NULL, "Messages that become changes of a set", .is_mqtt = true,
     .received = {&post_shape, &xml_shape}},
};

/* All that the messages are made of. */
static const struct json_shape *const shapes[] = {
    &message_shape,
    &entry_shape,
    &link_shape,
    &attribute_shape,
    &xml_shape,
    &stream_heartbeat_shape,
    &resume_shape,
    &set_end_shape,
    &stream_end_shape,
    &follow_shape,
    &follow_item_shape,
    &post_shape,
    &change_shape,
    &posted_message_shape,
    &bridge_position_shape,
    &problem_shape,
    &bridge_status_shape,
    NULL,
};

static const struct {
    const char *name, *text;
} parameters[] = {
    {"set", "\"description\":\"the name of a set\""},
    {"prefix", "\"description\":\"of the bridge\",\"default\":\"tidings\""},
    {"change", "\"enum\":[\"created\",\"updated\",\"deleted\"]"},
};

static void
write_parameters(struct buf *to, const char *address)
{
    const char *between = "";

    BUF_ADD(to, ",\"parameters\":{");
    for (size_t i = 0; i < N_ELEMENTS(parameters); i++) {
        char hole[16];

        snprintf(hole, sizeof(hole), "{%s}", parameters[i].name);
        if (!strstr(address, hole))
            continue;
        buf_add_format(to, "%s\"%s\":{%s}", between, parameters[i].name,
                       parameters[i].text);
        between = ",";
    }
    BUF_ADD(to, "}");
}

/* A channel: its address, its messages, and what its protocol adds. */
static void
write_channel(struct buf *to, const struct channel_row *channel)
{
    const char *between = "";

    buf_add_format(to, "\n\"%s\":{\"address\":", channel->name);
    if (channel->address)
        buf_add_format(to, "\"%s\"", channel->address);
    else
        BUF_ADD(to, "null");
    json_text_member(to, "description", slice_of(channel->text));
    buf_add_format(to, ",\"servers\":[{\"$ref\":\"#/servers/%s\"}%s]",
                   channel->is_mqtt ? "mqtt" : "websocket",
                   channel->is_mqtt ? "" : ",{\"$ref\":\"#/servers/events\"}");
    if (channel->address)
        write_parameters(to, channel->address);
    BUF_ADD(to, ",\"messages\":{");
    for (size_t i = 0; i < 2 * NOTES; i++) {
        const struct json_shape *shape =
            i < NOTES ? channel->sent[i] : channel->received[i - NOTES];

        if (!shape)
            continue;
        buf_add_format(to,
                       "%s\n  \"%s\":{\"name\":\"%s\",\"contentType\":\"%s\","
                       "\"payload\":{\"$ref\":\"#/components/schemas/%s\"}}",
                       between, shape->name, shape->name,
                       shape == &xml_shape       ? "application/xml"
                       : shape == &problem_shape ? "application/problem+json"
                       : shape == &bridge_status_shape ? "text/plain"
                                                       : "application/json",
                       shape->name);
        between = ",";
    }
    BUF_ADD(to, "}");
    if (!channel->is_mqtt) {
        BUF_ADD(to, ",\"bindings\":{\"ws\":{\"method\":\"GET\",\"query\":{"
                    "\"type\":\"object\",\"properties\":{");
        openapi_write_query(to, channel->address);
        BUF_ADD(to, "}}}}");
    }
    BUF_ADD(to, "}");
}

static void
write_operation(struct buf *to, const struct channel_row *channel,
                const char *action, const struct json_shape *const *notes)
{
    if (!*notes)
        return;
    buf_add_format(to,
                   "%s\n\"%s.%s\":{\"action\":\"%s\",\"channel\":{\"$ref\":"
                   "\"#/channels/%s\"},\"messages\":[",
                   to->data[to->size - 1] == '{' ? "" : ",", channel->name,
                   action, action, channel->name);
    for (size_t i = 0; i < NOTES && notes[i]; i++)
        buf_add_format(to, "%s{\"$ref\":\"#/channels/%s/messages/%s\"}",
                       i ? "," : "", channel->name, notes[i]->name);
    BUF_ADD(to, "]");
    if (channel->is_mqtt)
        buf_add_format(to, ",\"bindings\":{\"mqtt\":{\"qos\":1,\"retain\":%s}}",
                       channel->is_retained ? "true" : "false");
    BUF_ADD(to, "}");
}

#define SERVER(name, protocol, text)                             \
    "\"" name "\":{\"host\":\"{host}\",\"protocol\":\"" protocol \
    "\",\"description\":\"" text                                 \
    "\",\"variables\":{\"host\":{\"default\":\"localhost\"}}"

#define SECURITY \
    ",\"security\":[{\"$ref\":\"#/components/securitySchemes/token\"}]}"

void
route_table_asyncapi(struct buf *to)
{
    BUF_ADD(to, "{\"asyncapi\":\"3.0.0\",\n\"info\":{\"title\":\"Tidings\","
                "\"version\":\"" TIDINGS_VERSION "\",\"description\":\"The "
                "streams of the broker, and the topics of its bridges to MQTT "
                "brokers.\"},\n\"defaultContentType\":\"application/json\",\n"
                "\"servers\":{" SERVER("websocket", "ws", "WebSocket") SECURITY
            ",\n" SERVER("events", "http", "server-sent events") SECURITY
            ",\n" SERVER("mqtt", "mqtt", "an MQTT broker") "}},\n"
                                                           "\"channels\":{");
    for (size_t i = 0; i < N_ELEMENTS(channels); i++) {
        buf_add_text(to, i ? "," : "");
        write_channel(to, &channels[i]);
    }
    BUF_ADD(to, "},\n\"operations\":{");
    for (size_t i = 0; i < N_ELEMENTS(channels); i++) {
        write_operation(to, &channels[i], "send", channels[i].sent);
        write_operation(to, &channels[i], "receive", channels[i].received);
    }
    BUF_ADD(to, "},\n\"components\":{\"securitySchemes\":{\"token\":{\"type\":"
                "\"http\",\"scheme\":\"bearer\"}},\n\"schemas\":{");
    schemas_write(to, shapes);
    BUF_ADD(to, "}}}\n");
}
