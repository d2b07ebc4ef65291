/*
 * json_read.h - reads changes and messages in their JSON form (json_change.h).
 *
 * A post is one change, an array of them, or a message, of which only the
 * entries and the times around them are read; a message is what
 * json_message_begin wrote, or an array of changes. Members that nobody knows
 * and members given twice are refused: a source learns of its mistake.
 *
 * A post that may be a message of a broker (reader_take_message) is one of the
 * three, too; as an object it may have an "id", and members of a message that
 * nobody knows are a later broker's.
 */
#ifndef PROTO_JSON_READ_H
#define PROTO_JSON_READ_H

#include "proto/input_reader.h"

extern const struct parser json_parser;

/* For ndjson_read.c: a document of json_parser's `parser` is one entry, never a
 * message. */
void json_read_entries(void *parser);

#endif
