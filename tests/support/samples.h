/*
 * samples.h - what GET /metrics says, read strictly.
 *
 * Knows nothing of the broker's tables: the rules are those of Prometheus' text
 * format 0.0.4 and of its naming conventions, as promtool checks them.
 */
#ifndef TESTS_SUPPORT_SAMPLES_H
#define TESTS_SUPPORT_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/slice.h"

#define SAMPLES_MAX 1000

struct sample {
    char series[200]; /* as it stands: NAME or NAME{LABEL="VALUE",...} */
    double value;
};

struct samples {
    struct sample all[SAMPLES_MAX];
    size_t n;
};

/* Reads a whole text; fails the test where it breaks a rule. */
void samples_read(struct samples *s, struct slice text);

/* The value of a series; fails the test if there is none. */
double samples_value(const struct samples *s, const char *series);

#endif
