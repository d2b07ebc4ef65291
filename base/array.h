/*
 * array.h - arrays that grow by one element.
 *
 *     struct thing *all = ONE_MORE(x->all, &x->capacity, x->n);
 *
 *     if (!all)
 *         return STATUS_MEMORY;
 *     x->all = all;
 *     all[x->n++] = ...
 */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stddef.h>
#include <stdlib.h>

#include "proto/memory.h"

/* Makes room for one more element of an array; NULL: no memory. */
static inline void *
one_more(void *array, size_t *capacity, size_t n, size_t size)
{
    size_t larger;
    void *new;

    if (n < *capacity)
        return array;
    larger = *capacity ? *capacity * 2 : 16;
    new = memory_grow(array, larger, size);
    if (new)
        *capacity = larger;
    return new;
}

#define ONE_MORE(array, capacity, n) \
    one_more((array), (capacity), (n), sizeof(*(array)))

#endif
