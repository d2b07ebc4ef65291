/*
 * idempotency_key.h - an idempotency key: what a source calls its post by, so
 * that the post can be repeated and is kept once.
 *
 * 1 to 255 visible ASCII characters. In the header Idempotency-Key it stands
 * bare, or as the quoted string of draft-ietf-httpapi-idempotency-key-header
 * (a String of RFC 8941), which is the same key: 8e03978e, "8e03978e".
 */
#pragma once

#include "proto/problem.h"

#define KEY_SIZE_MAX 255

/* Quotes, and every character escaped. */
#define KEY_QUOTED_MAX (2 * KEY_SIZE_MAX + 2)

/* The longest name of an owner, terminated. */
#define KEY_OWNER_SIZE 201

struct key {
    char text[KEY_SIZE_MAX]; /* not terminated */
    size_t size;             /* 0: no key */

    /* Keys of different owners differ, whatever their text. key_read leaves
     * "", the owner of clients without a name. */
    char owner[KEY_OWNER_SIZE];
};

bool key_is_valid(struct slice text);

/* Reads the header's value, without white space around it, in either form.
 * STATUS_MALFORMED: no key. */
MUST_CHECK enum status key_read(struct slice value, struct key *key,
                                struct problem *why);

/* Writes a valid key as a quoted string, not terminated; returns its size. */
size_t key_write(char to[KEY_QUOTED_MAX], struct slice key);

static inline struct slice
key_slice(const struct key *key)
{
    return (struct slice){key->text, key->size};
}
