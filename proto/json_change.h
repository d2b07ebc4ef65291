/*
 * json_change.h - the JSON form of changes and messages (design section 4).
 *
 *   {"loc":"...","change":"created","datetime":"...","lastmod":"...",
 *    "hash":{"sha-256":"..."},"length":3,"type":"text/csv","encoding":"gzip",
 *    "changefreq":"daily","priority":"0.5","tags":["..."],
 *    "links":[{"rel":"...","href":"...","pri":1,"modified":"...",...,
 *              "attributes":[...]}],
 *    "attributes":[{"ns":"...","name":"...","value":"..."}],"seq":7}
 *
 * and, with the source's own time where it differs, "sourceDatetime". A
 * message:
 *
 *   {"set":"...","epoch":"...","after":0,"last":2,"from":"...","until":"...",
 *    "digest":"sha-256:...","changes":[...]}
 *
 * a heartbeat with "now" and "heartbeat" (seconds) before "changes".
 */
#ifndef PROTO_JSON_CHANGE_H
#define PROTO_JSON_CHANGE_H

#include "proto/buf.h"
#include "proto/change.h"
#include "proto/log_range.h"

/* Appends a change as a JSON object. */
void json_change(struct buf *to, const struct change *change);

/* The same of a resource as it is: without what was of the event. */
void json_resource(struct buf *to, const struct change *change);

/* Appends a message up to and with "changes":[ ; the caller adds the changes
 * with commas between and json_message_end. `next` is the URL of the change
 * memory's next page, or empty. */
void json_message_begin(struct buf *to, const struct coverage *coverage,
                        struct slice next);

/* "]}\n" */
void json_message_end(struct buf *to);

#endif
