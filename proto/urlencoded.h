/*
 * urlencoded.h - application/x-www-form-urlencoded, both ways.
 *
 *     hub.mode=subscribe&hub.topic=http%3A%2F%2Fa.example%2F%3Fq%3D1
 *
 * Decodes exactly once (W-026): "+" is a space, "%2B" a plus. Encodes for a
 * body and for a query alike: escapes all but the unreserved characters of RFC
 * 3986, the space, too.
 */
#pragma once

#include "proto/buf.h"
#include "proto/problem.h"

/* Fields of one form (W-165). */
#define URLENCODED_FIELDS_MAX 64

struct urlencoded_field {
    struct slice name, value; /* decoded */
};

struct urlencoded_data {
    char *bytes; /* the form's own: names and values lend from it */
    size_t n_bytes;
    size_t n; /* fields */
    struct urlencoded_field fields[URLENCODED_FIELDS_MAX];
};

/* Decodes a body. STATUS_MALFORMED: a bad escape, a NUL, no UTF-8 (names the
 * field), or too many fields; STATUS_MEMORY. An empty body is a form without
 * fields; nothing between two "&" is no field, a field without "=" is empty.
 * Always urlencoded_fini, which wipes what was in it: it may have been a
 * secret. */
MUST_CHECK enum status urlencoded_read(struct urlencoded_data *form,
                                       struct slice body, struct problem *why);
void urlencoded_fini(struct urlencoded_data *form);

/* The first field of that name. false: there is none, and *value is empty. */
bool urlencoded_get(const struct urlencoded_data *form, const char *name,
                    struct slice *value);

/* Appends name=value, encoded, and "&" before it if the last byte of `to` is
 * neither "?" nor "&" and there is one. */
void urlencoded_add(struct buf *to, const char *name, struct slice value);
