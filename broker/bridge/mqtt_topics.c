#include "broker/bridge/mqtt_topics.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "broker/config/bridge_config.h"
#include "proto/mqtt_topic.h"

/* Joins the pieces with a slash before each but the first. Without printf,
 * because every message needs a topic. */
static struct topic_name
join_topic(const char *const *pieces, size_t n)
{
    struct topic_name topic;
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        size_t size = strlen(pieces[i]), room = sizeof(topic.text) - 1 - at;

        if (i > 0 && room > 0) {
            topic.text[at++] = '/';
            room--;
        }
        if (size > room)
            size = room;
        memcpy(topic.text + at, pieces[i], size);
        at += size;
    }
    topic.text[at] = '\0';
    return topic;
}

#define JOIN(...)                                  \
    join_topic((const char *const[]){__VA_ARGS__}, \
               sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *))

struct topic_name
topic_notifications(const char *prefix, const char *set)
{
    return JOIN(prefix, set, "notifications");
}

struct topic_name
topic_change(const char *prefix, const char *set, enum change_kind kind)
{
    return JOIN(prefix, set, "changes", change_kind_name(kind));
}

struct topic_name
topic_position(const char *prefix, const char *set)
{
    return JOIN(prefix, set, "position");
}

struct topic_name
topic_status(const char *prefix)
{
    return JOIN(prefix, "status");
}

struct topic_name
topic_rejected(const char *prefix)
{
    return JOIN(prefix, "rejected");
}

bool
topic_is_own(const char *prefix, const char *topic)
{
    return !strcmp(topic, topic_status(prefix).text) ||
           !strcmp(topic, topic_rejected(prefix).text) ||
           mqtt_filter_matches(slice_of(topic_position(prefix, "+").text),
                               slice_of(topic));
}

struct client_id
client_id_of(const struct bridge_config *config, const char *identity,
             const char *direction)
{
    struct client_id id;
    bool is_given = config->client_id[0];

    snprintf(id.text, sizeof(id.text), "%s%s-%s", is_given ? "" : "tidings-",
             is_given ? config->client_id : identity, direction);
    return id;
}
