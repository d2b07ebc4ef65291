/*
 * suggest.h - "did you mean ...?": the known word that a misspelt one is
 * nearest to.
 */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

#include "proto/slice.h"

/* Letters that have to be changed, added, left out, or swapped with their
 * neighbour, to make one of the other (optimal string alignment). More than
 * SUGGEST_SIZE_MAX bytes in one of them: SIZE_MAX. */
#define SUGGEST_SIZE_MAX 40

size_t suggest_distance(struct slice a, struct slice b);

/* The nearest of those that suggest_consider is given, if it is near enough to
 * be meant: no more than a third of the word is wrong, and at least one letter
 * may be. */
struct suggestion {
    struct slice word;
    const char *nearest; /* NULL: none is near enough */
    size_t distance;
};

void suggest_begin(struct suggestion *s, struct slice word);
void suggest_consider(struct suggestion *s, const char *known);

#endif
