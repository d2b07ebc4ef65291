#include "proto/resourcesync/json.h"

#define KIND "change 'created'|'updated'|'deleted'"

/* Of a resource and of what a link leads to */
#define BYTES(hash)                                                    \
    "hash? " hash " (by algorithm), length? count (bytes), "           \
    "type? string (media type), encoding? string (Content-Encoding), " \
    "attributes? [Attribute]"

/* Of the event */
#define WORDS                                                                \
    "title? string, summary? string, author? string, data? any (what the "   \
    "source says beside it), traceparent? string (W3C Trace Context of the " \
    "post)"

const struct json_shape attribute_shape = {
    "Attribute", "An XML attribute of a namespace of others",
    "ns string (the namespace), name string, value string"};

const struct json_shape link_shape = {
    "Link", "A related resource (rs:ln)",
    "rel string, href string, pri? count (1 is the best of several), "
    "modified? string (W3C Datetime), " BYTES("{string}")};

/* Of a resource; a source may spell some of it in another way. */
#define STATE(hash, priority)                                                \
    "lastmod? string (of the resource, as W3C Datetime), " BYTES(            \
        hash) ", "                                                           \
              "changefreq? string, priority? " priority ", tags? [string], " \
              "links? [Link]"
#define POSTED STATE("{string}|string", "string|number")
#define LOC    "loc string (the URI of the resource), "

/* With what the reader also takes. */
const struct json_shape change_shape = {
    "Change", "A change as a source posts it",
    LOC KIND ", datetime? string (when it happened, as W3C Datetime), " POSTED
             ", " WORDS ", sourceDatetime? string (of an entry posted again), "
             "seq? count (of an entry posted again)"};

const struct json_shape resource_shape = {
    "Resource", "A resource as a source puts it",
    LOC "datetime? string (a lastmod, where there is none), " POSTED};

const struct json_shape resources_shape = {
    "Resources", "All resources of a source", "= [Resource]"};

const struct json_shape entry_shape = {
    "Entry", "A change as the log has it",
    LOC KIND
    ", datetime time (when it happened), "
    "sourceDatetime? time (what the source said, if that differs), " STATE(
        "{string}", "string") ", " WORDS ", seq count (its number in the set)"};

const struct json_shape message_shape = {
    "Message",
    "The entries of a set behind `after` up to `last`; a heartbeat has none",
    "set string, epoch string (the identity of the log), after count, "
    "last count, from? time (of the entry `after`), "
    "until? time (of the entry `last`), digest? string (of the log up to "
    "`last`), now? time (of a heartbeat), heartbeat? number (seconds between "
    "two heartbeats), next? uri (the next page), changes [Entry]"};

const struct json_shape post_shape = {
    "Post", "One change, several, or a message that is posted again",
    "= Change|[Change]|PostedMessage"};

const struct json_shape posted_message_shape = {
    "PostedMessage", "Of a message that is posted again the changes count",
    "changes [Change]", .is_open = true};

const struct json_shape problem_shape = {
    "Problem", "What was refused, and why (RFC 9457)",
    "type 'about:blank', title string (the reason of the status), "
    "status count, detail? string (a sentence), "
    "request? string (its name in the access log), entry? count (of a post), "
    "line? count (of a post), right? string (the right that is missing), "
    "reasons? [string] (why the broker is not ready), "
    "missing? count (resources without content), "
    "discards? {count} (what would be deleted)",
    .is_open = true};
