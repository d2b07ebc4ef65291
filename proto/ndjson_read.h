/*
 * ndjson_read.h - reads NDJSON: one JSON entry a line.
 *
 *   {"loc":"http://example.com/a","change":"created"}
 *   {"loc":"http://example.com/b","change":"updated","length":3}
 *
 * Each line is a JSON post of one entry (json_change.h). Skips lines of white
 * space; a last line needs no line feed; CR LF ends a line as well. For posts
 * only: messages never have this form.
 *
 * No line is kept: its bytes go to the JSON reader as they come.
 */
#ifndef PROTO_NDJSON_READ_H
#define PROTO_NDJSON_READ_H

#include "proto/input_reader.h"

extern const struct parser ndjson_parser;

#endif
