/*
 * suggest.h - "did you mean ...?": finds the known word that is nearest to a
 * misspelt one.
 */
#pragma once

#include "proto/slice.h"

/* Returns the number of letters to change, add, leave out, or swap with their
 * neighbour to make one word of the other (optimal string alignment). Case, '-'
 * and '_' do not count. SIZE_MAX if a word has more than SUGGEST_SIZE_MAX
 * letters. */
#define SUGGEST_SIZE_MAX 40

size_t suggest_distance(struct slice one, struct slice other);

/* Finds the nearest of the words passed to suggest_consider. At most a third of
 * the letters may differ, but one always may. */
struct suggestion {
    struct slice word;
    const char *nearest; /* NULL: none is near enough */
    size_t distance;
};

void suggest_begin(struct suggestion *s, struct slice word);
void suggest_consider(struct suggestion *s, const char *known);
