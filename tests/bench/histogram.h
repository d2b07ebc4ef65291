/*
 * histogram.h - how long many things took, to within 3 %.
 *
 * Counts by the leading bits of a time: 32 steps for each power of two, so
 * adding is cheap and memory does not grow.
 */
#ifndef TESTS_BENCH_HISTOGRAM_H
#define TESTS_BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_STEPS 32

struct histogram {
    uint64_t n;
    uint64_t max_ns;
    uint64_t counts[60 * HISTOGRAM_STEPS];
};

void histogram_add(struct histogram *h, uint64_t ns);

/* The time, in µs, that a `share` (0 to 1) of all did not exceed; 1 gives the
 * longest. 0 if there were none. */
double histogram_us(const struct histogram *h, double share);

#endif
