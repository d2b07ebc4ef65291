#include "broker/bridge/topics.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/mqtt_topic.h"

static struct topic_name name(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

static struct topic_name
name(const char *format, ...)
{
    struct topic_name topic;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(topic.text, sizeof(topic.text), format, arguments);
    va_end(arguments);
    return topic;
}

struct topic_name
topic_notifications(const char *prefix, const char *set)
{
    return name("%s/%s/notifications", prefix, set);
}

struct topic_name
topic_change(const char *prefix, const char *set, enum change_kind kind)
{
    return name("%s/%s/changes/%s", prefix, set, change_kind_name(kind));
}

struct topic_name
topic_position(const char *prefix, const char *set)
{
    return name("%s/%s/position", prefix, set);
}

struct topic_name
topic_status(const char *prefix)
{
    return name("%s/status", prefix);
}

struct topic_name
topic_rejected(const char *prefix)
{
    return name("%s/rejected", prefix);
}

bool
topic_is_told(const char *prefix, const char *topic)
{
    return !strcmp(topic, topic_status(prefix).text) ||
           !strcmp(topic, topic_rejected(prefix).text) ||
           mqtt_filter_matches(slice_of(topic_position(prefix, "+").text),
                               slice_of(topic));
}
