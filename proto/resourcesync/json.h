/*
 * json.h - writes JSON: strings, problems, changes and messages.
 */
#pragma once

#include "proto/json_shape.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/position.h"

/* Appends `text` (valid UTF-8) as a JSON string, quotes included. */
void json_text(struct buf *to, struct slice text);

/* Writes a byte of a string's text, as up to JSON_CHAR_MAX bytes; returns where
 * they end. */
#define JSON_CHAR_MAX 6
char *json_put_char(char *to, char c);

/* Append a member to an object that has its brace: `name`, which needs no
 * escapes, and the value; a time in its shortest form, unless it is 0, or later
 * than any date, and a datetime, as of an event, with six decimals. */
void json_text_member(struct buf *to, const char *name, struct slice text);
void json_number_member(struct buf *to, const char *name, uint64_t number);
void json_flag_member(struct buf *to, const char *name, bool value);
void json_time_member(struct buf *to, const char *name, int64_t us);
void json_datetime_member(struct buf *to, const char *name, int64_t us);
void json_position_member(struct buf *to, const char *name, const char *epoch,
                          uint64_t seq);

/* Appends what stands before the next element of an array, or the next member
 * of an object: `separator`, unless it is the first. */
static inline void
json_separate(struct buf *to, const char *separator)
{
    if (to->size > 0 && !strchr("[{", to->data[to->size - 1]))
        buf_add_text(to, separator);
}

/*
 * Problems, as application/problem+json (RFC 9457):
 *
 *   {"type":"about:blank","title":"Unprocessable Content","status":422,
 *    "detail":"no loc","entry":3,"line":17}
 */

/* Every problem begins so. */
#define JSON_PROBLEM_START "{\"type\":\"about:blank\""

/* Appends one without its end, so that members may be added: the caller then
 * adds a brace. `title` is the reason of the HTTP status; `why` may be NULL. */
void json_problem_begin(struct buf *to, unsigned status, const char *title,
                        const struct problem *why);

/*
 * The JSON form of changes and messages (design section 4).
 *
 *   {"loc":"...","change":"created","datetime":"...","lastmod":"...",
 *    "hash":{"sha-256":"..."},"length":3,"type":"text/csv","encoding":"gzip",
 *    "changefreq":"daily","priority":"0.5","tags":["..."],
 *    "links":[{"rel":"...","href":"...","pri":1,"modified":"...",...,
 *              "attributes":[...]}],
 *    "attributes":[{"ns":"...","name":"...","value":"..."}],
 *    "title":"...","summary":"...","author":"...","data":{"price":3},
 *    "traceparent":"00-...-01","seq":7}
 *
 * and, with the source's own time where it differs, "sourceDatetime". A
 * message:
 *
 *   {"set":"...","epoch":"...","after":0,"last":2,"from":"...","until":"...",
 *    "digest":"sha-256:...","changes":[...]}
 *
 * a heartbeat with "now" and "heartbeat" (seconds) before "changes".
 */

/* Appends a change as a JSON object. */
void json_change(struct buf *to, const struct change *change);

/*
 * Appends what json_change would make of a stamped fragment, in one pass.
 * False, and appends nothing, if the fragment is unusual (a foreign attribute,
 * a time with decimals from the source) or damaged: fragment_read knows which.
 * A failed `to` also remembers its failure. Any thread.
 *
 * Every entry becomes JSON once, and old entries again whenever their batch is
 * read again. fragment_read and json_change take twice as long: they parse
 * times and numbers that both forms write alike (measured for an entry of 322
 * bytes: 0.22 us, and 0.10 us here).
 */
bool json_fragment(struct buf *to, struct slice fragment);

/* As json_change, of a resource as it is: without what was of the event. */
void json_resource(struct buf *to, const struct change *change);

/* Appends a message up to and with "changes":[ ; the caller adds the changes
 * with commas between, and "]}\n". `next` is the URL of the change
 * memory's next page, or empty. */
void json_message_begin(struct buf *to, const struct coverage *coverage,
                        struct slice next);

/* Their members: a change as a source posts it, an entry as the broker writes
 * it, and what these have. */
extern const struct json_shape change_shape, entry_shape, link_shape,
    attribute_shape, message_shape, posted_message_shape, post_shape,
    resource_shape, resources_shape, problem_shape;
