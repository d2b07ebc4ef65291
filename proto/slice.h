/*
 * slice.h - bytes lent by somebody else; not terminated.
 */
#ifndef PROTO_SLICE_H
#define PROTO_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct slice {
    const char *data; /* may be NULL when size is 0 */
    size_t size;
};

/* The slice of a string literal. */
#define SLICE(literal) ((struct slice){(literal), sizeof(literal) - 1})

/* For printf: printf("%.*s", SLICE_ARG(s)). */
#define SLICE_ARG(s) (int)(s).size, (s).data

static inline struct slice
slice_of(const char *text)
{
    return (struct slice){text, text ? strlen(text) : 0};
}

static inline bool
slice_equal(struct slice a, struct slice b)
{
    return a.size == b.size && (a.size == 0 || !memcmp(a.data, b.data, a.size));
}

static inline bool
slice_is(struct slice a, const char *text)
{
    return slice_equal(a, slice_of(text));
}

static inline bool
slice_starts(struct slice a, const char *text)
{
    size_t size = strlen(text);

    return a.size >= size && !memcmp(a.data, text, size);
}

/* A copy, terminated, the caller's; NULL: no memory. (strndup looks for the end
 * of a string, which lent bytes do not have.) */
static inline char *
slice_dup(struct slice s)
{
    char *text = malloc(s.size + 1);

    if (text) {
        if (s.size > 0)
            memcpy(text, s.data, s.size);
        text[s.size] = '\0';
    }
    return text;
}

#endif
