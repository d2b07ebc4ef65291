/*
 * relaxed.h - atomic numbers that order nothing else: counts, limits, and flags
 * that may be seen late. Add and subtract return the value before.
 */
#pragma once

#include <stdatomic.h>

#define load_relaxed(from) atomic_load_explicit((from), memory_order_relaxed)
#define store_relaxed(to, value) \
    atomic_store_explicit((to), (value), memory_order_relaxed)
#define add_relaxed(to, n) \
    atomic_fetch_add_explicit((to), (n), memory_order_relaxed)
#define subtract_relaxed(from, n) \
    atomic_fetch_sub_explicit((from), (n), memory_order_relaxed)
