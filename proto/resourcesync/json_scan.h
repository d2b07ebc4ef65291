/*
 * json_scan.h - reads the usual form of a change in JSON without yajl.
 *
 *   {"loc":"http://example.com/a","change":"updated","length":3,
 *    "hash":{"sha-256":"..."},"links":[{"rel":"up","href":"..."}]}
 *
 * One object, whose members the scanner knows, each once; strings without
 * escapes; numbers without sign, fraction and exponent; values that
 * entry_builder.h accepts. The scanner takes such an object whole, and leaves
 * any other one, unread, to json_read.c and yajl, which say what is wrong with
 * it. White space may stand wherever JSON allows it.
 *
 * Measured: tests/bench/README.md, "Reading a post".
 */
#ifndef PROTO_RESOURCESYNC_JSON_SCAN_H
#define PROTO_RESOURCESYNC_JSON_SCAN_H

#include <stdint.h>

#include "proto/resourcesync/entry_builder.h"
#include "proto/resourcesync/scanning.h"

struct json_scan {
    struct scan_held held;      /* the beginning of an object */
    char lists[SCAN_TOKEN_MAX]; /* hash and tags of the change, as in XML */
};

/* A place in the input, which moves. */
struct json_reading {
    const char *at;
    const char *end;
    uint64_t n_lines; /* line feeds that were passed */
};

/* Skips white space. */
void json_scan_spaces(struct json_reading *r);

/* Reads a change, from its "{" on, into `entry`, without the checks of
 * change_check. The entry lends from the input and from `scan`. Not
 * TOKEN_TAKEN: `r` and `entry` are undefined. */
enum token json_scan_change(struct json_scan *scan, struct json_reading *r,
                            struct entry *entry);

#endif
