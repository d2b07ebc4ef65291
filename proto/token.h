/*
 * token.h - tokens of HTTP (RFC 9110 section 5.6.2): letters, digits and
 * !#$%&'*+-.^_`|~
 */
#ifndef PROTO_TOKEN_H
#define PROTO_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/slice.h"

/* By byte: true if a token may hold it. */
extern const bool token_char[256];

/* Returns how many bytes at the front of `text` may stand in a token. */
static inline size_t
token_size(struct slice text)
{
    size_t size = 0;

    while (size < text.size && token_char[(unsigned char)text.data[size]])
        size++;
    return size;
}

/* True if `text` is one token. */
static inline bool
token_is(struct slice text)
{
    return text.size > 0 && token_size(text) == text.size;
}

#endif
