/*
 * memory.h - blocks of memory, and what happens when there is none.
 *
 * A program that nobody waits for in vain may end when it has no memory for a
 * few bytes: tidingsd does. It is proved safe at any moment (kill -9), starts
 * again in milliseconds, and Linux ends a process long before malloc() refuses
 * a small block. So none of its functions has a way back for that. A block of
 * MEMORY_SMALL bytes and more (a body, a cache, a budget) is refused as ever:
 * its request gets 503.
 *
 * libtidings and the command line never say memory_end_without_small(): there
 * each of these functions may return NULL, as malloc() does, and each caller
 * has a way back.
 *
 * Any thread. The blocks are freed by free().
 */
#pragma once

#include "proto/c.h"

/* Bytes. A block that is smaller is small. */
#define MEMORY_SMALL 65536

/* From now on `end` is called, and does not return, when there is no memory for
 * a small block. Before the first thread. */
void memory_end_without_small(void (*end)(size_t size));

/* For the allocator of a library: `block`, which it got for `size` bytes. */
void *memory_got(void *block, size_t size);

/* `n` times `size` bytes of zeros. */
void *memory_new(size_t n, size_t size);

/* `size` bytes, not set. */
void *memory_room(size_t size);

/* `block` (or NULL), moved to where it has room for `n` times `size` bytes. If
 * there is none, `block` stays as it is, and the result is NULL. */
void *memory_grow(void *block, size_t n, size_t size);
