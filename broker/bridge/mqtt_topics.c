#include "broker/bridge/mqtt_topics.h"

#include "broker/config/bridge_config.h"
#include "proto/buf.h"
#include "proto/mqtt_topic.h"

/* Without printf, because every message needs a topic. */
struct topic_name
topic_join(const char *const *words)
{
    struct topic_name topic = {""};
    struct buf to;

    buf_init_fixed(&to, topic.text, sizeof(topic.text) - 1);
    for (size_t i = 0; words[i]; i++) {
        if (i > 0)
            BUF_ADD(&to, "/");
        buf_add_text(&to, words[i]);
    }
    return topic;
}

bool
topic_is_own(const char *prefix, const char *topic)
{
    return !strcmp(topic, TOPIC_NAME(prefix, TOPIC_STATUS).text) ||
           !strcmp(topic, TOPIC_NAME(prefix, TOPIC_REJECTED).text) ||
           mqtt_filter_matches(
               slice_of(TOPIC_NAME(prefix, "+", "position").text),
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
