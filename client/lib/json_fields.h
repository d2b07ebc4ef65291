/*
 * json_fields.h - reads the members of a small JSON object: a receipt, a
 * problem.
 */
#ifndef CLIENT_LIB_JSON_FIELDS_H
#define CLIENT_LIB_JSON_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/slice.h"
#include "proto/status.h"

/* A wanted member: a string if `text` is set, else a number. */
struct json_fields_member {
    const char *name;
    char *text;  /* terminated; cut if it is too long */
    size_t size; /* of the memory there */
    uint64_t *number;
    bool is_there; /* set if the object has it, with the wanted type */
};

/* Fills the members in, in any order; skips others. STATUS_MALFORMED: the body
 * is not JSON. STATUS_MEMORY. */
enum status json_fields_read(struct slice body,
                             struct json_fields_member *members,
                             size_t n_members);

#endif
