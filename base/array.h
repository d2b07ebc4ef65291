/*
 * array.h - arrays that grow by one element, and searches in sorted ones.
 *
 *     if (!ONE_MORE(x->all, &x->capacity, x->n))
 *         return STATUS_MEMORY;
 *     x->all[x->n++] = ...
 *
 *     at = FIRST_FALSE(i, 0, x->n, x->all[i].key < key);
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

/* The first number `i` from `low` on for which `is_before` is false; `high` if
 * it is true for all before that. It is true for no number behind a false
 * one. */
#define FIRST_FALSE(i, low, high, is_before)                           \
    __extension__({                                                    \
        __typeof__((high) + 0) i##_from = (low), i##_to = (high);      \
        while (i##_from < i##_to) {                                    \
            __typeof__(i##_to) i = i##_from + (i##_to - i##_from) / 2; \
            if (is_before)                                             \
                i##_from = i + 1;                                      \
            else                                                       \
                i##_to = i;                                            \
        }                                                              \
        i##_from;                                                      \
    })
