/*
 * set_links.h - the links of a set that its settings and the bridges decide on:
 * hubs, and channels at MQTT brokers; and those to its lists and dumps. Its
 * documents and its JSON have them beside the channels of links.h.
 *
 *     <https://example.org/hub>; rel="hub"
 *     mqtts://mqtt.example.org/tidings/demo/notifications
 *
 * Any thread.
 */
#pragma once

#include "broker/sets/links.h"
#include "broker/sets/peers.h"
#include "broker/sets/registry.h"

#define HUBS_MAX (1 + PEERS_HUBS_MAX)

/* The hubs that deliver the notifications of a set, in the order of their links
 * (R-283, R-284, W-001): the broker's own first, then those of the set's
 * settings. */
struct hubs {
    struct link_text urls[HUBS_MAX];
    size_t n;
};

void set_links_hubs(const struct set *set, struct hubs *hubs);

/* The fixed address of a kind of generations, the current one or its index; the
 * archive of the kind, or its index. */
#define LINK_CURRENT ".xml"
#define LINK_ARCHIVE "-archive.xml"
struct link_text set_link_kind(const struct set *set, enum generation_kind kind,
                               const char *end);

/* One generation: the list or dump, or its index. */
struct link_text set_link_generation(const struct set *set,
                                     enum generation_kind kind,
                                     uint64_t number);

/* Part `part` of a generation; `end` gives its type. */
#define LINK_PART     ".xml"
#define LINK_PACKAGE  ".zip"
#define LINK_MANIFEST "-manifest.xml"
struct link_text set_link_part(const struct set *set, enum generation_kind kind,
                               uint64_t number, uint64_t part, const char *end);

/* The document of an archive with the kept ones of those numbered `first` to
 * `last`: of the kind of generations with that folder (links_kinds), or of
 * closed Change Lists. */
#define LINK_LISTS "changelist"
struct link_text set_link_range(const struct set *set, const char *folder,
                                uint64_t first, uint64_t last);

#define MQTT_LINK_REL "urn:tidings:1:mqtt"

/* Longest link and its NUL: an address of 511 bytes, a prefix of 255 escaped
 * bytes, a set's name, slashes and words. */
#define MQTT_LINK_MAX 1400

struct mqtt_link {
    char text[MQTT_LINK_MAX];
    size_t size;
    const char *type; /* media type of the messages */
};

struct mqtt_links {
    struct mqtt_link links[BRIDGES_MAX];
    size_t n;
};

/* One link for each bridge that publishes the set now, by its rights
 * (bridge_config.as), in the order of the configuration. The path is
 * the MQTT topic, percent-encoded level by level. If a bridge publishes single
 * changes only, the path is the filter of their topics,
 * ".../tidings/demo/changes/+". */
void set_links_mqtt(const struct set *set, struct mqtt_links *mqtt);
