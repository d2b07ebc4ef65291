/*
 * path_pattern.h - paths with holes: "/sets/{set}/changes/{list}.xml". One at
 * the end, "{uri}" or "{tile}", takes the rest of the path, with its slashes;
 * another one there, "{page}", may be empty.
 */
#pragma once

#include "proto/slice.h"

#define PATH_HOLES_MAX 3

/* True if `path` has the form of `pattern`. Sets `holes` to the parts of `path`
 * at the holes, in their order; unused ones are empty. The part at another hole
 * is not empty, has no slash, and ends before the next character of the
 * pattern. Only readers need the names of holes. */
bool path_pattern_match(const char *pattern, struct slice path,
                        struct slice holes[PATH_HOLES_MAX]);
