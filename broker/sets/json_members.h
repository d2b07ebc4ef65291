/*
 * json_members.h - reads a JSON object whose members are the rows of a table.
 *
 * Each member comes at most once. The reader refuses an unknown one, and
 * suggests the nearest name.
 */
#pragma once

#include "proto/json/json_parse.h"

struct json_members {
    const char *form;     /* "a relay is a JSON object, such as {...}" */
    const char *what;     /* a member is one: "setting of a relay" */
    const char *alias[2]; /* another name of a member, and that; or NULLs */
    const void *rows;     /* each begins with a const char *, the name */
    size_t n, row_size;

    /* Takes an event of the value of row `i`: one, or those of an array. */
    enum status (*take)(void *user, size_t i, enum json_event event,
                        struct slice text, struct problem *why);
};

/* Reads the object; sets a bit of *named for each of its members. */
MUST_CHECK enum status json_members_read(const struct json_members *members,
                                         struct slice text, void *user,
                                         unsigned *named, struct problem *why);
