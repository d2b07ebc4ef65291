/*
 * schemas.c - JSON Schemas of all JSON and forms that the broker takes and
 * writes, made of the shapes (proto/json_shape.h) beside the code that does so.
 */

#include "broker/access/token_json.h"
#include "broker/bridge/bridges.h"
#include "broker/http/route_table.h"
#include "broker/hub/attempt_log.h"
#include "broker/hub/hub_commands.h"
#include "broker/hub/hub_keys.h"
#include "broker/journal/cluster_report.h"
#include "broker/push/follow_request.h"
#include "broker/push/subscribers.h"
#include "broker/sets/harvest.h"
#include "broker/sets/settings.h"
#include "broker/sources/foreign_topic.h"

/* The begin of every description of a set (handle_sets.c). */
#define IDENTITY                                                     \
    "name string, title? string, description? uri, position string " \
    "(of the head), datetime time (of the last change), "

/* broker/sets/rates.h */
#define HOUR                                                                  \
    "minutes count, since time (the start of the broker: nothing earlier is " \
    "counted), entries [count] (by minute), "                                 \
    "lags [count] (how far the slowest reader was behind)"

/* Of forms. */
#define WISHES                                                            \
    "after? string (a position), interval? number (the least seconds "    \
    "between two deliveries), change? string (a filter), "                \
    "prefix? string (a filter), type? string (a filter), tag? string (a " \
    "filter), form? 'xml'|'json'|'cloudevents'|'cloudevent' (of "         \
    "deliveries), data? 'no' (entries without their data), "              \
    "signature? 'v1a' (with the keys of the hub)"

/* Of the handlers: others stand beside the code that writes or reads them. */
static const struct json_shape own_shapes[] = {
    /* handle_sets.c */
    {"SetEntry", "A set among others",
     IDENTITY "href uri, rate? [count] (entries of each of the last 60 "
              "minutes), harvest? Harvest"},
    {"Sets", "A page of the sets",
     "sets [SetEntry], stream uri (of many sets), next? uri (the next page)"},
    {"SetLink", "A document or channel of a set",
     "rel string, href uri, type? string"},
    {"SetContent", "The kept bytes of the resources of a set",
     "mode 'fetch'|'inline', last count (the entry up to which they are "
     "complete), kept count (resources), bytes count, missing count "
     "(resources)"},
    {"Set", "A set",
     IDENTITY
     "epoch string (the identity of its log), last count (the newest "
     "entry), digest string (of its log), created time, earliest "
     "string (the first position that is there), follows? string (the "
     "last position of the epoch that this one continues), sum? string (of "
     "the ids of its resources, COUNT-SUM, once a client has asked "
     "for a comparison), sumPosition? string (the position that the "
     "sum is of), settings Settings, "
     "content? SetContent, harvest? Harvest, lists {count} (figures "
     "of its Change Lists), subscribers {count} (by transport), "
     "links [SetLink]"},
    {"Rate", "The last hour of a set",
     "set string, " HOUR ", readers {{count}} (by transport)"},
    /* handle_status.c */
    {"Status", "The last hour of the broker",
     "version string, sets count, disk? {count} (bytes), " HOUR},
    {"Backup", "A backup that is being made", "backup 'making'"},
    /* handle_changes.c */
    {"Posted", "The entries of a post, which are on disk",
     "set string, first count, last count, position string (of the last one), "
     "datetime time (of the last one), known? count (events of a batch that "
     "were posted before, and not added again)"},
    /* handle_resources.c */
    {"ResourcesPosted", "The differences of all resources, and their entries",
     "set string, created count, updated count, deleted count, unchanged "
     "count, newer count (in the set), held_back count (deletions that wait "
     "for consent), resources count, first count|null, last count|null, "
     "position string|null"},
    /* handle_documents.c */
    {"PastResources", "Resources of a set as they were at a time",
     "set string, as_of time, position string, resources [Resource], next? "
     "uri"},
    /* handle_builds.c */
    {"Closed", "The Change List that was closed, if it had entries",
     "set string, closed count|null, list? uri"},
    {"Built", "A Resource List or dump; before it is ready its address alone",
     "set string, generation? count, position? string, resources? count, "
     "packages? count, list? uri, dump? uri, current uri"},
    /* handle_tokens.c */
    {"Ticket", "Stands for a token in one request",
     "ticket string, seconds count"},
    /* forms: proto/http/websub.h, broker/sources/command.c */
    {"HubForm", "A request of WebSub",
     "hub.mode 'subscribe'|'unsubscribe'|'publish', hub.topic? uri, "
     "hub.callback? uri, hub.secret? string, hub.lease_seconds? count, "
     "hub.url? uri (the topic of a ping), " WISHES,
     .is_open = true},
    {"SubscribeForm", "A callback that is to get the changes of a set",
     "callbackURI uri, " WISHES, .is_open = true},
    /* CloudEvents: proto/input/event_read.h */
    {"Event", "A CloudEvent whose data is a change, or whose attributes say it",
     "specversion '1.0', id string, source string, type string, "
     "subject? string, time? string, datacontenttype? string, data? any, "
     "data_base64? string, traceparent? string",
     .is_open = true},
    {"Events", "A batch of CloudEvents", "= [Event]"},
    /* streams and bridges: a message as XML */
    {"XmlMessage", "A Change Notification of ResourceSync: a message as XML",
     "= string"},
};

