/*
 * answer.h - the members of a small JSON object: a receipt, a problem.
 */
#ifndef CLIENT_LIB_ANSWER_H
#define CLIENT_LIB_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/slice.h"

/* A member that is wanted: a string, where `text` is set, or a number. */
struct answer_member {
    const char *name;
    char *text;  /* terminated; what is too long is cut */
    size_t size; /* of the memory there */
    uint64_t *number;
    bool is_there; /* told: it was there, and was what is wanted */
};

/* Fills the members in, in any order; others are passed over. False: the body
 * is no JSON. */
bool answer_read(struct slice body, struct answer_member *members,
                 size_t n_members);

#endif
