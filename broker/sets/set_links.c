#include "broker/sets/set_links.h"

void
set_links_hubs(const struct set *set, struct hubs *hubs)
{
    struct peers *peers = registry_peers(set);

    hubs->urls[0] = registry_link(set->registry, LINK_HUB);
    hubs->n = 1;
    for (unsigned i = 0; peers && i < peers->n_hubs; i++)
        hubs->urls[hubs->n++] = link_format("%s", peers->hubs[i]);
    peers_unref(peers);
}

/* Generations */

struct link_text
set_link_kind(const struct set *set, enum generation_kind kind, const char *end)
{
    return link_format("%s/sets/%s/%s%s", set->registry->options.public_url,
                       set->name, links_kinds[kind].folder, end);
}

struct link_text
set_link_generation(const struct set *set, enum generation_kind kind,
                    uint64_t number)
{
    char end[32];

    snprintf(end, sizeof(end), "/%012" PRIu64 ".xml", number);
    return set_link_kind(set, kind, end);
}

struct link_text
set_link_part(const struct set *set, enum generation_kind kind, uint64_t number,
              uint64_t part, const char *end)
{
    char path[80];

    snprintf(path, sizeof(path), "/%012" PRIu64 "/%012" PRIu64 "%s", number,
             part, end);
    return set_link_kind(set, kind, path);
}

struct link_text
set_link_range(const struct set *set, const char *folder, uint64_t first,
               uint64_t last)
{
    return link_format(
        "%s/sets/%s/%s-archive/%012" PRIu64 "-%012" PRIu64 ".xml",
        set->registry->options.public_url, set->name, folder, first, last);
}

/* MQTT */

/* Appends the topic level by level, with a slash before each. */
static void
add_levels(struct mqtt_link *link, const char *levels)
{
    struct slice rest = slice_of(levels);

    /* A prefix has no slash at its end, but may begin with one, and may have
     * empty levels. */
    while (rest.size > 0) {
        struct slice level = slice_take(&rest, '/');

        link->text[link->size++] = '/';
        link->size += uri_encode(level, link->text + link->size);
    }
}

static bool
publishes(const struct bridge_config *bridge, const struct set *set)
{
    struct tokens *tokens = set->registry->tokens;
    struct principal *principal = NULL;
    bool sees;

    if (!bridge_publishes(bridge, set->name))
        return false;
    if (!bridge->as[0])
        return !set_is_private(set);
    if (tokens)
        principal = tokens_owner(tokens, slice_of(bridge->as), clock_now_us());
    sees = principal &&
           principal_sees(principal, slice_of(set->name), set_is_private(set));
    principal_unref(principal);
    return sees;
}

void
set_links_mqtt(const struct set *set, struct mqtt_links *mqtt)
{
    const struct bridging *bridging = registry_bridging(set->registry);

    mqtt->n = 0;
    for (size_t i = 0; i < bridging->n; i++) {
        const struct bridge_config *bridge = &bridging->all[i];
        const char *url =
            bridge->public_url[0] ? bridge->public_url : bridge->url;
        struct mqtt_link *link = &mqtt->links[mqtt->n];

        if (!strcmp(url, "none") || !publishes(bridge, set))
            continue;
        mqtt->n++;
        link->size = strlen(url);
        memcpy(link->text, url, link->size);
        add_levels(link, bridge->prefix);
        add_levels(link, set->name);
        link->size += (size_t)snprintf(
            link->text + link->size, sizeof(link->text) - link->size, "%s",
            bridge->publish & BRIDGE_NOTIFICATIONS ? "/notifications"
                                                   : "/changes/+");
        link->type =
            bridge->form == BRIDGE_XML ? "application/xml" : "application/json";
    }
}
