/*
 * json_members.h - the members of the JSON objects, and what their values mean.
 *
 * json_read.c knows how objects and arrays lie in each other; this file knows
 * their names and puts each value where the model has it.
 */
#ifndef PROTO_JSON_MEMBERS_H
#define PROTO_JSON_MEMBERS_H

#include "proto/input_reader.h"
#include "proto/json_parse.h"

/* Which value of an object is meant. */
enum member_id {
    M_LOC,
    M_CHANGE,
    M_DATETIME,
    M_SOURCE_DATETIME,
    M_LASTMOD,
    M_HASH,
    M_LENGTH,
    M_TYPE,
    M_ENCODING,
    M_CHANGEFREQ,
    M_PRIORITY,
    M_TAGS,
    M_LINKS,
    M_ATTRIBUTES,
    M_SEQ,
    M_REL,
    M_HREF,
    M_PRI,
    M_MODIFIED,
    M_NS,
    M_NAME,
    M_VALUE,
    M_SET,
    M_EPOCH,
    M_AFTER,
    M_LAST,
    M_FROM,
    M_UNTIL,
    M_DIGEST,
    M_NOW,
    M_HEARTBEAT,
    M_NEXT,
    M_CHANGES
};

/* Values a member may have; a set, because priority is a string or a number. */
enum {
    IS_STRING = 1 << JSON_STRING,
    IS_NUMBER = 1 << JSON_NUMBER,
    IS_OBJECT = 1 << JSON_OBJECT,
    IS_ARRAY = 1 << JSON_ARRAY
};

struct member {
    const char *name;
    size_t size;
    enum member_id id;
    unsigned values;
};

/* The objects whose members are known, and the rest of the places where a value
 * may stand. */
enum place {
    PLACE_TOP,
    PLACE_OBJECT, /* not known yet: a message or a change */
    PLACE_CHANGES,
    PLACE_MESSAGE,
    PLACE_CHANGE,
    PLACE_HASH,
    PLACE_TAGS,
    PLACE_LINKS,
    PLACE_LINK,
    PLACE_ATTRIBUTES,
    PLACE_ATTRIBUTE
};

/* The members of `place` (none: an array, or a place for any member) and its
 * name in a problem. */
struct json_place {
    const struct member *members;
    size_t n;
    const char *name;
};

extern const struct json_place json_places[];

/* The objects that take the values. */
struct json_target {
    struct reader *reader;
    struct link *link;          /* the current one, or NULL */
    struct attribute attribute; /* likewise */
};

/* A string or number that `member` may have, in a message or below it. */
MUST_CHECK enum status json_message_value(struct json_target *target,
                                          const struct member *member,
                                          struct slice text,
                                          struct problem *why);
MUST_CHECK enum status json_change_value(struct json_target *target,
                                         const struct member *member,
                                         struct slice text,
                                         struct problem *why);

#endif
