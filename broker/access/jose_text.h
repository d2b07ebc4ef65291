/*
 * jose_text.h - the texts that JOSE is made of (RFC 7515, 7517), read strictly:
 * one byte string has one base64url text, and one JSON text has one meaning.
 *
 * Any thread.
 */
#pragma once

#include <jansson.h>

#include "proto/problem.h"

/* Arrays and objects inside of each other. jansson reads them by recursion, and
 * would let 2,048 pass. */
#define JOSE_DEPTH_MAX 16

/* Reads one JSON object with nothing behind it. STATUS_MALFORMED also for a
 * member that comes twice, whose meaning would depend on the reader, for a NUL
 * in a string and a number that is too large. The caller releases *object. */
MUST_CHECK enum status jose_object(json_t **object, struct slice text,
                                   struct problem *why);

/* Returns a member that is a string; data is NULL if it is absent or of another
 * type. Lent by `object`. */
struct slice jose_string(const json_t *object, const char *name);

/* True if `list` is an array with that string. NULL is none. */
bool jose_lists(const json_t *list, const char *text);

/* True if `text` is base64url without padding, white space or stray bits; *size
 * bytes are then in `to`, which has `room`. Too small a room: false. */
MUST_CHECK bool jose_base64url(void *to, size_t room, size_t *size,
                               struct slice text);

/* Writes base64url without padding, and a NUL: `to` has room for 4 characters
 * for each 3 bytes begun, and for the NUL. */
void jose_base64url_write(char *to, struct slice bytes);
