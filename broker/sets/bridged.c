#include "broker/sets/bridged.h"

#include <stdio.h>
#include <string.h>

#include "proto/uri.h"

/* Appends the topic level by level, with a slash before each. */
static void
add_levels(struct bridged_link *link, const char *levels)
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

static void
write_link(struct bridged_link *link, const struct bridge_config *bridge,
           const char *set)
{
    const char *url = bridge->public_url[0] ? bridge->public_url : bridge->url;
    bool has_notifications = bridge->publish & BRIDGE_NOTIFICATIONS;

    link->size = strlen(url);
    memcpy(link->text, url, link->size);
    add_levels(link, bridge->prefix);
    add_levels(link, set);
    link->size += (size_t)snprintf(
        link->text + link->size, sizeof(link->text) - link->size, "%s",
        has_notifications ? "/notifications" : "/changes/+");
    link->type =
        bridge->form == BRIDGE_XML ? "application/xml" : "application/json";
}

void
bridged_of(const struct set *set, struct bridged *bridged)
{
    const struct bridging *bridging = registry_bridging(set->registry);

    bridged->n = 0;
    for (size_t i = 0; i < bridging->n; i++) {
        const struct bridge_config *bridge = &bridging->all[i];

        if (bridge_tells(bridge, set->name) &&
            strcmp(bridge->public_url, "none"))
            write_link(&bridged->links[bridged->n++], bridge, set->name);
    }
}
