/*
 * packages.h - a package index of Debian, as real changes to publish.
 */
#ifndef TESTS_SUPPORT_PACKAGES_H
#define TESTS_SUPPORT_PACKAGES_H

#include <stddef.h>

#include "tests/support/journal.h"

/* An index has at least so many packages; a smaller one is completed. */
#define PACKAGES_MIN 63000

struct packages {
    struct posted *all; /* their sha256 is lent by `digests` */
    char (*digests)[65];
    size_t n;
    size_t capacity;
    const char *from; /* where they come from, in words */
};

/* All packages that apt knows. Where it knows too few, because its lists were
 * never fetched: those that are installed, and numbered copies of them up to
 * PACKAGES_MIN. Locs are unique. Fails the test if there are none at all. */
void packages_open(struct packages *p);
void packages_close(struct packages *p);

#endif
