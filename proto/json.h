/*
 * json.h - writing JSON.
 */
#ifndef PROTO_JSON_H
#define PROTO_JSON_H

#include "proto/buf.h"
#include "proto/slice.h"

/* Appends `text` (valid UTF-8) as a JSON string, quotes included. */
void json_string(struct buf *to, struct slice text);

#endif
