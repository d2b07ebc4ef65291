/*
 * mqtt_topics.h - the names of a bridge's topics, and of its MQTT Clients.
 *
 *     PREFIX/SET/notifications            Change Notifications
 *     PREFIX/SET/changes/created          one change a message; updated,
 *                                         deleted
 *     PREFIX/SET/position                 retained: position of the others
 *     PREFIX/status                       retained: "online", "offline"
 *     PREFIX/rejected                     reports of bad messages
 *
 * Pure. Any thread.
 */
#pragma once

#include "proto/resourcesync/vocab.h"

struct bridge_config;

/* A prefix of 255 bytes, a set's name, the longest of the words. */
#define TOPIC_MAX 400

struct topic_name {
    char text[TOPIC_MAX]; /* terminated */
};

/* TOPIC_NAME(prefix, set, "position"): joins words with slashes. */
#define TOPIC_NAME(...) topic_join((const char *const[]){__VA_ARGS__, NULL})

struct topic_name topic_join(const char *const *words);

#define TOPIC_STATUS   "status"
#define TOPIC_REJECTED "rejected"

/* True if a bridge with that prefix itself publishes position, status or
 * rejections on the topic. */
bool topic_is_own(const char *prefix, const char *topic);

/* The Client Identifier of a direction, "in" or "out": of the configuration, or
 * made from the bridge's identity in mqtt.db. */
struct client_id {
    char text[160]; /* terminated */
};

struct client_id client_id_of(const struct bridge_config *config,
                              const char *identity, const char *direction);
