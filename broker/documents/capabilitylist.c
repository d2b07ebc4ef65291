/*
 * capabilitylist.c - Capability Lists: only capabilities that work.
 */
#include "broker/documents/documents.h"
#include "broker/sets/links.h"
#include "broker/sets/set_links.h"
#include "broker/sets/source_description.h"
#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/vocab.h"

/* Rows of links_channels at most. */
#define CHANNELS_MAX 16

/* A list that is being written. */
struct writing {
    struct buf *text;
    struct hubs hubs; /* of both topics */
};

static void
add_capability(void *user, enum capability capability, struct link_text loc)
{
    const struct writing *w = user;
    bool is_topic = capability == CAP_CHANGE_NOTIFICATION ||
                    capability == CAP_FRAMEWORK_NOTIFICATION;
    struct document_link links[HUBS_MAX];
    struct document_entry entry = {
        .loc = link_slice(&loc),
        .has_capability = 1,
        .capability = capability,
        .links = links,
        .n_links = is_topic ? w->hubs.n : 0,
    };

    for (size_t i = 0; i < entry.n_links; i++)
        links[i] =
            (struct document_link){"hub", link_slice(&w->hubs.urls[i]), NULL};

    document_entry(w->text, DOCUMENT_URLSET, &entry);
}

void
capabilitylist_each(struct set *set, const struct head *head, capability_fn *fn,
                    void *user)
{
    for (enum generation_kind kind = 0; kind < GENERATION_KINDS; kind++) {
        const struct kind_names *names = &links_kinds[kind];

        if (set_offers(set, head, kind))
            fn(user, names->capability, set_link_kind(set, kind, LINK_CURRENT));
        if (head->generations[kind].n_archived > 0)
            fn(user, names->archive, set_link_kind(set, kind, LINK_ARCHIVE));
    }
    fn(user, CAP_CHANGELIST, set_link(set, LINK_CHANGELIST));
    if (head->list > head->first_list)
        fn(user, CAP_CHANGELIST_ARCHIVE,
           set_link(set, LINK_CHANGELIST_ARCHIVE));
    fn(user, CAP_CHANGE_NOTIFICATION, set_link(set, LINK_NOTIFICATIONS));
    fn(user, CAP_FRAMEWORK_NOTIFICATION,
       set_link(set, LINK_FRAMEWORK_NOTIFICATIONS));
}

/* Opens the Capability List of a set: its lists, and the topics of its two
 * channels, which differ. Resource List and dumps exist from the
 * first build on, the archives from their first list on; they are listed from
 * then on. */
enum status
capabilitylist_open(const struct document_wish *wish, struct document *document,
                    struct problem *why)
{
    const struct set *set = wish->set;
    struct link_text up = source_description_link(set);
    struct link_text about = registry_described_by(set);
    struct link_text targets[CHANNELS_MAX];
    struct mqtt_links mqtt;
    struct document_link links[CHANNELS_MAX + BRIDGES_MAX + 2] = {
        {"up", link_slice(&up), NULL},
        {"describedby", link_slice(&about), NULL}};
    struct document_head head = {
        .root = DOCUMENT_URLSET,
        .capability = CAP_CAPABILITYLIST,
        .links = links,
        .n_links = 2,
    };
    struct buf text = {.max = DOCUMENT_BYTES_MAX};
    struct writing writing = {.text = &text};

    /* The root's links: upward, to the one Source Description that covers it,
     * even if that is under an index; to the page for people;
     * and to every channel, so that clients find push and pull together (R-347,
     * */
    for (size_t i = 0; i < CHANNELS_MAX && links_channels[i].rel; i++) {
        const struct channel_link *c = &links_channels[i];

        targets[i] = set_link(set, c->kind);
        links[head.n_links++] = (struct document_link){
            c->rel, link_slice(&targets[i]), NULL, c->type};
    }
    set_links_mqtt(set, &mqtt);
    for (size_t i = 0; i < mqtt.n; i++) {
        const struct mqtt_link *link = &mqtt.links[i];

        links[head.n_links++] = (struct document_link){
            MQTT_LINK_REL, {link->text, link->size}, NULL, link->type};
    }
    set_links_hubs(set, &writing.hubs);
    document_header(&text, &head);
    capabilitylist_each(wish->set, &wish->head, add_capability, &writing);
    document_footer(&text, DOCUMENT_URLSET);
    return document_of_text(document, &text, STATUS_OK, why);
}
