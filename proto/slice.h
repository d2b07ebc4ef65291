/*
 * slice.h - bytes lent by somebody else; not terminated.
 */
#pragma once

#include <strings.h>

#include "proto/memory.h"

struct slice {
    const char *data; /* may be NULL when size is 0 */
    size_t size;
};

/* The slice of a string literal. */
#define SLICE(literal) ((struct slice){(literal), sizeof(literal) - 1})

/* The number of elements of an array. */
#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

/* For printf: printf("%.*s", SLICE_ARG(s)). */
#define SLICE_ARG(s) (int)(s).size, (s).data

static inline struct slice
slice_of(const char *text)
{
    return (struct slice){text, text ? strlen(text) : 0};
}

/* The bytes from `begin` up to `end`. */
static inline struct slice
slice_between(const char *begin, const char *end)
{
    return (struct slice){begin, (size_t)(end - begin)};
}

/* All but the first `at` bytes; there are so many. */
static inline struct slice
slice_from(struct slice s, size_t at)
{
    return (struct slice){s.data + at, s.size - at};
}

static inline bool
slice_equal(struct slice a, struct slice b)
{
    return a.size == b.size && (a.size == 0 || !memcmp(a.data, b.data, a.size));
}

/* True if the bytes of `part`, which may be empty, are some of those of
 * `whole`.
 */
static inline bool
slice_is_within(struct slice part, struct slice whole)
{
    return (uintptr_t)part.data - (uintptr_t)whole.data < whole.size;
}