#define N_OWN N_ELEMENTS(own_shapes)

static const struct json_shape *const shapes[] = {
    &change_shape,          &entry_shape,           &link_shape,
    &attribute_shape,       &message_shape,         &post_shape,
    &resource_shape,        &resources_shape,       &posted_message_shape,
    &settings_shape,        &settings_change_shape, &harvest_shape,
    &harvest_report_shape,  &follow_shape,          &follow_item_shape,
    &subscription_shape,    &subscriptions_shape,   &attempt_shape,
    &attempts_shape,        &hub_key_shape,         &hub_keys_shape,
    &relay_request_shape,   &relay_shape,           &relays_shape,
    &bridges_shape,         &bridge_shape,          &bridge_out_shape,
    &bridge_set_shape,      &bridge_in_shape,       &token_shape,
    &token_request_shape,   &tokens_shape,          &options_shape,
    &option_shape,          &problem_shape,         &stream_heartbeat_shape,
    &resume_shape,          &set_end_shape,         &stream_end_shape,
    &bridge_position_shape, &bridge_status_shape,   &cluster_shape,
    &cluster_broker_shape,  &checkpoint_text_shape,
};

static const struct word {
    const char *word, *schema;
} words[] = {
    {"string", "{\"type\":\"string\"}"},
    {"uri", "{\"type\":\"string\",\"format\":\"uri\"}"},
    {"time", "{\"type\":\"string\",\"format\":\"date-time\"}"},
    {"flag", "{\"type\":\"boolean\"}"},
    {"count", "{\"type\":\"integer\",\"minimum\":0}"},
    {"number", "{\"type\":\"number\",\"minimum\":0}"},
    {"seconds", "{\"type\":\"number\"}"}, /* a difference */
    {"null", "{\"type\":\"null\"}"},
    {"any", "{}"},
};

static void write_type(struct buf *to, struct slice type);

/* Writes the schema of a type without alternatives: of a word, 'text', [T],
 * {T}, or of another shape. */
static void
write_simple_type(struct buf *to, struct slice type)
{
    struct slice inner = {type.data + 1, type.size - 2};

    for (size_t i = 0; i < N_ELEMENTS(words); i++) {
        if (!slice_is(type, words[i].word))
            continue;
        buf_add_text(to, words[i].schema);
        return;
    }
    switch (*type.data) {
    case '\'':
        buf_add_format(to, "{\"type\":\"string\",\"const\":\"%.*s\"}",
                       SLICE_ARG(inner));
        return;
    case '[':
        BUF_ADD(to, "{\"type\":\"array\",\"items\":");
        break;
    case '{':
        BUF_ADD(to, "{\"type\":\"object\",\"additionalProperties\":");
        break;
    default:
        buf_add_format(to, "{\"$ref\":\"#/components/schemas/%.*s\"}",
                       SLICE_ARG(type));
        return;
    }
    write_type(to, inner);
    BUF_ADD(to, "}");
}

