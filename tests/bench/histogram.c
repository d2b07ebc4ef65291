#include "tests/bench/histogram.h"

#define STEP_BITS 5 /* of HISTOGRAM_STEPS */

static unsigned
place_of(uint64_t ns)
{
    unsigned shift;

    if (ns < HISTOGRAM_STEPS)
        return (unsigned)ns;
    shift = 63 - (unsigned)__builtin_clzll(ns) - STEP_BITS;
    return (shift + 1) * HISTOGRAM_STEPS +
           ((unsigned)(ns >> shift) & (HISTOGRAM_STEPS - 1));
}

/* The middle of the range that a place counts. */
static double
time_at(unsigned place)
{
    unsigned shift = place / HISTOGRAM_STEPS;
    uint64_t step = place % HISTOGRAM_STEPS;

    if (shift == 0)
        return (double)step;
    return ((double)(step + HISTOGRAM_STEPS) + 0.5) *
           (double)(1ULL << (shift - 1));
}

void
histogram_add(struct histogram *h, uint64_t ns)
{
    h->counts[place_of(ns)]++;
    h->n++;
    if (ns > h->max_ns)
        h->max_ns = ns;
}

double
histogram_us(const struct histogram *h, double share)
{
    uint64_t wanted = (uint64_t)((double)h->n * share);
    uint64_t sum = 0;

    for (unsigned i = 0; share < 1 && i < 60 * HISTOGRAM_STEPS; i++) {
        sum += h->counts[i];
        if (sum > wanted && time_at(i) < (double)h->max_ns)
            return time_at(i) / 1000;
    }
    return (double)h->max_ns / 1000;
}