/* Orders bytes as memcmp does, and a slice before its continuations. */
static inline int
slice_compare(struct slice a, struct slice b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size > 0 ? memcmp(a.data, b.data, size) : 0;

    return order ? order : (a.size > b.size) - (a.size < b.size);
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

/* Drops `text` off the front of `rest`, if it is there. */
static inline bool
slice_skip_start(struct slice *rest, const char *text)
{
    bool is_there = slice_starts(*rest, text);

    if (is_there)
        *rest = slice_from(*rest, strlen(text));
    return is_there;
}

/* True if it is `end`, or more and then `end`. */
static inline bool
slice_ends(struct slice a, const char *end)
{
    size_t size = strlen(end);

    return a.size >= size && !memcmp(a.data + a.size - size, end, size);
}

/* Where `word` first stands in it; NULL: nowhere. */
static inline const char *
slice_find(struct slice a, const char *word)
{
    return a.size > 0 ? memmem(a.data, a.size, word, strlen(word)) : NULL;
}

/* Moves *a behind the first `word` in it. False: there is none. */
static inline bool
slice_skip_past(struct slice *a, const char *word)
{
    const char *at = slice_find(*a, word);

    if (at)
        *a = slice_between(at + strlen(word), a->data + a->size);
    return at;
}

/* A copy, terminated, the caller's; NULL: no memory. (strndup looks for the end
 * of a string, which lent bytes do not have.) */
static inline char *
slice_dup(struct slice s)
{
    char *text = memory_room(s.size + 1);

    if (text) {
        if (s.size > 0)
            memcpy(text, s.data, s.size);
        text[s.size] = '\0';
    }
    return text;
}

/* Copies it to a text of `room` bytes, terminated. False: it does not fit, or
 * has a NUL within. */
static inline bool
slice_copy(char *to, size_t room, struct slice s)
{
    if (s.size >= room || (s.size > 0 && memchr(s.data, '\0', s.size)))
        return false;
    if (s.size > 0)
        memcpy(to, s.data, s.size);
    to[s.size] = '\0';
    return true;
}

/* At most the first `max` bytes of a text in UTF-8: cuts no character in
 * two. */
static inline struct slice
slice_cut(struct slice text, size_t max)
{
    if (text.size <= max)
        return text;
    while (max > 0 && ((unsigned char)text.data[max] & 0xc0) == 0x80)
        max--;
    return (struct slice){text.data, max};
}

/* Is it `word`, in whatever case? */
static inline bool
slice_is_word(struct slice a, const char *word)
{
    return a.size == strlen(word) &&
           (a.size == 0 || !strncasecmp(a.data, word, a.size));
}

/* Does it begin with `word`, in whatever case? */
static inline bool
slice_starts_word(struct slice a, const char *word)
{
    size_t size = strlen(word);

    return a.size >= size && !strncasecmp(a.data, word, size);
}

static inline bool
slice_is_ascii(struct slice s)
{
    for (size_t i = 0; i < s.size; i++)
        if ((unsigned char)s.data[i] >= 0x80)
            return false;
    return true;
}

/* True if all its bytes are among `allowed`. */
static inline bool
slice_is_of(struct slice s, const char *allowed)
{
    size_t size = 0;

    while (size < s.size && s.data[size] && strchr(allowed, s.data[size]))
        size++;
    return size == s.size;
}

/* The white space that headers have around their parts (OWS, RFC 9110 section
 * 5.6.3). */
static inline bool
slice_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* True if `c` is a control character other than the tab: no field of a head may
 * have one (RFC 9110 section 5.5). */
static inline bool
slice_is_control(char c)
{
    return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

/* Drops the first `size` bytes; there are so many. */
static inline void
slice_skip(struct slice *rest, size_t size)
{
    rest->data += size;
    rest->size -= size;
}

static inline void
slice_skip_blanks(struct slice *rest)
{
    while (rest->size > 0 && slice_is_blank(rest->data[0]))
        slice_skip(rest, 1);
}

static inline struct slice
slice_trimmed(struct slice s)
{
    slice_skip_blanks(&s);
    while (s.size > 0 && slice_is_blank(s.data[s.size - 1]))
        s.size--;
    return s;
}

/* Takes `c` off the front of `rest`, if it is there. */
static inline bool
slice_take_char(struct slice *rest, char c)
{
    if (rest->size == 0 || rest->data[0] != c)
        return false;
    slice_skip(rest, 1);
    return true;
}

/* Takes what stands before the first of `ends` off the front of `rest`; all
 * where there is none. The end stays. */
static inline struct slice
slice_take_until(struct slice *rest, const char *ends)
{
    struct slice taken = {rest->data, 0};

    while (taken.size < rest->size &&
           !memchr(ends, rest->data[taken.size], strlen(ends)))
        taken.size++;
    if (taken.size > 0)
        slice_skip(rest, taken.size);
    return taken;
}

/* True if `word` is one of the words of `words`, which have white space between
 * them, in whatever case: the relations of a link (RFC 8288). */
static inline bool
slice_has_word(struct slice words, const char *word)
{
    while (words.size > 0) {
        struct slice one = slice_take_until(&words, " \t\n\f\r");

        if (one.size > 0 && slice_is_word(one, word))
            return true;
        slice_skip(&words, words.size > 0);
    }
    return false;
}

/* White space of XML and JSON. */
static inline bool
slice_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static inline struct slice
slice_without_spaces(struct slice s)
{
    while (s.size > 0 && slice_is_space(s.data[0]))
        slice_skip(&s, 1);
    while (s.size > 0 && slice_is_space(s.data[s.size - 1]))
        s.size--;
    return s;
}

/* Takes what stands before the next `end` off the front of `rest`, and `end`
 * with it. False: there is none, and all stays. */
static inline bool
slice_take_to(struct slice *rest, char end, struct slice *taken)
{
    const char *at =
        rest->size > 0 ? memchr(rest->data, end, rest->size) : NULL;

    if (at) {
        *taken = slice_between(rest->data, at);
        slice_skip(rest, taken->size + 1);
    }
    return at;
}

/* The same; takes all where there is none. */
static inline struct slice
slice_take(struct slice *rest, char end)
{
    struct slice taken = *rest;

    if (!slice_take_to(rest, end, &taken) && rest->size > 0)
        slice_skip(rest, rest->size); /* not even 0 may be added to NULL */
    return taken;
}