/* Alternatives stand outside of brackets. */
static void
write_type(struct buf *to, struct slice type)
{
    bool is_many = memchr(type.data, '|', type.size);

    if (is_many)
        BUF_ADD(to, "{\"anyOf\":[");
    while (type.size > 0) {
        write_simple_type(to, slice_take(&type, '|'));
        if (type.size > 0)
            BUF_ADD(to, ",");
    }
    if (is_many)
        BUF_ADD(to, "]}");
}

/* Takes the text in parentheses, if it is next, and the comma, off the front.
 */
static struct slice
take_text(struct slice *members)
{
    struct slice text = {NULL, 0};

    if (slice_skip_start(members, "("))
        text = slice_take(members, ')');
    (void)slice_take(members, ',');
    *members = slice_trimmed(*members);
    return text;
}

/* Writes a property, and its name into `required` if it is never missing. */
static void
write_member(struct buf *to, struct slice *members, struct buf *required)
{
    struct slice name = slice_take(members, ' ');
    struct slice type = slice_take_until(members, " ,");
    struct slice text;

    *members = slice_trimmed(*members);
    text = take_text(members);
    if (slice_ends(name, "?"))
        name.size--;
    else
        buf_add_format(required, "%s\"%.*s\"", required->size ? "," : "",
                       SLICE_ARG(name));
    buf_add_format(to, "\n  \"%.*s\":", SLICE_ARG(name));
    write_type(to, type);
    if (text.size > 0) {
        to->size--; /* the last brace */
        json_separate(to, ",");
        BUF_ADD(to, "\"description\":");
        json_text(to, text);
        BUF_ADD(to, "}");
    }
    if (members->size > 0)
        BUF_ADD(to, ",");
}

static void
write_shape(struct buf *to, const struct json_shape *shape)
{
    struct buf made = {.max = 8192}, required = {.max = 4096};
    struct slice members;

    if (shape->write)
        shape->write(shape, &made);
    else
        buf_add_text(&made, shape->members);
    members = buf_slice(&made);
    buf_add_format(to, "\n\"%s\":{\"description\":", shape->name);
    json_text(to, slice_of(shape->text));
    if (slice_starts(members, "= ")) {
        BUF_ADD(to, ",\"allOf\":[");
        slice_skip(&members, 2);
        write_type(to, members);
        BUF_ADD(to, "]}");
    } else {
        BUF_ADD(to, ",\"type\":\"object\",\"properties\":{");
        while (members.size > 0)
            write_member(to, &members, &required);
        buf_add_format(to, "},\"required\":[%.*s],\"additionalProperties\":%s}",
                       SLICE_ARG(buf_slice(&required)),
                       shape->is_open ? "true" : "false");
    }
    buf_fini(&made);
    buf_fini(&required);
}

static bool
names_schema(struct slice text, const char *name)
{
    char reference[128];
    int n = snprintf(reference, sizeof(reference),
                     "\"#/components/schemas/%s\"", name);

    return memmem(text.data, text.size, reference, (size_t)n);
}

void
schemas_write(struct buf *to, struct slice users)
{
    bool is_written[N_OWN + N_ELEMENTS(shapes)] = {false};

    for (size_t i = 0; i < N_ELEMENTS(is_written); i++) {
        const struct json_shape *shape =
            i < N_OWN ? &own_shapes[i] : shapes[i - N_OWN];

        if (is_written[i] || (!names_schema(users, shape->name) &&
                              !names_schema(buf_slice(to), shape->name)))
            continue;
        json_separate(to, ",");
        write_shape(to, shape);
        is_written[i] = true;
        i = SIZE_MAX; /* it may name earlier ones */
    }
}
