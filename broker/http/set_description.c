#include "broker/http/set_description.h"

#include <inttypes.h>

#include "broker/push/transports.h"
#include "broker/sets/links.h"
#include "broker/sets/positions.h"
#include "broker/sets/set_links.h"
#include "broker/sets/settings.h"
#include "broker/sets/source_description.h"
#include "proto/datetime.h"
#include "proto/digest.h"
#include "proto/json.h"

static void
add_text(struct buf *to, const char *name, const char *text)
{
    buf_add_format(to, ",\"%s\":", name);
    json_string(to, slice_of(text));
}

static void
add_time(struct buf *to, const char *name, int64_t us)
{
    char text[DATETIME_SIZE];

    datetime_write(text, us);
    buf_add_format(to, ",\"%s\":\"%.*s\"", name, DATETIME_SIZE, text);
}

/* Adds the first members of every description of a set. */
static void
add_identity(struct buf *to, const struct set *set, const struct head *head,
             const struct settings *settings)
{
    char position[POSITION_MAX];

    position_write(position, head->epoch, head->last);
    BUF_ADD(to, "{\"name\":");
    json_string(to, slice_of(set->name));
    if (settings->title[0])
        add_text(to, "title", settings->title);
    if (settings->description[0])
        add_text(to, "description", settings->description);
    add_text(to, "position", position);
    add_time(to, "datetime", head->last_us);
}

void
set_description_entry(struct buf *to, const struct set *set,
                      const struct head *head)
{
    struct link_text self = link_to(registry_public_url(set->registry),
                                    LINK_SET, set->name, NULL, 0);
    struct settings settings;

    registry_settings(set, &settings);
    add_identity(to, set, head, &settings);
    add_text(to, "href", self.text);
    BUF_ADD(to, "}");
}

static void
add_href(struct buf *to, const char *rel, struct slice href, const char *type)
{
    buf_add_format(to, "%s{\"rel\":\"%s\",\"href\":",
                   to->data[to->size - 1] == '[' ? "" : ",", rel);
    json_string(to, href);
    if (type)
        add_text(to, "type", type);
    BUF_ADD(to, "}");
}

static void
add_link(struct buf *to, const struct set *set, const char *rel,
         enum link_kind kind, const char *type)
{
    struct link_text link =
        link_to(registry_public_url(set->registry), kind, set->name, NULL, 0);

    add_href(to, rel, link_slice(&link), type);
}

/* Adds the topics of the channels, and their hubs. */
static void
add_topics(struct buf *to, const struct set *set)
{
    struct hubs hubs;

    set_links_hubs(set, &hubs);
    add_link(to, set, "change-notification", LINK_NOTIFICATIONS,
             "application/xml");
    add_link(to, set, "framework-notification", LINK_FRAMEWORK_NOTIFICATIONS,
             "application/xml");
    for (size_t i = 0; i < hubs.n; i++)
        add_href(to, "hub", link_slice(&hubs.urls[i]), NULL);
}

/* Adds the same channels at MQTT brokers. */
static void
add_mqtt_links(struct buf *to, const struct set *set)
{
    struct mqtt_links mqtt;

    set_links_mqtt(set, &mqtt);
    for (size_t i = 0; i < mqtt.n; i++) {
        const struct mqtt_link *link = &mqtt.links[i];

        add_href(to, MQTT_LINK_REL, (struct slice){link->text, link->size},
                 link->type);
    }
}

/* Adds the current generation of a kind, and its archive. */
static void
add_generations(struct buf *to, const struct set *set,
                enum generation_kind kind, const struct generations *all)
{
    const struct kind_names *names = &links_kinds[kind];
    const char *url = registry_public_url(set->registry);
    struct link_text current = link_to_current(url, set->name, kind);
    struct link_text archive = link_to_generations(url, set->name, kind);

    if (all->current.number > 0)
        add_href(to, capability_name(names->capability), link_slice(&current),
                 "application/xml");
    if (all->n_archived > 0)
        add_href(to, capability_name(names->archive), link_slice(&archive),
                 "application/xml");
}

