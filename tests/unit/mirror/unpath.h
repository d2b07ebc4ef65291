/*
 * unpath.h - from a path of a mirror back to its URI, and whether it is a path
 * at all: written from what client/mirror/resource_path.h promises.
 */
#ifndef TESTS_UNIT_MIRROR_UNPATH_H
#define TESTS_UNIT_MIRROR_UNPATH_H

#include <stdbool.h>

/* Writes the URI, which is no longer than the path and 10 bytes. False: the
 * path is a digest. */
bool unpath(char *to, const char *path);

/* Is each of its names harmless, and of allowed length; is each of its
 * directories called what no file is called, and its file what no directory is?
 */
bool unpath_is_sound(const char *path);

#endif
