#include "broker/sets/configured.h"

#include <stdio.h>
#include <stdlib.h>

#include "broker/base/diag.h"
#include "broker/sets/peers.h"
#include "broker/sets/settings.h"

void
configured_init(struct configured *c, const struct config *config)
{
    c->config = config;
    c->changed = NULL;
    pthread_mutex_init(&c->mutex, NULL);
    upstreams_init(&c->upstreams);
}

void
configured_fini(struct configured *c)
{
    upstreams_fini(&c->upstreams);
    pthread_mutex_destroy(&c->mutex);
}

/* Settings */

/* Switches the upstream topic with the settings, without a moment in which a
 * topic of both leads to no set. */
void
configured_swap(struct set *set, struct settings *settings)
{
    struct configured *c = registry_configured(set->registry);
    struct peers *peers = settings ? settings->peers : NULL, *gone;
    struct settings *old;
    struct head head = {.last = 0};

    log_head(set->log, &head);
    if (peers && peers->claim)
        upstream_settle(peers->claim, set);
    pthread_mutex_lock(&c->mutex);
    old = set->settings;
    gone = old ? old->peers : NULL;
    set->settings = settings;
    if (peers || gone) {
        set->peers_after = head.last;
        if (!set->is_changed) {
            set->is_changed = true;
            set->next_changed = c->changed;
            c->changed = set;
        }
    }
    pthread_mutex_unlock(&c->mutex);
    if (gone && gone->claim && !(peers && peers->claim == gone->claim))
        upstream_settle(gone->claim, NULL);
    settings_free(old);
}

void
registry_set_settings(struct set *set, struct settings *settings)
{
    atomic_store_explicit(&set->rotate_age_us, settings->rotate_age_us,
                          memory_order_relaxed);
    atomic_store_explicit(&set->retain_lists, settings->retain_lists,
                          memory_order_relaxed);
    atomic_store_explicit(&set->retain_age_us, settings->retain_age_us,
                          memory_order_relaxed);
    atomic_store_explicit(&set->resource_list_every_us,
                          settings->resource_list_every_us,
                          memory_order_relaxed);
    atomic_store_explicit(&set->resource_dump_every_us,
                          settings->resource_dump_every_us,
                          memory_order_relaxed);
    atomic_store_explicit(&set->content, settings->content,
                          memory_order_relaxed);
    configured_swap(set, settings);
}

void
registry_settings(const struct set *set, struct settings *settings)
{
    struct configured *c = registry_configured(set->registry);

    pthread_mutex_lock(&c->mutex);
    if (set->settings)
        *settings = *set->settings;
    else
        settings_start(settings, c->config);
    settings->peers = NULL;
    pthread_mutex_unlock(&c->mutex);
}

struct link_text
registry_described_by(const struct set *set)
{
    struct configured *c = registry_configured(set->registry);
    struct link_text link = {.size = 0};

    pthread_mutex_lock(&c->mutex);
    if (set->settings)
        link.size = (size_t)snprintf(link.text, sizeof(link.text), "%s",
                                     set->settings->description);
    pthread_mutex_unlock(&c->mutex);
    return link.size > 0 ? link
                         : link_to(registry_public_url(set->registry), LINK_SET,
                                   set->name, NULL, 0);
}

/* Peers */

struct peers *
registry_peers(const struct set *set)
{
    struct configured *c = registry_configured(set->registry);
    struct peers *peers;

    pthread_mutex_lock(&c->mutex);
    peers = peers_ref(set->settings ? set->settings->peers : NULL);
    pthread_mutex_unlock(&c->mutex);
    return peers;
}

struct set *
registry_next_changed(struct registry *registry, uint64_t *after)
{
    struct configured *c = registry_configured(registry);
    struct set *set;

    pthread_mutex_lock(&c->mutex);
    set = c->changed;
    if (set) {
        c->changed = set->next_changed;
        set->next_changed = NULL;
        set->is_changed = false;
        *after = set->peers_after;
    }
    pthread_mutex_unlock(&c->mutex);
    return set;
}

/* Upstream topics */

enum status
registry_claim(struct registry *registry, struct slice url, const char *owner,
               struct upstream **claim, struct problem *why)
{
    return upstreams_claim(&registry_configured(registry)->upstreams, url,
                           owner, claim, why);
}

enum status
configured_claim(struct registry *registry, const char *name,
                 struct peers *peers, struct problem *why)
{
    char owner[UPSTREAM_OWNER_MAX + 1];
    struct problem inner = {""};
    enum status rc;

    if (!peers || !peers->upstream)
        return STATUS_OK;
    snprintf(owner, sizeof(owner), "set %s", name);
    rc = registry_claim(registry, slice_of(peers->upstream), owner,
                        &peers->claim, &inner);
    return rc ? problem(why, rc, "upstreamTopic: %s", inner.text) : rc;
}

struct set *
registry_upstream(struct registry *registry, struct slice url)
{
    return upstreams_find(&registry_configured(registry)->upstreams, url);
}

enum status
configured_restore(struct set *set, struct slice text,
                   struct list_limits *limits)
{
    struct settings *settings = calloc(1, sizeof(*settings));
    struct configured *c = registry_configured(set->registry);
    struct problem why = {""};

    if (!settings)
        return STATUS_MEMORY;
    if (settings_read(settings, c->config, text, &why)) {
        diag(DIAG_WARNING, "sets", "the settings of %s are not read: %s",
             set->name, why.text);
        settings_free(settings);
        return STATUS_OK;
    }
    if (configured_claim(set->registry, set->name, settings->peers, &why))
        diag(DIAG_WARNING, "sets", "%s takes nothing in: %s", set->name,
             why.text);
    *limits = settings_limits(settings);
    registry_set_settings(set, settings);
    set->peers_after = PEERS_AFTER_UNKNOWN; /* no other thread yet */
    return STATUS_OK;
}
