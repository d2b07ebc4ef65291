/*
 * bridged.h - links to a set's changes at MQTT brokers. The Capability List and
 * the set's JSON name them beside the channels of links.h, one link for each
 * bridge that publishes the set.
 *
 *     mqtts://mqtt.example.org/tidings/demo/notifications
 *
 * The path is the topic, percent-encoded level by level. If a bridge publishes
 * single changes only, the path is the filter of their topics:
 *
 *     mqtts://mqtt.example.org/tidings/demo/changes/+
 *
 * Any thread.
 */
#ifndef BROKER_SETS_BRIDGED_H
#define BROKER_SETS_BRIDGED_H

#include "broker/sets/registry.h"
#include "proto/slice.h"

#define BRIDGED_REL "urn:tidings:1:mqtt"

/* Longest link and its NUL: an address of 511 bytes, a prefix of 255 escaped
 * bytes, a set's name, slashes and words. */
#define BRIDGED_LINK_MAX 1400

struct bridged_link {
    char text[BRIDGED_LINK_MAX];
    size_t size;
    const char *type; /* media type of the messages */
};

struct bridged {
    struct bridged_link links[BRIDGES_MAX];
    size_t n;
};

/* In the order of the configuration. */
void bridged_of(const struct set *set, struct bridged *bridged);

#endif
