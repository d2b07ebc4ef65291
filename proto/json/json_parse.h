/*
 * json_parse.h - a strict parser of JSON: hostile bytes in, values out.
 *
 *     json_parse_new -> json_parse_feed ... json_parse_end -> json_parse_reset
 *
 * The bytes of a text come in any pieces. The parser reports each token as an
 * event, with its text: a slice of the piece, where the token is whole in it
 * and has no escapes. It keeps nothing else: of a token that a piece cuts, the
 * beginning; of nesting, one bit a level.
 *
 * It accepts what RFC 8259 allows and XML can carry: valid UTF-8, surrogates in
 * pairs only, no control characters in a string but tab, LF and CR, and no
 * U+FFFE and U+FFFF. Nesting, and the size of a token and of white space, are
 * bounded. It skips a byte order mark.
 *
 * Own code, because Debian has no maintained library that reads a text in
 * pieces and reports events: yajl has had no release since 2014, accepts
 * overlong UTF-8 and replaces lone surrogates. A value costs a third of what
 * it cost there (tests/bench/README.md, "Reading a post").
 */
#pragma once

#include "proto/problem.h"

#define JSON_DEPTH_MAX 16

/* Most bytes of one token, and of white space between two. */
#define JSON_TOKEN_MAX (512 * 1024)

/* What a parser keeps of its buffers from one text to the next. */
#define JSON_KEPT_BYTES ((size_t)16 * 1024)

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

/* `is_lines`: it reads NDJSON; each line is a text of its own, which is an
 * object, or empty. */
struct json_parse *json_parse_new(bool is_lines, json_event_fn *on_event,
                                  void *user);
void json_parse_free(struct json_parse *json); /* NULL is allowed */

/* Ready for another text; this costs nothing. */
void json_parse_reset(struct json_parse *json);

/* Reads `*bytes`, all of it; after a failure, up to the fault.
 * STATUS_MALFORMED: not JSON. STATUS_INVALID: JSON that XML cannot carry, or
 * beyond a limit. STATUS_MEMORY. Or the status of on_event. */
MUST_CHECK enum status json_parse_feed(struct json_parse *json,
                                       struct slice *bytes,
                                       struct problem *why);

/* After a failure in a line: skips the rest of that line, of which `*bytes`
 * come next. False: its end has not come. True: ready for the next line. */
bool json_parse_skip_line(struct json_parse *json, struct slice *bytes);

/* STATUS_MALFORMED unless exactly one value was there, or the last line is
 * whole. */
MUST_CHECK enum status json_parse_end(struct json_parse *json,
                                      struct problem *why);

/* The line it stands in, within an event, too; or stood in when it failed. */
uint64_t json_parse_line(const struct json_parse *json);

/* How many objects and arrays are open: within an event, after it. */
unsigned json_parse_depth(const struct json_parse *json);

/* Parses a whole text, which has exactly one value. `on_event` NULL: only
 * checks it. After a failure `why` has its line. STATUS_MEMORY. */
MUST_CHECK enum status json_parse_text(struct slice text,
                                       json_event_fn *on_event, void *user,
                                       struct problem *why);