/* Adds the documents by their capabilities, then the channels: clients follow
 * these links instead of building paths. Only links that work now. */
static void
add_links(struct buf *to, const struct set *set, const struct head *head)
{
    const char *xml = "application/xml";
    struct link_text up = source_description_link(set);

    BUF_ADD(to, ",\"links\":[");
    add_link(to, set, "self", LINK_SET, "application/json");
    add_href(to, "up", link_slice(&up), xml);
    add_link(to, set, "capabilitylist", LINK_CAPABILITYLIST, xml);
    add_link(to, set, "changelist", LINK_CHANGELIST, xml);
    if (head->list > head->first_list)
        add_link(to, set, "changelist-archive", LINK_CHANGELIST_ARCHIVE, xml);
    for (int kind = 0; kind < GENERATION_KINDS; kind++)
        add_generations(to, set, (enum generation_kind)kind,
                        &head->generations[kind]);
    add_topics(to, set);
    for (const struct channel_link *c = links_channels; c->rel; c++)
        add_link(to, set, c->rel, c->kind, c->type);
    add_mqtt_links(to, set);
    BUF_ADD(to, "]");
}

/* Adds figures of the kept content; nothing for a set that keeps none. */
static void
add_content(struct buf *to, const struct set *set,
            const struct settings *settings)
{
    static const char *const modes[] = {
        [CONTENT_FETCH] = "fetch", [CONTENT_INLINE] = "inline"};
    uint64_t last =
        atomic_load_explicit(&set->content_counts.last, memory_order_acquire);

    if (settings->content == CONTENT_NONE)
        return;
    buf_add_format(
        to,
        ",\"content\":{\"mode\":\"%s\",\"last\":%" PRIu64 ",\"kept\":%" PRIu64
        ",\"bytes\":%" PRIu64 ",\"missing\":%" PRIu64 "}",
        modes[settings->content], last,
        atomic_load_explicit(&set->content_counts.files, memory_order_relaxed),
        atomic_load_explicit(&set->content_counts.bytes, memory_order_relaxed),
        atomic_load_explicit(&set->content_counts.missing,
                             memory_order_relaxed));
}

/* {"websocket-json":2,"websocket-xml":0,...} */
static void
add_subscribers(struct buf *to, const struct set *set)
{
    const char *before = ",\"subscribers\":{";

    for (size_t i = 0; i < transports_count(); i++) {
        unsigned n =
            atomic_load_explicit(&set->subscribers[i], memory_order_relaxed);

        buf_add_format(to, "%s\"%s\":%u", before,
                       transports_of_number(i)->label, n);
        before = ",";
    }
    BUF_ADD(to, "}");
}

void
set_description_set(struct buf *to, const struct set *set,
                    const struct head *head)
{
    struct settings settings;
    char earliest[POSITION_MAX];

    registry_settings(set, &settings);
    settings.peers = registry_peers(set);
    positions_earliest(head, earliest);
    add_identity(to, set, head, &settings);
    add_text(to, "epoch", head->epoch);
    buf_add_format(to,
                   ",\"last\":%" PRIu64 ",\"digest\":\"sha-256:", head->last);
    buf_add_hex(to, head->digest.bytes, DIGEST_SIZE);
    BUF_ADD(to, "\"");
    add_time(to, "created", head->created_us);
    add_text(to, "earliest", earliest);
    BUF_ADD(to, ",\"settings\":");
    settings_write(to, &settings, true);
    add_content(to, set, &settings);
    settings_fini(&settings);
    buf_add_format(to,
                   ",\"lists\":{\"open\":%" PRIu64 ",\"entries\":%" PRIu64
                   ",\"bytes\":%" PRIu64 ",\"closed\":%" PRIu64
                   ",\"fileBytes\":%" PRIu64 "}",
                   head->list, head->last - head->list_after, head->list_bytes,
                   head->list - head->first_list, head->file_bytes);
    add_subscribers(to, set);
    add_links(to, set, head);
    BUF_ADD(to, "}\n");
}
