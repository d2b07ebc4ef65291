/*
 * array.h - arrays that grow by one element.
 *
 *     if (!ONE_MORE(x->all, &x->capacity, x->n))
 *         return STATUS_MEMORY;
 *     x->all[x->n++] = ...
 */
#pragma once

#include "proto/memory.h"

/* The array with room for one more element; NULL: no memory. */
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

/* Makes room for one more element of `array`, which may move. False: there is
 * no memory, and all is as before. */
#define ONE_MORE(array, capacity, n)                                        \
    __extension__({                                                         \
        void *roomy = one_more((array), (capacity), (n), sizeof(*(array))); \
        if (roomy)                                                          \
            (array) = roomy;                                                \
        roomy != NULL;                                                      \
    })
