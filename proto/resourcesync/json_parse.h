/*
 * json_parse.h - yajl made safe: hostile bytes in, values out.
 *
 * It refuses what yajl lets through: strings with characters that XML cannot
 * carry, UTF-8 that is longer than it has to be, lone surrogates, which yajl
 * silently replaces, and white space that JSON does not have. Nesting and the
 * size of a token are bounded. It counts lines, which yajl does not, and skips
 * a byte order mark.
 *
 *     json_parse_new -> json_parse_feed ... json_parse_end -> json_parse_reset
 */
#ifndef PROTO_RESOURCESYNC_JSON_PARSE_H
#define PROTO_RESOURCESYNC_JSON_PARSE_H

#include <stdint.h>

#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

#define JSON_DEPTH_MAX 16

enum json_event {
    JSON_OBJECT,
    JSON_OBJECT_END,
    JSON_ARRAY,
    JSON_ARRAY_END,
    JSON_KEY,    /* `text` is the member's name */
    JSON_STRING, /* its content, valid UTF-8 */
    JSON_NUMBER, /* as it was written */
    JSON_OTHER   /* true, false, null */
};

/* A status other than 0 ends the reading; `text` is lent. */
typedef enum status json_event_fn(void *user, enum json_event event,
                                  struct slice text, struct problem *why);

struct json_parse;

struct json_parse *json_parse_new(json_event_fn *on_event, void *user);
void json_parse_free(struct json_parse *json); /* NULL is allowed */
MUST_CHECK enum status json_parse_reset(struct json_parse *json);

MUST_CHECK enum status json_parse_feed(struct json_parse *json,
                                       struct slice bytes, struct problem *why);

/* Notes that somebody else read the next bytes, in which values end: they have
 * so many line feeds. */
void json_parse_pass(struct json_parse *json, uint64_t n_lines);

/* STATUS_MALFORMED unless exactly one value was there. */
MUST_CHECK enum status json_parse_end(struct json_parse *json,
                                      struct problem *why);

/* The line it stands in, within an event, too; or stood in when it failed. */
uint64_t json_parse_line(const struct json_parse *json);

/* Parses a whole text, which has exactly one value. `on_event` NULL: only
 * checks it. After a failure `why` has its line. STATUS_MEMORY. */
MUST_CHECK enum status json_parse_text(struct slice text,
                                       json_event_fn *on_event, void *user,
                                       struct problem *why);

/* Bytes since the last value. */
size_t json_parse_held(const struct json_parse *json);

#endif
