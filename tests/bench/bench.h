/*
 * bench.h - what every benchmark program needs: to give up, to read an option,
 * to know the time, to stay on its core.
 */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

/* "Stay on no core in particular." */
#define NO_CORE (-1)

/* Says why on standard error and ends the program with 1. A server it started
 * ends with it. */
_Noreturn void bench_fail(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Returns `memory`, or ends the program if it is NULL. */
void *bench_memory(void *memory);

/* Monotonic. */
uint64_t bench_now_ns(void);

/* Keeps the calling process on one core; says so if that cannot be. */
void bench_pin(int core);

/* Allows this process and its children as many descriptors as it may have. */
void bench_allow_files(void);

/* The value of an option, from min to max, or the end of the program. */
double bench_number(const char *option, const char *text, double min,
                    double max);

#endif
