/*
 * buf.h - bytes that grow, up to a maximum given at birth.
 *
 * A failed append (over the maximum, or no memory) is remembered in `failed`,
 * and every later append does nothing: check once, at the end.
 */
#pragma once

#include <endian.h>

#include "proto/slice.h"

struct buf {
    char *data; /* NULL until something was added; not terminated */
    size_t size;
    size_t capacity;
    size_t max; /* {.max = MAX} is an empty one, as after buf_init */
    bool failed;
    bool is_starved; /* it failed for want of memory, not over the maximum */
};

void buf_init(struct buf *b, size_t max);
void buf_fini(struct buf *b);

/* A buffer in memory of the caller, of `size` bytes: it never grows. No
 * buf_fini. */
static inline void
buf_init_fixed(struct buf *b, char *memory, size_t size)
{
    *b = (struct buf){.data = memory, .capacity = size, .max = size};
}

/* Empties it and forgets a failure; keeps the memory. */
void buf_clear(struct buf *b);

/* The same for a buffer that waits, or that others use next: one of more than
 * `keep` bytes loses its memory, so a peer that filled it once does not pin it.
 */
void buf_clear_large(struct buf *b, size_t keep);

/* Room for `size` more bytes, to be filled and then added to b->size by the
 * caller; NULL (and failed) when there is none. */
char *buf_room(struct buf *b, size_t size);

/* The rest of buf_add, if there is no room. */
void buf_add_more(struct buf *b, const void *data, size_t size);

/* Inline because a fragment is put together from some thirty short pieces. */
static inline void
buf_add(struct buf *b, const void *data, size_t size)
{
    if (size > 0 && size <= b->capacity - b->size && !b->failed) {
        memcpy(b->data + b->size, data, size);
        b->size += size;
    } else {
        buf_add_more(b, data, size);
    }
}

static inline void
buf_add_slice(struct buf *b, struct slice s)
{
    buf_add(b, s.data, s.size);
}

void buf_add_text(struct buf *b, const char *text);
void buf_add_number(struct buf *b, uint64_t number);
void buf_add_format(struct buf *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Lower-case hexadecimal. */
void buf_add_hex(struct buf *b, const uint8_t *bytes, size_t size);

/* The `size` bytes of a number, 1 to 8, the highest first. */
static inline void
buf_add_big_endian(struct buf *b, uint64_t number, size_t size)
{
    uint64_t big = htobe64(number << (64 - 8 * size));

    buf_add(b, &big, size);
}

/* Takes such a number off the front of *from. False: it has fewer bytes. */
static inline bool
slice_take_big_endian(struct slice *from, uint64_t *number, size_t size)
{
    uint64_t big = 0;

    if (from->size < size)
        return false;
    memcpy(&big, from->data, size);
    *number = be64toh(big) >> (64 - 8 * size);
    slice_skip(from, size);
    return true;
}

#define BUF_ADD(b, literal) buf_add((b), (literal), sizeof(literal) - 1)

static inline struct slice
buf_slice(const struct buf *b)
{
    return (struct slice){b->data, b->size};
}
