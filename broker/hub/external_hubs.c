#include "broker/hub/external_hubs.h"

#include "broker/base/diag.h"
#include "broker/hub/hub_rows.h"
#include "broker/hub/hub_state.h"
#include "broker/hub/subscription.h"
#include "broker/hub/topic.h"
#include "broker/sets/peers.h"

/* Ending the last subscription may remove the topic from the list; so the loop
 * takes the next topic before. */
static void
end_unnamed(struct topic *topic, const struct peers *peers)
{
    struct subscription *s;

    topic->n_holds++; /* until the end of the loop */
    list_walk (s, &topic->subscriptions, of_topic) {
        bool stays = s->kind != SUBSCRIPTION_HUB;

        for (unsigned i = 0; !stays && peers && i < peers->n_hubs; i++)
            stays = !strcmp(s->callback, peers->hubs[i]);
        if (!stays)
            subscription_end(s, END_UNSUBSCRIBED);
    }
    topic->n_holds--;
}

/* `after` is the seq of the set's last entry when its settings named the hubs.
 * A hub gets all later entries, also those from before this thread noticed the
 * settings. If `after` is not known (at the start), and for framework events,
 * the hub gets the entries from now on. */
static void
sync_topic(struct hub *hub, enum topic_kind kind, struct set *set,
           const struct peers *peers, uint64_t after)
{
    struct problem why = {""};
    struct topic *topic;
    uint64_t last;
    bool is_there;

    if (topic_of_set(hub, kind, set, &topic, &why)) {
        if (peers && peers->n_hubs > 0)
            diag(DIAG_ERROR, "hub", "the hubs of %s get no notifications: %s",
                 set->name, why.text);
        return;
    }
    end_unnamed(topic, peers);
    is_there = topic_head(topic, &last);
    if (after != PEERS_AFTER_UNKNOWN && kind == TOPIC_CHANGES)
        last = after;
    for (unsigned i = 0; is_there && peers && i < peers->n_hubs; i++) {
        struct hub_record record = {
            .callback = slice_of(peers->hubs[i]),
            .kind = SUBSCRIPTION_HUB,
            .terms = {.lease_us = INT64_MAX},
            .lease_end_us = INT64_MAX,
            .after = last,
        };

        if (!subscription_find(topic, SUBSCRIPTION_HUB, record.callback) &&
            subscription_confirm(topic, &record, &why))
            diag(DIAG_ERROR, "hub", "%s gets no notifications of %s: %s",
                 peers->hubs[i], set->name, why.text);
        terms_fini(&record.terms);
    }
    topic_release(topic);
}

void
external_sync(struct hub *hub)
{
    struct topic *topic;
    struct peers *peers;
    struct set *set;
    uint64_t after;

    /* Once, ends hubs' subscriptions of sets whose settings changed without the
     * hub noticing, before a crash. Sets that name hubs come by
     * registry_next_changed. */
    if (!hub->has_synced_hubs) {
        hub->has_synced_hubs = true;
        list_walk (topic, &hub->topics, node) {
            if (topic->kind == TOPIC_FOREIGN)
                continue;
            peers = registry_peers(topic->set);
            end_unnamed(topic, peers);
            peers_unref(peers);
            topic_release(topic);
        }
    }
    while ((set = registry_next_changed(hub->registry, &after))) {
        peers = registry_peers(set);
        sync_topic(hub, TOPIC_CHANGES, set, peers, after);
        sync_topic(hub, TOPIC_FRAMEWORK, set, peers, after);
        peers_unref(peers);
    }
}
