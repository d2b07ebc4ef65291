/*
 * fnv1a.h - the hash FNV-1a of 64 bits, of texts that nobody attacks.
 *
 * Kept positions, ETags and names of files have it: it never changes.
 */
#pragma once

#include "proto/slice.h"

#define FNV1A_BEGIN 0xcbf29ce484222325
#define FNV1A_PRIME 0x100000001b3

/* Continues `hash`, FNV1A_BEGIN at first, with the bytes of a text. */
static inline uint64_t
fnv1a(uint64_t hash, struct slice text)
{
    for (size_t i = 0; i < text.size; i++)
        hash = (hash ^ (unsigned char)text.data[i]) * FNV1A_PRIME;
    return hash;
}

/* The same with the terminator, which separates two texts. */
static inline uint64_t
fnv1a_text(uint64_t hash, const char *text)
{
    return fnv1a(hash, (struct slice){text, strlen(text) + 1});
}
