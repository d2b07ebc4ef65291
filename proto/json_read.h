/*
 * json_read.h - reads changes and messages in their JSON form (json_change.h).
 *
 * A post is one change or an array of them; a message is what
 * json_message_begin wrote, or an array of changes. Members that nobody knows
 * and members given twice are refused: a source learns of its mistake.
 */
#ifndef PROTO_JSON_READ_H
#define PROTO_JSON_READ_H

#include "proto/reader.h"

extern const struct parser json_parser;

#endif
