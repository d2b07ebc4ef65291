/*
 * token.h - tokens of HTTP (RFC 9110 section 5.6.2): letters, digits and
 * !#$%&'*+-.^_`|~
 */
#pragma once

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

/* Takes the token off the front of `rest`; empty: there is none. */
static inline struct slice
token_take(struct slice *rest)
{
    struct slice token = {rest->data, token_size(*rest)};

    if (token.size > 0) /* nothing may be added to NULL */
        slice_skip(rest, token.size);
    return token;
}

/* Takes a value off the front of `rest`: a token or a quoted-string (RFC 9110
 * section 5.6.4), without control characters. Copies what it means to `to`, as
 * much as there is room for, and returns its size in *size. False: neither is
 * there, or its end is not. */
bool token_take_value(struct slice *rest, char *to, size_t room, size_t *size);

/* True if `text` is one token. */
static inline bool
token_is(struct slice text)
{
    return text.size > 0 && token_size(text) == text.size;
}
