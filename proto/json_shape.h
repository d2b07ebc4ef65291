/*
 * json_shape.h - the members of a JSON object that the broker writes or reads,
 * beside the code that does so. The descriptions of the interfaces are made of
 * them (broker/http/schemas.h), and tests compare each answer with them.
 *
 *     set string, last count (of the newest entry), next? uri, changes [Entry]
 *
 * A member is its name, a "?" where it may be missing, its type, and what it is
 * in parentheses; commas stand between members. A type is a word (string, uri,
 * time, flag, count, number, any, null), the name of another shape, 'text', a
 * list of a type [T], an object with any members of one {T}, or several of
 * these: a|b.
 */
#pragma once

#include "proto/c.h"

struct buf;

struct json_shape {
    const char *name;    /* of the schema: "Set" */
    const char *text;    /* what it is */
    const char *members; /* or "= TYPE": it is no object */
    bool is_open;        /* an object may have members that nobody knows */

    /* Instead of `members`: appends them, of another table, with a comma behind
     * each. */
    void (*write)(const struct json_shape *shape, struct buf *to);
};
