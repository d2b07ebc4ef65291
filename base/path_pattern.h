/*
 * path_pattern.h - paths with holes: "/sets/{set}/changes/{list}.xml".
 */
#ifndef BASE_PATH_PATTERN_H
#define BASE_PATH_PATTERN_H

#include <stdbool.h>

#include "proto/slice.h"

#define PATH_HOLES_MAX 3

/* True if `path` has the form of `pattern`. Then `holes` has what stands at the
 * holes, in their order, as parts of `path`; unused ones are empty. What stands
 * at a hole is not empty, has no slash, and ends before the next character of
 * the pattern. The names of holes are for the reader alone. */
bool path_pattern_match(const char *pattern, struct slice path,
                        struct slice holes[PATH_HOLES_MAX]);

#endif
