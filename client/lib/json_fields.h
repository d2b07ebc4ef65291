/*
 * json_fields.h - reads the wanted members of a small JSON object, such as a
 * receipt or a problem, or all values of a JSON text, each with its path.
 *
 *     {"lists":{"open":2},"links":[{"rel":"self"}]}
 *
 *     lists.open   2
 *     links.0.rel  self
 */
#pragma once

#include "client/tidings.h"
#include "proto/problem.h"

/* A wanted member: a string if `text` is set, else a number. */
struct json_fields_member {
    const char *name;
    char *text;  /* terminated; cut if it is too long */
    size_t size; /* of the memory there */
    uint64_t *number;
    bool is_there; /* set if the object has it, with the wanted type */
};

/* A text for an array of char, and a number for a uint64_t. */
#define JSON_TEXT(member, to)                              \
    {                                                      \
        .name = (member), .text = (to), .size = sizeof(to) \
    }
#define JSON_NUMBER(member, to)          \
    {                                    \
        .name = (member), .number = (to) \
    }

/* Fills the members in, in any order; skips others. STATUS_MALFORMED: the body
 * is not JSON. STATUS_INVALID: it is over a limit of json_parse.h.
 * STATUS_MEMORY. */
enum status json_fields_read(struct slice body,
                             struct json_fields_member *members,
                             size_t n_members, struct problem *why);

/* Calls `on_member` for each string (decoded), number, true, false and null, in
 * order. Cuts paths to 255 bytes. STATUS_MALFORMED: not JSON; some values may
 * have been handed over. STATUS_MEMORY. */
MUST_CHECK enum status json_members_read(struct slice text,
                                         td_member_fn *on_member, void *user);
