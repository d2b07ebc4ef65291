/*
 * arena.h - bytes that stay where they are until all of them go at once.
 *
 * What a reader copies out of an entry lives exactly as long as the entry; a
 * buf would not do, because its memory moves when it grows.
 */
#pragma once

#include "proto/slice.h"

struct arena_block;

struct arena {
    char *at;                   /* next free byte */
    char *end;                  /* of the block in use */
    struct arena_block *blocks; /* newest first */
    size_t used;                /* bytes given since arena_clear */
    size_t max;
};

void arena_init(struct arena *arena, size_t max);
void arena_fini(struct arena *arena);

/* Takes back everything that was given. */
void arena_clear(struct arena *arena);

/* The rest of arena_take, for a full block. */
char *arena_take_more(struct arena *arena, size_t size);

/* `size` bytes, not aligned; NULL over the maximum or without memory. */
static inline char *
arena_take(struct arena *arena, size_t size)
{
    char *p = arena->at;

    if (size > (size_t)(arena->end - p) || size > arena->max - arena->used)
        return arena_take_more(arena, size);
    arena->at += size;
    arena->used += size;
    return p;
}

/* A copy of `text`, which may be empty. False: as arena_take; *copy stays. */
static inline bool
arena_copy(struct arena *arena, struct slice text, struct slice *copy)
{
    char *to = arena_take(arena, text.size);

    if (!to)
        return false;
    if (text.size > 0)
        memcpy(to, text.data, text.size);
    *copy = (struct slice){to, text.size};
    return true;
}
