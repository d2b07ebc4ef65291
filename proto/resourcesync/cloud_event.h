/*
 * cloud_event.h - changes as CloudEvents 1.0, in their JSON format.
 *
 *   {"specversion":"1.0","id":"9f86d081884c7d65-4711",
 *    "source":"https://host/sets/demo",
 *    "type":"org.resourcesync.change.updated","subject":"http://example.org/a",
 *    "time":"2026-11-20T10:00:00.000000Z","datacontenttype":"application/json",
 *    "data":{"loc":"http://example.org/a","change":"updated",...,"seq":4711}}
 *
 * `data` is the change as in a JSON message. A change that came as a CloudEvent
 * has that event's attributes as foreign attributes (CLOUD_EVENT_NS), and goes
 * out as the same event: its type and subject, its own time, and its id and
 * source, which together say to receivers whether they have it already (only
 * with both of these; else both are ours), and its extensions.
 */
#pragma once

#include "proto/resourcesync/change.h"

/* The namespace of CloudEvents' XML format. */
#define CLOUD_EVENT_NS "http://cloudevents.io/xmlformat/V1"

/* True if an event may have an attribute of that name, but for its length: a-z
 * and 0-9. */
bool cloud_event_is_name(struct slice name);

/* Where the changes are from: their set. */
struct cloud_event_source {
    struct slice url;
    const char *epoch;
};

/* Appends a change of a log as an event. */
void cloud_event_write(struct buf *to, const struct change *change,
                       const struct cloud_event_source *source);

/* Appends an event without a change, of the type org.resourcesync.heartbeat. */
void cloud_event_write_heartbeat(struct buf *to,
                                 const struct cloud_event_source *source,
                                 uint64_t after, int64_t now_us);
