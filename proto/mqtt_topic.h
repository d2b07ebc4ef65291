/*
 * mqtt_topic.h - Topic Names and Topic Filters of MQTT (MQTT 5, section 4.7;
 * the same in 3.1.1).
 *
 *     plant/+/changes     + is any one level: plant/7/changes
 *     library/#           # is all levels that follow, and none: library
 */
#pragma once

#include "proto/slice.h"

/* Could it be a string of MQTT (section 1.5.4): 1 to 65,535 bytes of UTF-8
 * without NUL and control characters? */
bool mqtt_text_is_valid(struct slice text);

/* Could it be a topic's name: 1 to 65,535 bytes of UTF-8 without NUL and
 * control characters, + and #? */
bool mqtt_topic_is_valid(struct slice name);

/* The same of a filter: + stands for a level as a whole, # for the last one. */
bool mqtt_filter_is_valid(struct slice filter);

/* Both valid. A wildcard at its beginning does not match names that begin with
 * $ (section 4.7.2). */
bool mqtt_filter_matches(struct slice filter, struct slice name);

/* The level of `name` that stands where the first + of `filter` does, which
 * matches it; empty: the filter has none. */
struct slice mqtt_filter_level(struct slice filter, struct slice name);
